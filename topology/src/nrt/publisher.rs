//! When the NodeResourceTopology object is read and written: a state machine without I/O.
//!
//! ```text
//!               Desired            ours, and not as desired; absent; edited by hand
//!   starting ------------> look ---------------------------------------------------> due
//!                          ^ ^ |                                                      | quiet, and a second
//!              look again, | | | ours and as desired                                  | after the last write
//!               take over  | | '-------------------> at rest <---- Written ----.      v
//!                          | |                        | | ^                    '--- write
//!        another's         | '--- Noticed otherwise --' | | Desired as it was       | |
//!   left <-----------------+                            | '--------------------     | |
//!   alone (OtherPublisher) |                            '--- Desired anew, refresh: due
//!                          |                                                        | |
//!                          '-------- wait (back-off) <---- Failed ------------------' |
//!                                        |                                            |
//!                                        '--- nothing was written: due again ---------'
//! ```
//!
//! - Nothing is written before the object was looked at, and after each conflict it is looked at again.
//! - What is there already is not written, but for a refresh now and then.
//! - Changes are gathered: until it is quiet, and no longer than a second; never two writes within a second. However long
//!   the API server was away, one write catches up.
//! - After the kubelet was started anew, its devices are missing until their plugins have registered again. What would make
//!   resources vanish from the object is held back for that long. It is held back whole: its fingerprint would tell
//!   schedulers that amounts are current which are not.
//! - The object ends with its Node. While there is no Node nothing is written, for nobody would ever delete it; and when
//!   the Node was made anew, so is the owner in the object, before the garbage collector takes it for an orphan.
//! - An object of another publisher is left alone. Taking over, like restoring what was edited by hand, is done a few times
//!   an hour at most, so that two publishers do not fight.
//! - What was written and is undone that often, as by another gpulet under the same node name, is told as contested until
//!   it was found as desired at the pace of looking.
//! - What a watch tells may be older than the last write. So it is no reason to write, only to look.

mod event;
mod timing;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::object::Body;
use super::observed::Observed;
use super::ownership::{Contender, FIELD_MANAGER, Owner, Ownership, Publisher as Program};

pub use event::{Command, Event, Failure, State, Why, Write};
pub use timing::Timing;

use timing::{Backoff, Changes, Contests, Jitter, vanishes};

/// A watch that lags tells of a write when others have followed; so many of them are still known then.
const OWN_VERSIONS: usize = 16;

/// Decides when the object is read and written.
#[derive(Debug)]
pub struct Publisher {
    timing: Timing,
    jitter: Jitter,
    take_over: bool,
    desired: Option<Arc<Body>>,
    /// UID of the Node that is to own the object; absent: nobody need own it.
    owner: Option<String>,
    there: There,
    under_way: Option<UnderWay>,
    changes: Changes,
    backoff: Backoff,
    contests: Contests,
    /// Until then nothing vanishes, and nothing is free that a forgotten Pod has.
    hold_until: Instant,
    /// What is desired was made without Pods that run.
    forgets: bool,
    /// The next look at an object of another publisher.
    look_at: Instant,
    /// The next refresh.
    refresh_at: Instant,
    last_read: Option<Instant>,
    last_write: Option<Instant>,
    /// The last write met fields of another manager.
    conflicted: bool,
    /// The object was looked at, is another's, and is not to be taken.
    left_alone: bool,
    /// What the API server took last.
    wrote: Option<Arc<Body>>,
    /// Versions of the object that were written here, the latest last: a watch tells of them too.
    own_versions: VecDeque<String>,
    /// What a watch told while a read or a write was under way: it may be newer than the answer.
    meanwhile: Option<Option<Observed>>,
    state: State,
    now: Instant,
}

/// What is known to be there.
#[derive(Debug)]
enum There {
    /// It has to be looked at.
    Unknown,
    /// No such object.
    Absent,
    /// This.
    Object { body: Arc<Body>, whose: Whose, is_owned: bool },
}

/// Whose the object is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Whose {
    /// Ours, or nobody's.
    Ours,
    /// Ours, and a person has edited it.
    Edited,
    /// This publisher's.
    Others(Contender),
}

