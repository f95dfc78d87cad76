//! What is next, told by what there is.

use std::collections::BTreeSet;
use std::time::Instant;

use crate::journal::{Entry, Journal, Phase};
use crate::layout::{Layout, Need};
use crate::observed::{GpuDivision, Holder};
use crate::refusal::listed;
use crate::step::{InstanceAt, Step};

use super::{Change, Command, Doing, Failure, Machine, Outcome, Seen};

impl Machine {
    fn target(&self) -> &Layout {
        match self.phase {
            Phase::Forward => &self.wanted,
            Phase::Back => &self.former,
        }
    }

    /// The GPU was read.
    pub(super) fn decide(&mut self, seen: &Seen, now: Instant) -> Vec<Command> {
        self.unread = 0;
        let division = &seen.division;
        let as_planned = !self.planned || Layout::of(division).is_same(&self.former);
        self.planned = false;
        if !as_planned || Layout::is_foreign(division, &self.former, &self.wanted) {
            return self.leave(Outcome::Overtaken, seen);
        }
        let next = self.next(seen);
        match self.last.take() {
            Some((need, failure)) if next == Some(need) => {
                let failure = failure.unwrap_or_else(Failure::without_effect);
                return self.failed(need, failure, seen, now);
            }
            Some(_) => self.failures = 0,
            None => {}
        }
        match next {
            None => {
                let outcome = self.reached();
                self.clear(outcome)
            }
            Some(need) => self.go_on(need, seen, now),
        }
    }

    /// What has to be done next; absent: all is as it is to be.
    fn next(&self, seen: &Seen) -> Option<Need> {
        match self.target().next(&seen.division) {
            Some(Need::Reset) if self.policy.reset && seen.persistence == Some(true) => {
                Some(Need::Persistence(false))
            }
            None if self.owes(seen) => Some(Need::Persistence(true)),
            next => next,
        }
    }

    fn owes(&self, seen: &Seen) -> bool {
        self.owes_persistence && seen.persistence == Some(false)
    }

    fn reached(&mut self) -> Outcome {
        match (self.phase, self.cause.take()) {
            (Phase::Forward, _) => Outcome::Reached,
            (Phase::Back, cause) => Outcome::RolledBack { cause },
        }
    }

    fn go_on(&mut self, need: Need, seen: &Seen, now: Instant) -> Vec<Command> {
        if need == Need::Reset && !self.policy.reset {
            return self.put_off(need, Failure::reset_not_permitted(), seen, now);
        }
        let change = Change::of(need, &seen.division);
        let holders = in_use(self.target(), &seen.division);
        if !holders.is_empty() {
            return self.failed(need, Failure::in_use(&listed(holders.iter())), seen, now);
        }
        let is_written_first = match need {
            Need::Step(step) => step.is_destructive(),
            Need::Reset => true,
            Need::Persistence(on) => !on,
        };
        if self.written == Some(self.phase) && !is_written_first {
            return self.change(change);
        }
        self.owes_persistence |= need == Need::Persistence(false);
        self.doing = Doing::Journalling(change);
        vec![Command::Journal(Journal::V1(Entry {
            gpu: self.gpu.clone(),
            former: self.former.clone(),
            wanted: self.wanted.clone(),
            phase: self.phase,
            next: need,
            restore_persistence: self.owes_persistence,
        }))]
    }

    /// What was to be done next was not: it is tried again, or given up.
    fn failed(&mut self, need: Need, failure: Failure, seen: &Seen, now: Instant) -> Vec<Command> {
        self.failures += 1;
        if self.failures < self.policy.attempts {
            self.doing = Doing::Resting(now + self.policy.pause);
            return Vec::new();
        }
        match (self.phase, need) {
            (_, Need::Reset | Need::Persistence(false)) => self.put_off(need, failure, seen, now),
            // The layout is as it is to be, and going back would not help.
            (_, Need::Persistence(true)) => self.stuck(need, failure, seen),
            (Phase::Forward, Need::Step(_)) => {
                self.turn_back(need, failure);
                self.decide(seen, now)
            }
            (Phase::Back, Need::Step(_)) => self.stuck(need, failure, seen),
        }
    }

    /// The change of mode waits for a reset that is not to be had.
    fn put_off(&mut self, need: Need, failure: Failure, seen: &Seen, now: Instant) -> Vec<Command> {
        match self.phase {
            // The journal stays: after the reboot it goes on.
            _ if self.policy.reboot => self.leave(Outcome::RebootRequired { failure }, seen),
            Phase::Forward => {
                self.turn_back(need, failure);
                self.decide(seen, now)
            }
            Phase::Back => self.stuck(need, failure, seen),
        }
    }

    /// From now on the former layout is what is to be reached.
    pub(super) fn turn_back(&mut self, need: Need, failure: Failure) {
        self.phase = Phase::Back;
        self.failures = 0;
        self.cause = Some((need, failure));
    }

    fn stuck(&mut self, need: Need, failure: Failure, seen: &Seen) -> Vec<Command> {
        let missing = self.target().missing(&seen.division);
        let cause = self.cause.take();
        let outcome = Outcome::Stuck { cause, need, failure, missing };
        // Turning persistence mode on was what failed.
        if need == Need::Persistence(true) { self.end(outcome) } else { self.leave(outcome, seen) }
    }

    /// Ends; not with persistence mode off that was on before.
    fn leave(&mut self, outcome: Outcome, seen: &Seen) -> Vec<Command> {
        if !self.owes(seen) {
            return self.close(outcome);
        }
        self.doing = Doing::Restoring(outcome);
        vec![Command::Change(Change::of(Need::Persistence(true), &seen.division))]
    }

    /// The GPU could not be read.
    pub(super) fn unread(&mut self, failure: Failure, now: Instant) -> Vec<Command> {
        self.unread += 1;
        if self.unread < self.policy.attempts {
            self.doing = Doing::Resting(now + self.policy.pause);
            return Vec::new();
        }
        self.end(Outcome::Unreadable { failure, changed: self.written.is_some() })
    }
}

/// Who uses what has to be destroyed on the way to this layout, now or later: it is known before the first of it goes.
fn in_use(target: &Layout, division: &GpuDivision) -> BTreeSet<Holder> {
    let changes_mode = division.mode.is_some_and(|mode| mode.current != target.mode);
    let whole = division.holders.iter().filter(|_| changes_mode);
    let parts = target.destroyed(division).into_iter().flat_map(|step| users(step, division));
    whole.cloned().chain(parts).collect()
}

/// Who uses what this step destroys.
fn users(step: Step, division: &GpuDivision) -> Vec<Holder> {
    let find = |at: InstanceAt| division.instances.iter().find(|instance| instance.at() == at);
    match step {
        Step::DestroyInstance(at) => {
            find(at).map(|instance| instance.all_holders().cloned().collect()).unwrap_or_default()
        }
        Step::DestroyCompute { within, compute } => {
            let Some(instance) = find(within) else { return Vec::new() };
            let own = instance.computes.iter().find(|there| there.at() == compute);
            let own = own.map(|there| there.holders.as_slice()).unwrap_or_default();
            instance.holders.iter().chain(own).cloned().collect()
        }
        Step::SetMode(_) | Step::CreateInstance(_) | Step::CreateCompute { .. } => Vec::new(),
    }
}
