//! What follows from what happened.

use std::sync::Arc;
use std::time::Duration;

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::pod::Pod;

use crate::apply::Failure;
use crate::observed::PodName;
use crate::reboot::Decision;

use super::act::{changed, says};
use super::assessment::Assessment;
use super::ending::listed;
use super::event::{
    ApiFailure, ApiFailureKind, Event, Eviction, Happening, NotLooked, Policy, Standing, Stir,
};
use super::journal::NodeEntry;
use super::status::{State, Status};
use super::{
    Declared, For, Goal, InTheWay, NodeChange, NodeView, Phase, Protocol, Retry, STATUS, UnderWay, WhenBusy,
    clients, node,
};

/// Looks that lie further apart are not one upon the other.
const CALM: Duration = Duration::from_secs(60);

impl Protocol {
    pub(super) fn hear(&mut self, event: Event) {
        match event {
            Event::Woken => {}
            Event::Node(node) => self.see_node(node),
            Event::Pods(pods) => self.see_pods(pods),
            Event::Policy(policy) => self.permit(policy),
            Event::File => self.stir(true),
            Event::Reloaded => {
                self.entry.reached = None;
                self.stir(true);
            }
            Event::Stirred(stir) => self.stir(stir == Stir::Gpus || self.cares_for_holders()),
            answer => self.answered(answer),
        }
    }

    fn see_node(&mut self, node: Option<NodeView>) {
        if let (None, Some(node)) = (&self.status, &node) {
            // What a run before has told is nothing new.
            let before = node.annotations.get(STATUS).and_then(|text| Status::read(text));
            if let (Some(before), Standing::Unknown) = (before, &self.standing) {
                self.standing = Standing::Of(before);
                self.said.push(super::Command::Tell(self.standing.clone()));
            }
        }
        let differs = match (&node, &self.status) {
            (Some(node), Some(status)) => !says(node, status),
            _ => false,
        };
        if !differs {
            self.edited = None;
        } else if self.edited.is_none() {
            self.edited = Some(self.now);
        }
        self.node = Some(node);
        self.aim();
    }

    fn see_pods(&mut self, pods: Arc<Vec<Pod>>) {
        if self.pods.as_ref() == Some(&pods) {
            return;
        }
        self.pods = Some(pods);
        self.aim();
        self.stir(self.cares_for_holders());
    }

    fn permit(&mut self, policy: Policy) {
        if self.policy != policy {
            self.policy = policy;
            self.aim();
            self.stir(true);
        }
    }

    /// There may be something that the last look did not see.
    fn stir(&mut self, matters: bool) {
        if !matters {
            return;
        }
        let soon = self.not_too_soon();
        match &mut self.phase {
            Phase::Settled { again, .. } => *again = Some(again.map_or(soon, |at| at.min(soon))),
            Phase::Clearing(_) => {
                let soon = self.looked_at.map_or(self.now, |at| (at + self.timing.apart).max(self.now));
                let at = &mut self.attempt.look_at;
                *at = Some(at.map_or(soon, |at| at.min(soon)));
            }
            _ => self.stale = true,
        }
    }

    fn goal_now(&self) -> Goal {
        let none = Vec::new();
        let pods = match (&self.pods, self.kubernetes) {
            (None, true) => return Goal::Unknown,
            (pods, _) => pods.as_deref().unwrap_or(&none),
        };
        match &self.node {
            None => Goal::Unknown,
            Some(None) => Goal::NoNode,
            Some(Some(node)) => {
                match Declared::read(&node.labels, &node.annotations, self.policy.when_busy) {
                    None => Goal::NotDeclared,
                    Some(declared) => match clients::other_manager(pods, node) {
                        Some(other) => Goal::Other(other),
                        None => Goal::Reach(declared),
                    },
                }
            }
        }
    }

    /// Whether what is being done is not what is to be done any more.
    pub(super) fn stale_goal(&self) -> bool {
        self.goal != self.goal_now()
    }

    /// What is to be reached may be something else by now.
    fn aim(&mut self) {
        // The GPU that is being changed is done first; a machine that goes down does not come back to it.
        let is_busy = matches!(self.under_way, Some(UnderWay::Apply { .. }))
            || matches!(self.phase, Phase::Rebooting { asked: true, .. });
        if self.stale_goal() && !is_busy {
            self.take_up_goal();
        }
    }