impl Whose {
    fn of(ownership: &Ownership) -> Self {
        if let Some(contender) = ownership.contender() {
            return Self::Others(contender);
        }
        let by_hand = |owner: &&Owner| owner.zones && owner.publisher == Program::Person;
        let Some(person) = ownership.owners.iter().find(by_hand) else { return Self::Ours };
        let traces_of_ours = ownership.managed_by.as_deref() == Some(FIELD_MANAGER)
            || ownership.owners.iter().any(|owner| owner.publisher == Program::Gpulet);
        if traces_of_ours {
            return Self::Edited;
        }
        // A person has made it, or edited what a publisher made.
        let is_program = |owner: &&Owner| owner.publisher != Program::Person;
        let Owner { publisher, manager, .. } = ownership.owners.iter().find(is_program).unwrap_or(person);
        Self::Others(Contender { publisher: *publisher, manager: manager.clone() })
    }
}

/// What was asked for and is not answered yet.
#[derive(Debug)]
enum UnderWay {
    Read,
    Write(Arc<Body>),
}

/// What is to be done next.
#[derive(Debug)]
enum Next {
    Look,
    Write(Why),
}

impl Publisher {
    /// One that begins at `now`. `seed` decides the random parts of its waits and should differ between nodes.
    pub fn new(timing: Timing, seed: u64, now: Instant) -> Self {
        Self {
            timing,
            jitter: Jitter::new(seed),
            take_over: false,
            desired: None,
            owner: None,
            there: There::Unknown,
            under_way: None,
            changes: Changes::default(),
            backoff: Backoff::default(),
            contests: Contests::default(),
            hold_until: now + timing.hold_down,
            forgets: false,
            look_at: now,
            refresh_at: now + timing.refresh,
            last_read: None,
            last_write: None,
            conflicted: false,
            left_alone: false,
            wrote: None,
            own_versions: VecDeque::new(),
            meanwhile: None,
            state: State::Starting,
            now,
        }
    }

    /// How publishing gets on.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Takes `event`, which happened at `now`, and gives what is to be done.
    pub fn step(&mut self, event: Event, now: Instant) -> Vec<Command> {
        self.now = self.now.max(now);
        let before = self.state.clone();
        self.take(event);
        let mut commands = self.begin();
        if self.state != before {
            commands.insert(0, Command::Tell(self.state.clone()));
        }
        commands
    }

