//! Carries out the plan of one GPU: a state machine without I/O.
//!
//! ```text
//!             as planned, or of a journal          destructive, or the first
//!   read -------------------------------> next? ----------------------------> journal --.
//!    ^  \                                  |   \ else                                    |
//!    |   \ someone else changed it         |    '------------------> change <------------'
//!    |    '--> overtaken                   | none                      |
//!    |                                     v                           |
//!    |                       clear the journal: reached, rolled back   |
//!    '-----------------------------------------------------------------'
//! ```
//!
//! - After each change the GPU is read again, and what is next is told by what there is. So a step that was done though the
//!   driver reported an error counts as done, and one that had no effect though it reported none counts as failed.
//! - A step that fails is tried again a few times. Then the former layout is put back, with its places.
//! - Before the first change in each direction, and before each that destroys something, it is written down where all came
//!   from and is to get to. The journal is removed when the GPU, read again, is in one of the two. Otherwise it stays, and the next start goes
//!   on from there.
//! - What came into use since it was planned is not destroyed, nor anything before it.
//! - Persistence mode is turned off where a reset is needed and it is on, and is on again before it ends, however it ends.
//! - Where something is there that neither layout has, someone else changes the GPU too. It is left as it is.

mod decide;
mod event;

use std::time::{Duration, Instant};

use gpulet_inventory::gpu::GpuUuid;

use crate::journal::{Entry, Journal, Phase};
use crate::layout::{Layout, Need};
use crate::observed::GpuDivision;
use crate::plan::Plan;

pub use event::{Change, Command, Event, Failure, Outcome, Seen};

/// What is permitted, and how long is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How often one thing is tried.
    pub attempts: u32,
    /// How long after a failure it is tried again.
    pub pause: Duration,
    /// Whether the GPU may be reset, where the driver puts off a change of mode until then.
    pub reset: bool,
    /// Whether to wait for a reboot, where a reset is not permitted or fails.
    pub reboot: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self { attempts: 3, pause: Duration::from_secs(1), reset: true, reboot: false }
    }
}

/// One GPU on its way.
#[derive(Debug)]
pub struct Machine {
    gpu: GpuUuid,
    former: Layout,
    wanted: Layout,
    policy: Policy,
    phase: Phase,
    doing: Doing,
    /// It was planned for what there was; after a crash there may be anything between the two layouts.
    planned: bool,
    /// The direction that the journal on disk tells; absent: there is none.
    written: Option<Phase>,
    /// How often in a row the same thing failed.
    failures: u32,
    /// How often in a row the GPU could not be read.
    unread: u32,
    /// What was done last, until it is seen whether it had an effect.
    last: Option<(Need, Option<Failure>)>,
    /// Why it goes back.
    cause: Option<(Need, Failure)>,
    /// Persistence mode was on before it was turned off here.
    owes_persistence: bool,
}

/// What is waited for.
#[derive(Debug)]
enum Doing {
    Nothing,
    Reading,
    Journalling(Change),
    Changing,
    Resting(Instant),
    /// Persistence mode is being turned on, whatever comes of it.
    Restoring(Outcome),
    Clearing(Outcome),
    Done(Outcome),
}

impl Machine {
    /// From what there is, by this plan.
    pub fn new(division: &GpuDivision, plan: &Plan, policy: Policy) -> Self {
        let former = Layout::of(division);
        let wanted = former.clone().after(&plan.steps);
        Self::between(division.gpu.clone(), former, wanted, Phase::Forward, policy)
    }

    /// Goes on with what a crash has cut off, in the direction that it had.
    pub fn recover(journal: Journal, policy: Policy) -> Self {
        let Journal::V1(Entry { gpu, former, wanted, phase, next: _, restore_persistence }) = journal;
        let machine = Self::between(gpu, former, wanted, phase, policy);
        Self { planned: false, written: Some(phase), owes_persistence: restore_persistence, ..machine }
    }

    fn between(gpu: GpuUuid, former: Layout, wanted: Layout, phase: Phase, policy: Policy) -> Self {
        Self {
            gpu,
            former,
            wanted,
            policy,
            phase,
            doing: Doing::Nothing,
            planned: true,
            written: None,
            failures: 0,
            unread: 0,
            last: None,
            cause: None,
            owes_persistence: false,
        }
    }

    /// When [`Event::Woken`] is due, if nothing else happens.
    pub fn next_wake(&self) -> Option<Instant> {
        match self.doing {
            Doing::Resting(until) => Some(until),
            _ => None,
        }
    }

    /// How it ended; absent while it is under way.
    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.doing {
            Doing::Done(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Something happened; what is to be done now. The first event is [`Event::Woken`].
    pub fn step(&mut self, event: Event, now: Instant) -> Vec<Command> {
        match (std::mem::replace(&mut self.doing, Doing::Nothing), event) {
            (Doing::Nothing, Event::Woken) => self.read(),
            (Doing::Resting(until), Event::Woken) if now >= until => self.read(),
            (Doing::Reading, Event::Read(Ok(seen))) => self.decide(&seen, now),
            (Doing::Reading, Event::Read(Err(failure))) => self.unread(failure, now),
            (Doing::Journalling(change), Event::Journalled(Ok(()))) => {
                self.written = Some(self.phase);
                self.change(change)
            }
            // What is on disk names both layouts: enough to go on.
            (Doing::Journalling(change), Event::Journalled(Err(_))) if self.phase == Phase::Back => {
                self.change(change)
            }
            (Doing::Journalling(change), Event::Journalled(Err(failure))) => {
                self.turn_back(change.need, failure);
                self.read()
            }
            (Doing::Changing, Event::Changed(result)) => {
                if let Some((_, failure)) = &mut self.last {
                    *failure = result.err();
                }
                self.read()
            }
            (Doing::Restoring(outcome), Event::Changed(Ok(()))) => self.close(outcome),
            // The journal stays, and with it what is owed.
            (Doing::Restoring(outcome), Event::Changed(Err(_))) => self.end(outcome),
            (Doing::Clearing(outcome), Event::Journalled(_)) => self.end(outcome),
            // An event that nothing waits for.
            (doing, _) => {
                self.doing = doing;
                Vec::new()
            }
        }
    }

    fn read(&mut self) -> Vec<Command> {
        self.doing = Doing::Reading;
        vec![Command::Read]
    }

    fn change(&mut self, change: Change) -> Vec<Command> {
        self.last = Some((change.need, None));
        self.doing = Doing::Changing;
        vec![Command::Change(change)]
    }

    fn end(&mut self, outcome: Outcome) -> Vec<Command> {
        self.doing = Doing::Done(outcome);
        Vec::new()
    }

    /// Ends, with the journal gone unless there is something left to go on with.
    fn close(&mut self, outcome: Outcome) -> Vec<Command> {
        match outcome.leaves_journal() {
            true => self.end(outcome),
            false => self.clear(outcome),
        }
    }

    /// Ends with nothing left to go on with.
    fn clear(&mut self, outcome: Outcome) -> Vec<Command> {
        if self.written.is_none() {
            return self.end(outcome);
        }
        self.doing = Doing::Clearing(outcome);
        vec![Command::ClearJournal]
    }
}
