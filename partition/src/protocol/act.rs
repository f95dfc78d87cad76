//! What is to be done next.

use std::time::Instant;

use crate::reboot::Decision;

use super::clients;
use super::event::{Command, Standing};
use super::node;
use super::status::{Status, StatusChange};
use super::{For, Goal, InTheWay, NodeChange, NodeView, Phase, Protocol, UnderWay};
use super::{STATE, STATUS};

/// What follows.
pub(super) enum Next {
    /// This is done, and waited for.
    Do(Box<UnderWay>),
    /// Something has changed; it is decided anew.
    Again,
    /// Nothing, until something happens.
    Wait,
}

impl Next {
    pub(super) fn of(under_way: UnderWay) -> Self {
        Self::Do(Box::new(under_way))
    }
}

impl Protocol {
    pub(super) fn act(&mut self) -> Option<Command> {
        if self.under_way.is_some() {
            return self.stop_soon();
        }
        // Every turn takes it one phase further, of which there are few.
        for _ in 0..32 {
            match self.next() {
                Next::Do(under_way) => {
                    let under_way = *under_way;
                    let command = under_way.command();
                    self.under_way = Some(under_way);
                    return Some(command);
                }
                Next::Again => {}
                Next::Wait => break,
            }
        }
        None
    }

    /// What is declared anew ends a change under way once the GPU that it is at is done.
    fn stop_soon(&mut self) -> Option<Command> {
        let applies = matches!(self.under_way, Some(UnderWay::Apply { .. }));
        if !applies || !self.stale_goal() || self.stopping {
            return None;
        }
        self.stopping = true;
        Some(Command::StopSoon)
    }

    /// When [`Event::Woken`](super::Event::Woken) is to come at the latest; absent: only other events bring anything new.
    pub fn next_wake(&self) -> Option<Instant> {
        let attempt = &self.attempt;
        let of_phase = match &self.phase {
            Phase::Settled { again, .. } => [*again, None, None],
            Phase::Clearing(_) => [attempt.until, attempt.look_at, attempt.evict_at],
            Phase::Pausing => [attempt.clients_until, None, None],
            Phase::Ready(at) => [Some(*at), attempt.clients_until, None],
            Phase::Rebooting { until, .. } => [Some(*until), None, None],
            Phase::Due | Phase::Applying | Phase::Ending(_) => [None; 3],
        };
        let edited = self.edited.map(|since| since + self.edited_for());
        let all = of_phase.into_iter().chain([self.api.until, self.journal_at, edited]).flatten();
        // What was due by now has been done, or waits for something else.
        all.filter(|at| *at > self.now).min()
    }

    fn next(&mut self) -> Next {
        if !self.recovered {
            return Next::of(UnderWay::Recover);
        }
        // What is put back does not wait for the disk.
        let puts_back = matches!(self.phase, Phase::Ending(_) | Phase::Settled { .. });
        if self.entry != self.written && !puts_back {
            return self.journal();
        }
        if self.goal == Goal::Unknown {
            // Nobody needs to wait for the API server to get them back.
            return self.start_services();
        }
        match self.phase.clone() {
            Phase::Due => self.look(),
            Phase::Clearing(in_the_way) => self.clear(&in_the_way),
            Phase::Pausing => self.pause(),
            Phase::Ready(at) => self.ready(at),
            Phase::Applying => self.apply(),
            Phase::Rebooting { asked, until } => self.reboot(asked, until),
            Phase::Ending(verdict) => self.end_further(&verdict),
            Phase::Settled { again, .. } => self.settled(again),
        }
    }

    pub(super) fn look(&mut self) -> Next {
        match &self.goal {
            Goal::Reach(declared) => {
                self.stale = false;
                Next::of(UnderWay::Look(declared.clone()))
            }
            _ => {
                self.hands_off();
                Next::Again
            }
        }
    }

    pub(super) fn journal(&self) -> Next {
        if self.journal_at.is_some_and(|at| self.now < at) {
            return Next::Wait;
        }
        Next::of(UnderWay::Journal(self.entry.clone()))
    }

