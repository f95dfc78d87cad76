//! How it ends, and putting back what was changed around the GPUs.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::{Duration, Instant};

use crate::apply::Failure;
use crate::observed::PodName;
use crate::reboot::{self, Decision};

use super::act::{Next, is_left_behind};
use super::event::{GpuEnd, GpuResult, Standing};
use super::journal::Reached;
use super::status::{self, GpuStatus, State, Status, StatusChange};
use super::{
    Attempt, Declared, Drained, For, Goal, InTheWay, Phase, Protocol, Retry, UnderWay, Verdict, WhenBusy,
    clients,
};

/// Looks one upon the other that are made as soon as there may be news.
const AT_ONCE: u32 = 4;

impl Protocol {
    fn declared(&self) -> Option<&Declared> {
        match &self.goal {
            Goal::Reach(declared) => Some(declared),
            _ => None,
        }
    }

    pub(super) fn when_busy(&self) -> WhenBusy {
        let told = self.declared().and_then(|declared| declared.when_busy.clone().ok());
        told.unwrap_or(self.policy.when_busy)
    }

    pub(super) fn drains(&self) -> bool {
        self.kubernetes && self.when_busy() == WhenBusy::Drain
    }

    fn hash(&self) -> Option<String> {
        self.attempt.assessment.as_ref().map(|looked| looked.hash.clone())
    }

    /// A status of what is declared.
    pub(super) fn status_of(
        &self,
        state: State,
        reason: &str,
        message: String,
        gpus: Vec<GpuStatus>,
    ) -> Status {
        let config = self.declared().map(|declared| declared.name.clone()).unwrap_or_default();
        Status { state, config, hash: self.hash(), reason: reason.to_owned(), message, gpus }
    }

    fn looked_at_gpus(&self) -> Vec<GpuStatus> {
        self.attempt.assessment.as_ref().map(status::looked).unwrap_or_default()
    }

    pub(super) fn going(&mut self, reason: &str, message: String) {
        let status = self.status_of(State::Pending, reason, message, self.looked_at_gpus());
        self.tell(status);
    }

    /// A look has found all as wanted. Where that is told already, what was done for it still stands.
    pub(super) fn find_reached(&mut self, gpus: Vec<GpuStatus>) {
        let Some(declared) = self.declared() else { return self.hands_off() };
        let told = match &self.standing {
            Standing::Of(told) if told.state == State::Success => {
                (told.config == declared.name && told.hash == self.hash()).then(|| told.gpus.clone())
            }
            _ => None,
        };
        self.succeed(told.unwrap_or(gpus));
    }

    /// All is as wanted.
    pub(super) fn succeed(&mut self, gpus: Vec<GpuStatus>) {
        let Some(declared) = self.declared() else { return self.hands_off() };
        let name = declared.name.clone();
        let hash = self.hash().unwrap_or_default();
        self.entry.reached = Some(Reached { name: name.clone(), hash, boot_id: self.boot_id.clone() });
        self.entry.reboot = None;
        (self.failures, self.failed_hash, self.waited, self.drained) = (0, None, None, None);
        let message = format!("the GPUs, read again, are as {name} says");
        // Told when everything is put back.
        let status = self.status_of(State::Success, "AsWanted", message, gpus);
        self.end(status, Verdict { success: true, retry: Retry::Rarely });
    }

    /// It is not as wanted, for this reason.
    pub(super) fn fail(&mut self, failure: Failure, gpus: Option<Vec<GpuStatus>>, retry: Retry) {
        if self.declared().is_none() {
            return self.hands_off();
        }
        let hash = self.hash();
        self.failures = if self.failed_hash == hash { self.failures.saturating_add(1) } else { 1 };
        self.failed_hash = hash;
        let Failure { reason, message } = failure;
        let gpus = gpus.unwrap_or_else(|| self.looked_at_gpus());
        let status = self.status_of(State::Failed, &reason, message, gpus);
        self.end(status, Verdict { success: false, retry });
    }

    fn end(&mut self, status: Status, verdict: Verdict) {
        self.phase = Phase::Ending(verdict);
        self.attempt.change = None;
        (self.attempt.cared, self.attempt.started, self.attempt.restored) = (false, false, false);
        self.status_when_ended(status);
    }

    /// What is told once everything is put back; what stands on the Node until then stays.
    fn status_when_ended(&mut self, status: Status) {
        let status = status.bounded();
        self.status = Some(StatusChange::Write(status));
        (self.edited, self.edits) = (None, 0);
    }

    /// Nothing is declared any more, or it is another's to do.
    pub(super) fn hands_off(&mut self) {
        let (status, config) = match &self.goal {
            Goal::Other(other) => (Some(other.message()), String::new()),
            _ => (None, String::new()),
        };
        self.phase = Phase::Ending(Verdict { success: true, retry: Retry::Rarely });
        self.attempt.change = None;
        (self.attempt.cared, self.attempt.started, self.attempt.restored) = (false, false, false);
        match status {
            Some(message) => self.status_when_ended(Status {
                state: State::HandsOff,
                config,
                hash: None,
                reason: "OtherManager".to_owned(),
                message,
                gpus: Vec::new(),
            }),
            None => {
                self.status = Some(StatusChange::Remove);
                (self.edited, self.edits) = (None, 0);
            }
        }
    }