    /// When [`Event::Woken`] is to come at the latest; absent: only other events bring anything new.
    pub fn next_wake(&self) -> Option<Instant> {
        self.next().map(|(_, due)| due)
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Desired(body) => self.desire(body),
            Event::NothingDesired => self.desire_nothing(),
            Event::Owner(owner) => {
                if owner != self.owner {
                    self.owner = owner;
                    self.look_again();
                }
            }
            Event::KubeletUnsettled => self.hold_until = self.now + self.timing.hold_down,
            Event::KubeletForgets(forgets) => self.forgets = forgets,
            Event::Looked(found) if matches!(self.under_way, Some(UnderWay::Read)) => self.looked(found),
            Event::Looked(found) | Event::Noticed(found) => self.notice(found),
            Event::Written(version) => self.written(version),
            Event::Failed(failure) => self.failed(failure),
            Event::TakeOver(take_over) => {
                if take_over != self.take_over {
                    self.take_over = take_over;
                    // Who asks for it again means it.
                    self.contests.forget();
                    self.look_again();
                }
            }
            Event::ApiBack => {
                let spread = self.jitter.up_to(self.timing.spread);
                self.backoff.api_back(self.now, spread);
            }
            Event::Woken => {}
        }
    }

    fn desire(&mut self, body: Arc<Body>) {
        if self.desired.as_ref() == Some(&body) {
            return;
        }
        // What was refused may not be any more.
        if self.state == State::Failing(Failure::Invalid) {
            self.backoff.over();
        }
        self.changes.add(self.now, &self.timing);
        self.desired = Some(body);
    }

    fn desire_nothing(&mut self) {
        self.desired = None;
        // What is gone by then was not undone by anyone.
        self.wrote = None;
        self.changes.clear();
        self.look_again();
        self.state = State::Starting;
    }

    fn looked(&mut self, found: Option<Observed>) {
        self.under_way = None;
        if self.meanwhile.take().is_some_and(|meanwhile| version(&meanwhile) != version(&found)) {
            return self.look_again();
        }
        self.left_alone = false;
        let Some(Observed { ownership, body, owner_references, .. }) = found else {
            self.there = There::Absent;
            return self.see_whether_contested(None);
        };
        let is_owned = self.owner.as_ref().is_none_or(|owner| {
            owner_references.iter().any(|reference| reference.kind == "Node" && reference.uid == *owner)
        });
        let whose = Whose::of(&ownership);
        let contested = self.contests.too_many(self.now, &self.timing);
        if let Whose::Others(contender) = &whose
            && (contested || !self.take_over)
        {
            self.leave_alone(contender.clone(), contested);
        }
        self.there = There::Object { whose, body: Arc::new(body), is_owned };
        if self.is_as_desired() {
            self.changes.clear();
            self.backoff.over();
            self.state = State::Published;
        }
        self.see_whether_contested(last_writer(&ownership));
    }

    /// Whether what was written has been undone so often that restoring it waits.
    fn see_whether_contested(&mut self, by: Option<Contender>) {
        let is_undone = matches!(self.next(), Some((Next::Write(Why::Restored), _)));
        if is_undone && self.contests.too_many(self.now, &self.timing) {
            self.state = State::Contested { by };
        }
    }

    fn leave_alone(&mut self, contender: Contender, contested: bool) {
        self.state = State::OtherPublisher { contender, contested };
        self.left_alone = true;
        self.conflicted = false;
        self.backoff.over();
        self.changes.clear();
        self.wait_before_next_look();
    }

    fn wait_before_next_look(&mut self) {
        self.look_at = self.now + self.timing.look_again + self.jitter.up_to(self.timing.look_again / 5);
    }

    /// A watch also tells what was written here, and that others write what is left to them.
    fn notice(&mut self, found: Option<Observed>) {
        if found.as_ref().is_some_and(|found| self.own_versions.contains(&found.resource_version)) {
            return;
        }
        let is_ours = |found: &Observed, body: &Arc<Body>| {
            found.body == **body && Whose::of(&found.ownership) == Whose::Ours
        };
        let expected = match (&found, &self.there, &self.under_way) {
            (Some(found), _, Some(UnderWay::Write(body))) => is_ours(found, body),
            (Some(found), There::Object { body, whose: Whose::Ours, .. }, _) => is_ours(found, body),
            (Some(found), There::Object { .. }, _) => {
                self.left_alone && matches!(Whose::of(&found.ownership), Whose::Others(_))
            }
            (None, There::Absent, _) => true,
            _ => false,
        };
        match self.under_way {
            _ if expected => {}
            Some(_) => self.meanwhile = Some(found),
            None => self.look_again(),
        }
    }

    fn look_again(&mut self) {
        self.there = There::Unknown;
        self.left_alone = false;
    }

    fn written(&mut self, version: String) {
        let Some(UnderWay::Write(body)) = self.under_way.take() else { return };
        if !version.is_empty() {
            self.own_versions.push_back(version);
            if self.own_versions.len() > OWN_VERSIONS {
                self.own_versions.pop_front();
            }
        }
        self.wrote = Some(Arc::clone(&body));
        self.there = There::Object { body, whose: Whose::Ours, is_owned: true };
        self.conflicted = false;
        self.refresh_at = self.now + self.timing.refresh + self.jitter.up_to(self.timing.refresh / 5);
        self.backoff.over();
        // Whether it is left as it is now will be seen.
        if !self.is_contested() || !self.contests.too_many(self.now, &self.timing) {
            self.state = State::Published;
        }
        if self.is_as_desired() {
            self.changes.clear();
        }
        if self.meanwhile.take().is_some() {
            self.look_again();
        }
    }

    fn failed(&mut self, failure: Failure) {
        let Some(under_way) = self.under_way.take() else { return };
        self.backoff.failed(failure, self.now, &self.timing, &mut self.jitter);
        let nothing_was_written = matches!(
            failure,
            Failure::Throttled { .. } | Failure::Unauthorized | Failure::Forbidden | Failure::Invalid
        );
        let is_known = matches!(under_way, UnderWay::Write(_)) && nothing_was_written;
        if self.meanwhile.take().is_some() || !is_known {
            self.look_again();
        }
        // A first conflict is no failure yet: whose object it is must be seen.
        let is_first = failure == Failure::Conflict && !self.conflicted;
        self.conflicted = failure == Failure::Conflict;
        if !is_first {
            self.state = State::Failing(failure);
        }
    }

    fn is_contested(&self) -> bool {
        matches!(self.state, State::Contested { .. })
    }

    fn is_as_desired(&self) -> bool {
        match (&self.there, &self.desired) {
            (There::Object { body, whose: Whose::Ours | Whose::Edited, is_owned: true }, Some(desired)) => {
                body == desired
            }
            _ => false,
        }
    }

    /// What is to be done next and when.
    fn next(&self) -> Option<(Next, Instant)> {
        let desired = self.desired.as_ref().filter(|_| self.under_way.is_none())?;
        let Self { timing, there, .. } = self;
        let changed = self.changes.due(timing);
        // Someone undoes what was written. Restoring that goes on, at the pace of looking.
        let undone = self.wrote.as_ref() == Some(desired);
        let patient = self.contests.too_many(self.now, timing).then_some(self.look_at);
        let (next, due) = match there {
            There::Unknown => (Next::Look, None),
            There::Object { .. } if self.left_alone => (Next::Look, Some(self.look_at)),
            There::Object { .. } if self.is_contested() && self.is_as_desired() => {
                (Next::Look, Some(self.look_at))
            }
            There::Absent if undone => (Next::Write(Why::Restored), changed.max(patient)),
            There::Absent => (Next::Write(Why::Absent), changed),
            There::Object { whose: Whose::Others(_), .. } => (Next::Write(Why::TakenOver), changed),
            There::Object { body, is_owned: true, .. } if body == desired => {
                (Next::Write(Why::Refreshed), Some(self.refresh_at))
            }
            There::Object { body, .. } if body == desired => (Next::Write(Why::Changed), changed),
            There::Object { whose: Whose::Edited, .. } => (Next::Write(Why::Restored), changed.max(patient)),
            There::Object { .. } if undone => (Next::Write(Why::Restored), changed.max(patient)),
            There::Object { body, .. } => {
                let unsettled = self.forgets || vanishes(body, desired);
                let settled = unsettled.then_some(self.hold_until);
                (Next::Write(Why::Changed), changed.max(settled))
            }
        };
        let last = if matches!(next, Next::Look) { self.last_read } else { self.last_write };
        let apart = last.map(|last| last + timing.interval);
        Some((next, due.max(apart).max(self.backoff.until()).unwrap_or(self.now)))
    }

    /// Begins what is due.
    fn begin(&mut self) -> Vec<Command> {
        let Some((next, _)) = self.next().filter(|(_, due)| *due <= self.now) else { return Vec::new() };
        let Some(body) = self.desired.clone() else { return Vec::new() };
        match next {
            Next::Look => {
                self.last_read = Some(self.now);
                self.under_way = Some(UnderWay::Read);
                vec![Command::Read]
            }
            Next::Write(why) => {
                let contested = self.contests.too_many(self.now, &self.timing);
                let force = matches!(why, Why::TakenOver | Why::Restored) || self.conflicted && !contested;
                if force {
                    self.contests.count(self.now, &self.timing);
                    self.wait_before_next_look();
                }
                self.last_write = Some(self.now);
                self.changes.clear();
                self.under_way = Some(UnderWay::Write(Arc::clone(&body)));
                vec![Command::Write(Write { body, force, why })]
            }
        }
    }
}

/// Who has written what the object says: who has edited it, or else who has applied it.
fn last_writer(ownership: &Ownership) -> Option<Contender> {
    let wrote = |owner: &&Owner| owner.zones || owner.attributes;
    let is_other = |owner: &&Owner| owner.publisher != Program::Gpulet;
    let mut writers = ownership.owners.iter().filter(wrote);
    let Owner { publisher, manager, .. } = writers.clone().find(is_other).or_else(|| writers.next())?;
    Some(Contender { publisher: *publisher, manager: manager.clone() })
}

fn version(object: &Option<Observed>) -> Option<(&str, &str)> {
    object.as_ref().map(|object| (object.uid.as_str(), object.resource_version.as_str()))
}

#[cfg(test)]
mod harness;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