    fn settled(&mut self, again: Option<Instant>) -> Next {
        if self.entry != self.written
            && let next @ Next::Do(..) = self.journal()
        {
            return next;
        }
        if again.is_some_and(|again| self.now >= again) {
            self.phase = Phase::Due;
            return Next::Again;
        }
        self.tell_node()
    }

    /// Who is in the way goes, or is waited for.
    fn clear(&mut self, in_the_way: &InTheWay) -> Next {
        if self.attempt.until.is_some_and(|until| self.now >= until) {
            self.not_cleared(in_the_way);
            return Next::Again;
        }
        if self.is_untold() {
            return self.tell_node();
        }
        if self.drains() {
            if !self.attempt.cordoned {
                return self.change_node(For::Cordoning);
            }
            let left: Vec<_> = in_the_way.evictable.difference(&self.attempt.evicted).cloned().collect();
            if !left.is_empty() && self.attempt.evict_at.is_none_or(|at| self.now >= at) {
                return Next::of(UnderWay::Evict(left));
            }
        }
        match self.attempt.look_at {
            Some(at) if self.now < at => Next::Wait,
            _ => self.look(),
        }
    }

    /// The clients go.
    fn pause(&mut self) -> Next {
        if !self.kubernetes {
            self.phase = Phase::Ready(self.now);
            return Next::Again;
        }
        if !self.attempt.paused {
            return self.change_node(For::Pausing);
        }
        let pods = self.pods.clone().unwrap_or_default();
        // A device plugin that no label pauses goes on offering what is about to go.
        if !self.attempt.cordoned && !clients::plugins_to_refresh(&pods, &self.entry.paused).is_empty() {
            return self.change_node(For::Cordoning);
        }
        let staying = clients::clients(&pods, &self.entry.paused);
        if staying.is_empty() {
            self.phase = Phase::Ready(self.now);
            return Next::Again;
        }
        if self.attempt.clients_until.is_some_and(|until| self.now >= until) {
            self.clients_stay(&staying);
            return Next::Again;
        }
        // It may be another layout by now than the one that they were paused for.
        self.tell_node()
    }

    /// All have gone: once more it is looked at, for there may be others by now.
    fn ready(&mut self, at: Instant) -> Next {
        if !self.attempt.stopped && !self.entry.services.is_empty() {
            return Next::of(UnderWay::Stop(self.entry.services.clone()));
        }
        if self.now < at { Next::Wait } else { self.look() }
    }

    fn apply(&mut self) -> Next {
        if !self.entry.aftercare || self.entry.reached.is_some() {
            self.entry.aftercare = true;
            self.entry.reached = None;
            return Next::Again;
        }
        self.attempt.applied = true;
        self.attempt.cared = false;
        self.stopping = false;
        let reboot = matches!(self.may_reboot(), Decision::Reboot(_) | Decision::Asked);
        Next::of(UnderWay::Apply { reboot })
    }

    fn reboot(&mut self, asked: bool, until: Instant) -> Next {
        if !asked {
            // It is told if it can be, and not waited for.
            if self.is_untold() && self.kubernetes && self.api.until.is_none() {
                return self.tell_node();
            }
            return Next::of(UnderWay::Reboot);
        }
        if self.now >= until {
            self.not_rebooted("the machine was asked to reboot and has not gone down");
            return Next::Again;
        }
        Next::Wait
    }

    /// Reads the Node and then changes it as decided, or waits until the API server may be asked again.
    pub(super) fn change_node(&mut self, purpose: For) -> Next {
        if !self.may_ask() {
            return Next::Wait;
        }
        match self.attempt.change.take() {
            Some(change) => Next::of(UnderWay::Change(purpose, change)),
            None => Next::of(UnderWay::Read(purpose)),
        }
    }