    pub(super) fn take_up_goal(&mut self) {
        self.goal = self.goal_now();
        (self.failures, self.failed_hash, self.waited, self.drained) = (0, None, None, None);
        self.attempt.until = None;
        self.attempt.assessment = None;
        self.phase = Phase::Due;
        self.attempt.change = None;
    }

    fn answered(&mut self, answer: Event) {
        match (self.under_way.take(), answer) {
            (Some(UnderWay::Recover), Event::Recovered(result)) => self.recovered(result),
            (Some(UnderWay::Look(declared)), Event::Looked(result)) => self.looked(&declared, result),
            (Some(UnderWay::Journal(entry)), Event::Journalled(result)) => self.journalled(entry, result),
            (Some(UnderWay::Read(purpose)), Event::NodeRead(result)) => self.node_read(purpose, result),
            (Some(UnderWay::Change(purpose, change)), Event::NodeChanged(result)) => {
                self.node_changed(purpose, &change, result);
            }
            (Some(UnderWay::Evict(_)), Event::Evicted(results)) => self.evicted(results),
            (Some(UnderWay::Refresh(_)), Event::Evicted(results)) => self.refreshed(&results),
            (Some(UnderWay::Stop(_)), Event::ServicesDone(result)) => {
                self.attempt.stopped = true;
                if let Err(failure) = result {
                    self.fail(failure, None, Retry::Soon);
                }
            }
            (Some(UnderWay::Start(_)), Event::ServicesDone(result)) => {
                self.attempt.started = true;
                match result {
                    Ok(()) => self.entry.services.clear(),
                    Err(failure) => self.spoil(failure),
                }
            }
            (Some(UnderWay::Apply { .. }), Event::Applied(results)) => self.applied(&results),
            (Some(UnderWay::Care), Event::CaredFor(result)) => {
                self.attempt.cared = true;
                match result {
                    Ok(_) => self.entry.aftercare = false,
                    Err(failure) => self.spoil(failure),
                }
            }
            (Some(UnderWay::Reboot), Event::RebootAsked(result)) => self.reboot_asked(result),
            // An event that nothing waits for.
            (under_way, _) => self.under_way = under_way,
        }
    }

    fn recovered(&mut self, result: Option<Result<String, Failure>>) {
        self.recovered = true;
        let Some(result) = result else { return };
        self.entry.aftercare = true;
        self.attempt.applied = true;
        let (warning, reason, message) = match result {
            Ok(message) => (false, "Recovered".to_owned(), message),
            Err(Failure { reason, message }) => (true, reason, message),
        };
        self.said.push(super::Command::Happened(Happening { warning, reason, message }));
    }

    fn looked(&mut self, declared: &Declared, result: Result<Assessment, NotLooked>) {
        let before = self.looked_at.replace(self.now);
        let is_crowded = before.is_some_and(|before| self.now < before + CALM);
        self.crowded = if is_crowded { self.crowded.saturating_add(1) } else { 0 };
        if let Ok(assessment) = &result {
            self.catch_up(assessment);
        }
        // What it was looked at for is not what is wanted any more.
        let is_asked = self.goal == Goal::Reach(declared.clone())
            && matches!(self.phase, Phase::Due | Phase::Clearing(_) | Phase::Ready(_));
        if !is_asked {
            return;
        }
        let assessment = match result {
            Ok(assessment) => assessment,
            Err(NotLooked { failure, is_wrong }) => {
                self.attempt.assessment = None;
                return self.fail(failure, None, if is_wrong { Retry::Rarely } else { Retry::Soon });
            }
        };
        let news = self.attempt.assessment.as_ref().map(|before| &before.hash) != Some(&assessment.hash);
        let warn = |message: &String| Happening {
            warning: true,
            reason: "OddLayout".into(),
            message: message.clone(),
        };
        if news {
            self.said.extend(assessment.warnings.iter().map(warn).map(super::Command::Happened));
        }
        self.attempt.assessment = Some(assessment.clone());
        self.assess(declared, &assessment);
    }

