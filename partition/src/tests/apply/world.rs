//! A GPU, a disk and a time of their own.

use std::fmt;
use std::rc::Rc;
use std::time::Instant;

use gpulet_inventory::mig::MigMode;

use super::super::layouts::Layouts;
use super::super::model::carry_out_one;
use super::super::tables::{a30, divided, wanted};
use crate::apply::{Change, Command, Event, Failure, Machine, Outcome, Policy, Seen};
use crate::desired::Wanted;
use crate::journal::Journal;
use crate::layout::{Layout, Need};
use crate::observed::GpuDivision;
use crate::plan::{Plan, plan_gpu};
use crate::step::Step;

/// How a change goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is refused.
    Refused,
    /// It is made, and reported as failed.
    Late,
    /// It is not made, and reported as made.
    Silent,
}

/// Where the agent dies: at this command, before it has an effect or after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Crash {
    pub(super) at: usize,
    pub(super) after: bool,
}

pub(super) struct World {
    pub(super) division: GpuDivision,
    /// What is written, as bytes: a journal has to come back from a file.
    pub(super) disk: Option<String>,
    /// Goes wrong, in this way, from the change of this number on, so many times.
    pub(super) fault: Option<(usize, Fault, usize)>,
    pub(super) crash: Option<Crash>,
    /// The disk is full from this write on.
    pub(super) full_from: Option<usize>,
    /// The driver does not answer when it is read, from this read on.
    pub(super) silent_from: Option<usize>,
    /// Changes of mode are put off until a reset.
    pub(super) puts_off: bool,
    /// Resets are refused.
    pub(super) no_reset: bool,
    /// Persistence mode; while it is on, resets are refused.
    pub(super) persistence: Option<bool>,
    /// What was asked for.
    pub(super) commands: usize,
    pub(super) changes: Vec<Need>,
    pub(super) writes: usize,
    pub(super) reads: usize,
    pub(super) layouts: Rc<Layouts>,
    pub(super) now: Instant,
}

pub(super) fn failure(reason: &str) -> Failure {
    Failure { reason: reason.to_owned(), message: format!("{reason}: simulated") }
}

impl World {
    fn new(division: GpuDivision, layouts: Rc<Layouts>) -> Self {
        #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
        let now = Instant::now();
        Self {
            layouts,
            division,
            disk: None,
            fault: None,
            crash: None,
            full_from: None,
            silent_from: None,
            puts_off: false,
            no_reset: false,
            persistence: None,
            commands: 0,
            changes: Vec::new(),
            writes: 0,
            reads: 0,
            now,
        }
    }

    pub(super) fn layout(&self) -> Layout {
        Layout::of(&self.division)
    }

    /// Runs it to its end; absent where the agent died before.
    pub(super) fn run(&mut self, mut machine: Machine) -> Option<Outcome> {
        let mut commands = machine.step(Event::Woken, self.now);
        for _ in 0..1000 {
            if let Some(outcome) = machine.outcome() {
                assert!(commands.is_empty(), "{commands:?} after the end");
                return Some(outcome.clone());
            }
            let event = match commands.pop() {
                Some(command) => self.execute(command)?,
                None => {
                    self.now = machine.next_wake().expect("it waits for nothing");
                    Event::Woken
                }
            };
            assert!(commands.is_empty(), "one at a time");
            commands = machine.step(event, self.now);
        }
        panic!("it does not come to an end");
    }

    /// Runs it anew from what is on disk.
    pub(super) fn restart(&mut self, policy: Policy) -> Option<Outcome> {
        let journal: Journal = serde_json::from_str(self.disk.as_ref()?).unwrap();
        self.run(Machine::recover(journal, policy))
    }

    fn execute(&mut self, command: Command) -> Option<Event> {
        let crash = self.crash.filter(|crash| crash.at == self.commands);
        self.commands += 1;
        if crash.is_some_and(|crash| !crash.after) {
            return None;
        }
        let event = match command {
            Command::Read => self.read(),
            Command::Journal(journal) => self.write(Some(serde_json::to_string(&journal).unwrap())),
            Command::ClearJournal => self.write(None),
            Command::Change(change) => Event::Changed(self.change(change)),
        };
        crash.is_none().then_some(event)
    }

    fn read(&mut self) -> Event {
        self.reads += 1;
        if self.silent_from.is_some_and(|from| self.reads > from) {
            return Event::Read(Err(failure("TimedOut")));
        }
        Event::Read(Ok(Seen { division: self.division.clone(), persistence: self.persistence }))
    }

    fn write(&mut self, journal: Option<String>) -> Event {
        self.writes += 1;
        if self.full_from.is_some_and(|from| self.writes > from) {
            return Event::Journalled(Err(failure("NoSpace")));
        }
        self.disk = journal;
        Event::Journalled(Ok(()))
    }