    /// Who is in the way has not gone in time.
    pub(super) fn not_cleared(&mut self, in_the_way: &InTheWay) {
        let blocked = self.attempt.assessment.as_ref().and_then(|looked| looked.blocked());
        let blocked = blocked.unwrap_or_default();
        let waited = self.policy.wait.as_secs();
        let failure = match self.attempt.budget.take() {
            Some(budget) => Failure {
                reason: "EvictionRefused".to_owned(),
                message: format!(
                    "Pods {} were not evicted within {waited} s: {budget}; the layout needs {blocked}",
                    listed(&in_the_way.evictable)
                ),
            },
            None if self.drains() => Failure {
                reason: "PodsStay".to_owned(),
                message: format!(
                    "Pods {} were evicted and have not ended within {waited} s; see why they stay. {blocked}",
                    listed(&in_the_way.evictable)
                ),
            },
            None => Failure { reason: "InUse".to_owned(), message: format!("waited {waited} s: {blocked}") },
        };
        self.waited = self.hash();
        if self.drains() {
            let wait = self.jitter.wait(self.timing.retry, self.failures.saturating_add(1));
            let hash = self.hash().unwrap_or_default();
            self.drained = Some(Drained { hash, failure: failure.clone(), again: self.now + wait });
        }
        self.fail(failure, None, Retry::WhenFree);
    }

    /// How the last drain for this hash ended, until it is time for another one.
    pub(super) fn drained_in_vain(&self, hash: &str) -> Option<&Drained> {
        self.drained.as_ref().filter(|drained| drained.hash == hash && self.now < drained.again)
    }

    /// How long clients are waited for: no longer than for anybody else.
    pub(super) fn clients_patience(&self) -> Duration {
        self.timing.clients.min(self.policy.wait)
    }

    pub(super) fn clients_stay(&mut self, staying: &[PodName]) {
        let message = format!(
            "Pods {} use the GPUs for the cluster, were to go for the change, and are still there after {} s; see why they \
             stay (`kubectl describe`)",
            listed(staying),
            self.clients_patience().as_secs()
        );
        self.fail(Failure { reason: "ClientStays".to_owned(), message }, None, Retry::Soon);
    }

    /// How the change of the GPUs ended.
    pub(super) fn applied(&mut self, results: &[GpuResult]) {
        let stopped = std::mem::take(&mut self.stopping);
        if !results.iter().any(|one| one.end.may_have_changed()) {
            // Nothing is to be seen to that was not before.
            self.entry.aftercare = false;
        }
        if self.stale_goal() {
            self.take_up_goal();
            return;
        }
        let gpus = status::ended(results);
        let worst = results.iter().filter(|one| one.end > GpuEnd::Reached).max_by_key(|one| one.end);
        match worst {
            None => self.succeed(gpus),
            // It was asked to stop for what turned out to be no news.
            Some(worst) if worst.end == GpuEnd::Stopped && stopped => self.phase = Phase::Due,
            Some(worst) => {
                let failure = Failure { reason: worst.reason.clone(), message: told(worst) };
                match worst.end {
                    GpuEnd::RebootRequired => self.needs_reboot(failure, gpus),
                    GpuEnd::NotBegun => self.fail(failure, Some(gpus), Retry::WhenFree),
                    _ => self.fail(failure, Some(gpus), Retry::Soon),
                }
            }
        }
    }

    pub(super) fn needs_reboot(&mut self, failure: Failure, gpus: Vec<GpuStatus>) {
        let decision = self.may_reboot();
        let message = match &decision {
            Decision::Reboot(marker) => {
                self.entry.reboot = Some(marker.clone());
                format!("the machine is rebooted, once: {}", failure.message)
            }
            Decision::Asked => format!("the machine is rebooted: {}", failure.message),
            Decision::DidNotHelp => {
                format!("it was rebooted for this layout already, which did not help: {}", failure.message)
            }
            Decision::NotPermitted => {
                format!("{}; reboot the machine, or permit it (`partition.reboot: once`)", failure.message)
            }
        };
        match decision.reason() {
            Some(reason) => {
                self.fail(Failure { reason: reason.to_owned(), message }, Some(gpus), Retry::Soon);
            }
            None => {
                self.phase = Phase::Rebooting { asked: false, until: self.now + self.timing.reboot };
                let status = self.status_of(State::Rebooting, &failure.reason, message, gpus);
                self.tell(status);
            }
        }
    }

    pub(super) fn may_reboot(&self) -> Decision {
        let hash = self.hash().unwrap_or_default();
        reboot::decide(self.policy.reboot, self.entry.reboot.as_ref(), &self.boot_id, &hash)
    }