    /// What happened before the look, and not by a command of ours.
    fn catch_up(&mut self, assessment: &Assessment) {
        if let Some(on_disk) = &assessment.on_disk {
            self.entry.reboot = on_disk.reboot.clone();
            self.entry.aftercare |= on_disk.aftercare;
            self.written = on_disk.clone();
        }
        self.entry.aftercare |= assessment.recovered;
        self.attempt.applied |= assessment.recovered;
    }

    fn assess(&mut self, declared: &Declared, assessment: &Assessment) {
        if let Err(error) = &declared.when_busy {
            let message = format!("label {}: {error}", super::WHEN_BUSY);
            return self.fail(Failure { reason: "BadLabel".to_owned(), message }, None, Retry::Rarely);
        }
        let of_gpu = |(gpu, reason, message): (Option<&GpuUuid>, &str, &str)| {
            let message = match gpu {
                Some(gpu) if !message.contains(gpu.as_str()) => format!("{gpu}: {message}"),
                _ => message.to_owned(),
            };
            Failure { reason: reason.to_owned(), message }
        };
        if let Some(failure) = assessment.impossible().map(of_gpu) {
            return self.fail(failure, None, Retry::Rarely);
        }
        if !assessment.is_work() {
            return match assessment.unreadable().map(of_gpu) {
                // A kill may have come between the word that it was asked for and the asking.
                Some(failure)
                    if failure.reason == "RebootRequired" && self.may_reboot() == Decision::Asked =>
                {
                    self.needs_reboot(failure, super::status::looked(assessment));
                }
                Some(failure) => self.fail(failure, None, Retry::Soon),
                None => self.find_reached(super::status::looked(assessment)),
            };
        }
        let drifted = self.entry.reached.as_ref().is_some_and(|reached| {
            reached.hash == assessment.hash && reached.boot_id == self.boot_id && !self.attempt.begun
        });
        if drifted && !self.policy.repair {
            let message = "someone else has changed the GPUs since they were as wanted, and `partition.drift: report` \
                           leaves them so; change the label, or set it to repair";
            return self.fail(
                Failure { reason: "Drifted".into(), message: message.into() },
                None,
                Retry::Rarely,
            );
        }
        match assessment.blocked() {
            Some(blocked) => self.blocked(blocked, assessment),
            None if matches!(self.phase, Phase::Ready(_)) => self.phase = Phase::Applying,
            None => self.begin_pausing(),
        }
    }

    fn begin_pausing(&mut self) {
        self.attempt.begun = true;
        self.phase = Phase::Pausing;
        let message = "clients of the GPUs are paused, then the GPUs are changed".to_owned();
        self.going("Changing", message);
    }

    /// Someone uses what would have to go.
    fn blocked(&mut self, blocked: String, assessment: &Assessment) {
        let pods = self.pods.clone().unwrap_or_default();
        let none = NodeView::default();
        let node = self.node.as_ref().and_then(Option::as_ref).unwrap_or(&none);
        let in_the_way = InTheWay::of(assessment.holders(), &assessment.services, &pods, node);
        let in_use = |message: String| Failure { reason: "InUse".to_owned(), message };
        if matches!(self.phase, Phase::Ready(_)) {
            return self.still_blocked(blocked, &in_the_way);
        }
        if in_the_way.only_clients() {
            return self.begin_pausing();
        }
        let in_vain = self.drained_in_vain(&assessment.hash).map(|drained| drained.failure.clone());
        match self.when_busy() {
            WhenBusy::Refuse => self.fail(in_use(blocked), None, Retry::WhenFree),
            WhenBusy::Drain if !in_the_way.stays.is_empty() || !self.kubernetes => {
                let stay = listed(&in_the_way.stays);
                let message = format!("draining cannot move {stay}: {blocked}");
                self.fail(in_use(message), None, Retry::WhenFree);
            }
            WhenBusy::Drain if in_vain.is_some() => {
                // It did not fail once more.
                let failures = self.failures;
                self.fail(in_vain.unwrap_or_else(|| in_use(blocked)), None, Retry::WhenFree);
                self.failures = failures;
            }
            _ if self.waited.as_ref() == Some(&assessment.hash) && self.when_busy() == WhenBusy::Wait => {
                self.fail(in_use(blocked), None, Retry::WhenFree);
            }
            when_busy => {
                self.attempt.begun = true;
                self.attempt.until.get_or_insert(self.now + self.policy.wait);
                self.attempt.look_at = Some(self.now + self.timing.look);
                let reason = if when_busy == WhenBusy::Drain { "Draining" } else { "Waiting" };
                self.phase = Phase::Clearing(in_the_way);
                self.going(reason, blocked);
            }
        }
    }