    /// Writes what is to be told, where the Node says something else.
    fn tell_node(&mut self) -> Next {
        if !self.is_untold() || !self.may_ask() {
            return Next::Wait;
        }
        let Some(change) = self.telling() else { return Next::Wait };
        Next::of(UnderWay::Change(For::Telling, change))
    }

    pub(super) fn may_ask(&self) -> bool {
        self.api.until.is_none_or(|until| self.now >= until) && !matches!(self.node, None | Some(None))
    }

    pub(super) fn telling(&self) -> Option<NodeChange> {
        let status = self.status.clone()?;
        Some(NodeChange { status: Some(status), ..NodeChange::default() })
    }

    /// Whether the Node says something else than it should, and that is to be changed.
    pub(super) fn is_untold(&self) -> bool {
        let (Some(Some(node)), Some(status)) = (&self.node, &self.status) else { return false };
        if !self.kubernetes || says(node, status) {
            return false;
        }
        // What a watch tells may be older than the last write, and others may write too: both are given time.
        match self.edited {
            Some(since) if self.told.as_ref() == Some(status) => self.now >= since + self.edited_for(),
            _ => self.told.as_ref() != Some(status),
        }
    }

    pub(super) fn edited_for(&self) -> std::time::Duration {
        self.timing.edited.saturating_mul(2u32.saturating_pow(self.edits.min(16))).min(self.timing.rest)
    }

    /// What is to be told from now on.
    pub(super) fn tell(&mut self, status: Status) {
        let status = status.bounded();
        let change = StatusChange::Write(status.clone());
        if self.status.as_ref() == Some(&change) {
            return;
        }
        self.status = Some(change);
        (self.edited, self.edits) = (None, 0);
        self.stand(Standing::Of(status));
    }

    pub(super) fn stand(&mut self, standing: Standing) {
        if self.standing == standing {
            return;
        }
        let happening = super::hear::happening(&self.standing, &standing);
        self.standing = standing.clone();
        self.said.push(Command::Tell(standing));
        self.said.extend(happening.map(Command::Happened));
    }
}

/// Whether the Node says this.
pub(super) fn says(node: &NodeView, status: &StatusChange) -> bool {
    let annotation = node.annotations.get(STATUS);
    match status {
        // What is not ours was written by another program, which left it behind.
        StatusChange::Remove => annotation.is_none(),
        StatusChange::Write(status) => {
            let label = status.state.label();
            let same_label = label.is_none() || node.labels.get(STATE).map(String::as_str) == label;
            same_label && annotation.and_then(|text| Status::read(text)).as_ref() == Some(status)
        }
    }
}

/// A Node that is changed as one of these is.
pub(super) fn changed(node: &mut NodeView, change: &NodeChange) {
    change.applied_to(node);
    match &change.status {
        Some(StatusChange::Write(status)) => {
            if let Some(label) = status.state.label() {
                node.labels.insert(STATE.to_owned(), label.to_owned());
            }
            node.annotations.insert(STATUS.to_owned(), status.annotation(""));
        }
        Some(StatusChange::Remove) => {
            node.labels.remove(STATE);
            node.annotations.remove(STATUS);
        }
        None => {}
    }
}

/// Whether something is left behind on this Node that is to be put right.
pub(super) fn is_left_behind(node: Option<&NodeView>) -> bool {
    node.is_some_and(node::is_left_behind)
}

impl UnderWay {
    fn command(&self) -> Command {
        match self {
            Self::Recover => Command::Recover,
            Self::Look(declared) => Command::Look(declared.clone()),
            Self::Journal(entry) => Command::Journal(entry.clone().into()),
            Self::Read(_) => Command::ReadNode,
            Self::Change(_, change) => Command::ChangeNode(change.clone()),
            Self::Evict(pods) | Self::Refresh(pods) => Command::Evict(pods.clone()),
            Self::Stop(services) => Command::StopServices(services.clone()),
            Self::Start(services) => Command::StartServices(services.clone()),
            Self::Apply { reboot } => Command::Apply { reboot: *reboot },
            Self::Care => Command::Care,
            Self::Reboot => Command::Reboot,
        }
    }
}