    pub(super) fn not_rebooted(&mut self, message: &str) {
        let failure =
            Failure { reason: "RebootFailed".to_owned(), message: format!("{message}; reboot it by hand") };
        self.fail(failure, None, Retry::Soon);
    }

    /// Puts the next thing back, until all is.
    pub(super) fn end_further(&mut self, verdict: &Verdict) -> Next {
        if self.entry.aftercare && !self.attempt.cared {
            return Next::of(UnderWay::Care);
        }
        match self.start_services() {
            next @ Next::Do(..) => next,
            _ => self.put_back(verdict),
        }
    }

    pub(super) fn start_services(&mut self) -> Next {
        if self.entry.services.is_empty() || self.attempt.started {
            return Next::Wait;
        }
        Next::of(UnderWay::Start(self.entry.services.clone()))
    }

    fn put_back(&mut self, verdict: &Verdict) -> Next {
        // Before the node is uncordoned: nobody is to be given what is gone.
        if let Some(next) = self.refresh() {
            return next;
        }
        if self.kubernetes && !self.attempt.restored {
            let node = self.node.as_ref().and_then(Option::as_ref);
            let adopts = self.declared().is_some() && is_left_behind(node);
            if adopts || !self.entry.paused.is_empty() || self.entry.cordoned {
                return self.change_node(For::Restoring);
            }
            self.attempt.restored = true;
        }
        if self.entry != self.written
            && let next @ Next::Do(..) = self.journal()
        {
            return next;
        }
        self.settle(verdict);
        Next::Again
    }

    /// Device plugins that ran while GPUs were changed are started anew, as soon as the API server can be asked for it.
    fn refresh(&mut self) -> Option<Next> {
        if !self.kubernetes || !self.attempt.applied || self.attempt.refreshed {
            return None;
        }
        let pods = self.pods.clone().unwrap_or_default();
        let plugins = clients::plugins_to_refresh(&pods, &self.entry.paused);
        if !plugins.is_empty() && !self.may_ask() {
            return Some(Next::Wait);
        }
        self.attempt.refreshed = true;
        (!plugins.is_empty()).then(|| Next::of(UnderWay::Refresh(plugins)))
    }

    fn settle(&mut self, verdict: &Verdict) {
        // What could not be put back yet is tried again.
        let clean = self.entry.is_clean() && self.entry == self.written;
        let again = match verdict.retry {
            _ if self.stale => Some(self.not_too_soon()),
            _ if !clean => Some(self.now + self.jitter.wait(self.timing.retry, self.failures.max(1))),
            Retry::Rarely if self.declared().is_none() => None,
            Retry::Rarely => Some(self.now + self.timing.rest),
            Retry::Soon | Retry::WhenFree => {
                let hash = self.hash().unwrap_or_default();
                let drained = self.drained_in_vain(&hash).map(|drained| drained.again);
                drained.or_else(|| Some(self.now + self.jitter.wait(self.timing.retry, self.failures)))
            }
        };
        self.stale = false;
        self.phase = Phase::Settled { again, blocked: verdict.retry == Retry::WhenFree };
        self.attempt = Attempt { assessment: self.attempt.assessment.take(), ..Attempt::default() };
        match self.status.clone() {
            Some(StatusChange::Write(status)) => self.stand(Standing::Of(status)),
            Some(StatusChange::Remove) => self.stand(Standing::NotDeclared),
            None => {}
        }
    }

    /// When it may be looked at again: the sooner, the fewer looks have come one upon the other. Processes that come and go
    /// would make for a look and a word about them each second.
    pub(super) fn not_too_soon(&self) -> Instant {
        let apart = self.timing.apart.saturating_mul(1 << self.crowded.saturating_sub(AT_ONCE).min(5));
        self.looked_at.map_or(self.now, |at| (at + apart).max(self.now))
    }

    /// A success that something spoilt afterwards.
    pub(super) fn spoil(&mut self, failure: Failure) {
        let Phase::Ending(verdict) = self.phase.clone() else { return };
        if self.declared().is_none() {
            return;
        }
        if let (true, Some(StatusChange::Write(status))) = (verdict.success, self.status.clone()) {
            let Failure { reason, message } = failure;
            self.failures = self.failures.saturating_add(1);
            self.status_when_ended(Status { state: State::Failed, reason, message, ..status });
            self.phase = Phase::Ending(Verdict { success: false, retry: Retry::Soon });
        }
    }
}

fn told(result: &GpuResult) -> String {
    match &result.gpu {
        Some(gpu) if !result.message.contains(gpu.as_str()) => format!("{gpu}: {}", result.message),
        _ => result.message.clone(),
    }
}

pub(super) fn listed<T: Display>(names: impl IntoIterator<Item = T>) -> String {
    let names: BTreeSet<String> = names.into_iter().map(|name| name.to_string()).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}