    /// The clients have gone, and someone is there all the same.
    fn still_blocked(&mut self, blocked: String, in_the_way: &InTheWay) {
        if in_the_way.only_clients() && !in_the_way.services.is_empty() && !self.attempt.stopped {
            self.entry.services = in_the_way.services.iter().cloned().collect();
            return;
        }
        // The last processes of a Pod that has gone.
        let until = self.attempt.clients_until;
        if in_the_way.only_clients() && until.is_some_and(|until| self.now < until) {
            self.phase = Phase::Ready(self.now + self.timing.apart);
            return;
        }
        self.fail(Failure { reason: "InUse".to_owned(), message: blocked }, None, Retry::WhenFree);
    }

    fn journalled(&mut self, entry: NodeEntry, result: Result<(), Failure>) {
        match result {
            Ok(()) => {
                self.written = entry;
                self.journal_at = None;
            }
            Err(failure) => {
                self.journal_at = Some(self.now + self.jitter.wait(self.timing.api, self.failures.max(1)));
                let puts_back = matches!(self.phase, Phase::Ending(_) | Phase::Settled { .. });
                if !puts_back {
                    // Nothing of it has been done.
                    self.entry = self.written.clone();
                    self.fail(failure, None, Retry::Soon);
                }
            }
        }
    }

    /// What is to become of the Node is decided for what it is now.
    fn node_read(&mut self, purpose: For, result: Result<(NodeView, String), ApiFailure>) {
        let (view, version) = match result {
            Ok(read) => read,
            Err(failure) => return self.not_had(purpose, failure),
        };
        self.heard();
        let mut change = match (purpose, &self.phase) {
            (For::Pausing, Phase::Pausing) => self.pausing(&view),
            (For::Cordoning, Phase::Clearing(_) | Phase::Pausing) => self.cordoning(&view),
            (For::Restoring, Phase::Ending(_)) => {
                node::restoring(&view, &self.entry, matches!(self.goal, Goal::Reach(_)))
            }
            // It is not wanted any more.
            _ => return,
        };
        let told = self.status.clone().filter(|status| !says(&view, status));
        // That it has begun is told before, also where nobody is to be paused.
        if change.is_empty() && (purpose != For::Pausing || told.is_none()) {
            return self.node_is_so(purpose);
        }
        if purpose != For::Cordoning {
            change.status = told;
        }
        self.attempt.change = Some(NodeChange { version: Some(version), ..change });
    }

    fn pausing(&mut self, view: &NodeView) -> NodeChange {
        let to_pause = node::to_pause(view);
        let change = node::pausing(&to_pause);
        self.entry.paused.extend(to_pause);
        // Left behind by another program, which would make them so.
        for (key, value) in &view.labels {
            if value == super::PAUSED && super::CLIENTS.contains(&key.as_str()) {
                self.entry.paused.entry(key.clone()).or_insert_with(|| "true".to_owned());
            }
        }
        change
    }

    fn cordoning(&mut self, view: &NodeView) -> NodeChange {
        let Goal::Reach(declared) = &self.goal else { return NodeChange::default() };
        let change = node::cordoning(view, &clients::why_cordoned(&declared.name)).unwrap_or_default();
        self.entry.cordoned |= !change.is_empty();
        change
    }

    /// The Node is as it was to be.
    fn node_is_so(&mut self, purpose: For) {
        match purpose {
            For::Cordoning => self.attempt.cordoned = true,
            For::Pausing => {
                self.attempt.paused = true;
                self.attempt.clients_until = Some(self.now + self.clients_patience());
            }
            For::Restoring => {
                self.entry.paused.clear();
                self.entry.cordoned = false;
                (self.attempt.paused, self.attempt.cordoned, self.attempt.restored) = (false, false, true);
            }
            For::Telling => {}
        }
    }