    fn change(&mut self, change: Change) -> Result<(), Failure> {
        let number = self.changes.len();
        self.changes.push(change.need);
        assert!(
            self.disk.is_some() || self.full_from.is_some(),
            "nothing is changed before it is written down"
        );
        let fault = self.fault.filter(|(from, _, times)| (*from..from + times).contains(&number));
        match fault.map(|(_, fault, _)| fault) {
            None => self.really_change(change),
            Some(Fault::Refused) => Err(failure("Refused")),
            Some(Fault::Silent) => Ok(()),
            Some(Fault::Late) => {
                self.really_change(change).unwrap();
                Err(failure("TimedOut"))
            }
        }
    }

    fn really_change(&mut self, change: Change) -> Result<(), Failure> {
        match change.need {
            Need::Reset if self.no_reset || self.persistence == Some(true) => Err(failure("ResetFailed")),
            Need::Persistence(on) => {
                self.persistence = Some(on);
                Ok(())
            }
            Need::Reset => {
                self.reset();
                Ok(())
            }
            Need::Step(Step::SetMode(on)) if self.puts_off => {
                self.division.mode.as_mut().unwrap().pending = on;
                Ok(())
            }
            Need::Step(step) => {
                self.numbers_fit(change, &step);
                carry_out_one(&mut self.division, &self.layouts, &step).map_err(failure)
            }
        }
    }

    /// No instance survives it.
    pub(super) fn reset(&mut self) {
        let mode = self.division.mode.as_mut().unwrap();
        *mode = MigMode { current: mode.pending, pending: mode.pending };
        self.division.instances.clear();
    }

    /// The driver's numbers that come with a change are those of what the step names.
    fn numbers_fit(&self, change: Change, step: &Step) {
        let find = |at| self.division.instances.iter().find(|there| there.at() == at).unwrap();
        let (instance, compute) = match step {
            Step::SetMode(_) | Step::CreateInstance(_) => (None, None),
            Step::DestroyInstance(at) => (Some(find(*at).id), None),
            Step::CreateCompute { within, .. } => (Some(find(*within).id), None),
            Step::DestroyCompute { within, compute } => {
                let instance = find(*within);
                let own = instance.computes.iter().find(|there| there.at() == *compute).unwrap();
                (Some(instance.id), Some(own.id))
            }
        };
        assert_eq!((change.instance, change.compute), (instance, compute));
    }
}

/// A way from one layout to another.
#[derive(Clone)]
pub(super) struct Way {
    pub(super) from: GpuDivision,
    pub(super) plan: Plan,
    layouts: Rc<Layouts>,
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} by {:?}", self.former(), self.plan.steps)
    }
}

impl Way {
    pub(super) fn new(from: GpuDivision, wanted: &Wanted) -> Self {
        let layouts = Rc::new(Layouts::of(&from));
        Self::with(from, wanted, layouts)
    }

    pub(super) fn with(from: GpuDivision, wanted: &Wanted, layouts: Rc<Layouts>) -> Self {
        let plan = plan_gpu(&from, wanted).unwrap();
        Self { from, plan, layouts }
    }

    pub(super) fn former(&self) -> Layout {
        Layout::of(&self.from)
    }

    pub(super) fn wanted(&self) -> Layout {
        self.former().after(&self.plan.steps)
    }

    pub(super) fn machine(&self) -> Machine {
        Machine::new(&self.from, &self.plan, Policy::default())
    }

    pub(super) fn world(&self) -> World {
        World::new(self.from.clone(), Rc::clone(&self.layouts))
    }
}

/// From every layout of four slices to every goal that needs a step, and out of MIG mode.
pub(super) fn all_ways() -> Vec<Way> {
    let mut empty = a30();
    empty.profiles.retain(|profile| !profile.name.ends_with("+me"));
    let layouts = Rc::new(Layouts::of(&empty));
    let ids = |layout: &u64| {
        let spots = layouts.members(*layout).map(|spot| layouts.spots[spot]);
        spots.map(|(at, start)| (empty.profiles[at].id, start)).collect::<Vec<_>>()
    };
    let goals = layouts.by_counts.values().map(|alike| {
        let profiles: Vec<u32> = ids(&alike[0].0).into_iter().map(|(id, _)| id).collect();
        Wanted::On(wanted(&empty, &profiles))
    });
    let goals: Vec<Wanted> = goals.chain([Wanted::Off]).collect();
    let mut ways = Vec::new();
    for layout in &layouts.all {
        let from = divided(empty.clone(), &ids(layout));
        ways.extend(goals.iter().map(|goal| Way::with(from.clone(), goal, Rc::clone(&layouts))));
    }
    ways.retain(|way| !way.plan.steps.is_empty());
    ways
}