    fn node_changed(&mut self, purpose: For, change: &NodeChange, result: Result<(), ApiFailure>) {
        if let Err(failure) = result {
            return self.not_had(purpose, failure);
        }
        self.heard();
        if let Some(Some(node)) = &mut self.node {
            changed(node, change);
        }
        if let Some(status) = &change.status {
            if self.told.as_ref() == Some(status) {
                self.edits = self.edits.saturating_add(1);
            }
            self.told = Some(status.clone());
            self.edited = None;
        }
        self.node_is_so(purpose);
    }

    fn heard(&mut self) {
        self.api = super::Api::default();
    }

    /// The API server did not do it.
    fn not_had(&mut self, purpose: For, ApiFailure { failure, kind }: ApiFailure) {
        match kind {
            // It is read again at once.
            ApiFailureKind::Conflict if self.api.failures == 0 => self.api.failures = 1,
            ApiFailureKind::NotFound if purpose == For::Restoring => self.node_is_so(purpose),
            _ => {
                self.api.failures = self.api.failures.saturating_add(1);
                let asked = match kind {
                    ApiFailureKind::Later(asked) => asked.unwrap_or_default(),
                    _ => Duration::ZERO,
                };
                let wait = self.jitter.wait(self.timing.api, self.api.failures).max(asked);
                self.api.until = Some(self.now + wait);
                // Before anything was begun that is an end; afterwards it is only waited.
                let not_begun = matches!(self.phase, Phase::Clearing(_) | Phase::Pausing);
                if kind == ApiFailureKind::Refused && not_begun {
                    self.fail(failure, None, Retry::Soon);
                }
            }
        }
    }

    fn evicted(&mut self, results: Vec<(PodName, Eviction)>) {
        let mut refused = None;
        let mut budgets = Vec::new();
        for (pod, result) in results {
            match result {
                Eviction::Accepted => drop(self.attempt.evicted.insert(pod)),
                Eviction::Later(message) => budgets.push(format!("{pod}: {message}")),
                Eviction::Failed(failure) => refused = Some((pod, failure)),
            }
        }
        self.attempt.budget = (!budgets.is_empty()).then(|| budgets.join("; "));
        self.attempt.evict_at = Some(self.now + self.timing.evict);
        if let (Some((pod, failure)), Phase::Clearing(_)) = (refused, &self.phase) {
            let message = format!("Pod {pod} was not evicted: {}", failure.message);
            self.fail(Failure { message, ..failure }, None, Retry::WhenFree);
        }
    }

    /// Device plugins that no label pauses were to be started anew.
    fn refreshed(&mut self, results: &[(PodName, Eviction)]) {
        let kept = results.iter().filter(|(_, result)| *result != Eviction::Accepted);
        let kept = listed(kept.map(|(pod, _)| pod));
        if !kept.is_empty() {
            let message = format!(
                "device plugin {kept} was not started anew and may advertise instances that are gone; delete its Pod"
            );
            let happening =
                Happening { warning: true, reason: "DevicePluginNotRefreshed".to_owned(), message };
            self.said.push(super::Command::Happened(happening));
        }
    }

    fn reboot_asked(&mut self, result: Result<(), Failure>) {
        let Phase::Rebooting { asked, .. } = &mut self.phase else { return };
        match result {
            Ok(()) => *asked = true,
            Err(failure) => self.not_rebooted(&failure.message),
        }
    }
}

/// What people want to know of how it goes.
pub(super) fn happening(before: &Standing, after: &Standing) -> Option<Happening> {
    let Standing::Of(status) = after else { return None };
    let word = |status: &Status| (status.state, status.reason.clone(), status.hash.clone());
    if matches!(before, Standing::Of(before) if word(before) == word(status)) {
        return None;
    }
    let warning = status.state == State::Failed;
    Some(Happening { warning, reason: status.reason.clone(), message: status.message.clone() })
}
