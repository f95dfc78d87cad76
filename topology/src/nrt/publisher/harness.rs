//! A publisher and an API server that keeps one object, in a time of their own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::object::{Attribute, Body, NODE_ZONE, Resource, Zone};
use super::super::observed::{Observed, OwnerReference};
use super::super::ownership::{FIELD_MANAGER, MANAGED_BY, Owner, Ownership, Publisher as Program};
use super::{Command, Event, Failure, Publisher, State, Timing, Why, Write};

/// NFD's field manager.
pub(super) const NFD: &str = "node-feature-discovery-topology-updater";

/// A node of which `free` of `gpus` GPUs are free.
pub(super) fn body(gpus: u64, free: u64) -> Arc<Body> {
    let gpu = Resource {
        name: "nvidia.com/gpu".into(),
        capacity: gpus.into(),
        allocatable: gpus.into(),
        available: free.into(),
    };
    let zone =
        Zone { name: "node-0".into(), kind: NODE_ZONE.into(), resources: vec![gpu], ..Zone::default() };
    let attributes = vec![Attribute { name: "topologyManagerPolicy".into(), value: "none".into() }];
    Arc::new(Body { attributes, zones: vec![zone] })
}

fn node_of(uid: &str) -> OwnerReference {
    OwnerReference { kind: "Node".into(), name: "node".into(), uid: uid.to_owned() }
}

/// A publisher, the object on the server, and all that has happened.
pub(super) struct Harness {
    pub(super) publisher: Publisher,
    /// The object.
    pub(super) object: Option<Observed>,
    /// UID of the Node, which what we write gives as the owner.
    pub(super) node: Option<String>,
    /// How every request fails; absent: it does not.
    pub(super) fault: Option<Failure>,
    /// Whether the publisher hears of every change of the object at once.
    pub(super) watched: bool,
    /// Requests are kept here and not answered; absent: they are answered at once.
    pub(super) held: Option<Vec<Command>>,
    /// When each write was begun, and what it was, those that failed included.
    pub(super) writes: Vec<(Duration, Write)>,
    /// Writes of what was there already, without any other publisher.
    pub(super) idle: Vec<Write>,
    /// When each read was begun.
    pub(super) reads: Vec<Duration>,
    pub(super) told: Vec<State>,
    start: Instant,
    now: Instant,
    version: u64,
}

impl Harness {
    pub(super) fn new() -> Self {
        Self::with(Timing::default(), 7)
    }

    pub(super) fn with(timing: Timing, seed: u64) -> Self {
        #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
        let start = Instant::now();
        Self {
            publisher: Publisher::new(timing, seed, start),
            object: None,
            node: None,
            fault: None,
            watched: true,
            held: None,
            writes: Vec::new(),
            idle: Vec::new(),
            reads: Vec::new(),
            told: Vec::new(),
            start,
            now: start,
            version: 0,
        }
    }

    /// One that has published `body` and is past the hold-down.
    pub(super) fn published(body: &Arc<Body>) -> Self {
        let mut harness = Self::new();
        harness.event(Event::Desired(Arc::clone(body)));
        harness.pass(Duration::from_secs(61));
        assert_eq!(harness.said(), Some(&**body));
        harness.writes.clear();
        harness.reads.clear();
        harness.told.clear();
        harness
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.now - self.start
    }

    /// What the object says.
    pub(super) fn said(&self) -> Option<&Body> {
        self.object.as_ref().map(|object| &object.body)
    }

    pub(super) fn whys(&self) -> Vec<Why> {
        self.writes.iter().map(|(_, write)| write.why).collect()
    }

    pub(super) fn reasons(&self) -> Vec<&'static str> {
        self.told.iter().map(State::reason).collect()
    }

    /// Something happens, and what comes of it at once.
    pub(super) fn event(&mut self, event: Event) {
        let commands = self.publisher.step(event, self.now);
        self.obey(commands);
    }

    fn obey(&mut self, mut commands: Vec<Command>) {
        while !commands.is_empty() {
            let mut next = Vec::new();
            for command in commands {
                self.note(&command);
                match (&mut self.held, command) {
                    (_, Command::Tell(_)) => {}
                    (Some(held), command) => held.push(command),
                    (None, command) => next.extend(self.execute(command)),
                }
            }
            commands = next;
        }
    }

    /// Time passes; the publisher is woken whenever it wants to be.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        let mut wakes = 0;
        while let Some(wake) = self.publisher.next_wake().filter(|wake| *wake <= end) {
            wakes += 1;
            assert!(wakes < 20_000, "it wakes again and again without end");
            self.now = self.now.max(wake);
            self.event(Event::Woken);
        }
        self.now = end;
        self.event(Event::Woken);
    }

    fn note(&mut self, command: &Command) {
        match command {
            Command::Read => self.reads.push(self.elapsed()),
            Command::Write(write) => {
                let ours = self.object.as_ref().filter(|object| object.ownership.contender().is_none());
                let owners: Vec<OwnerReference> = self.node.iter().map(|uid| node_of(uid)).collect();
                if ours.is_some_and(|object| object.body == *write.body && object.owner_references == owners)
                {
                    self.idle.push(write.clone());
                }
                self.writes.push((self.elapsed(), write.clone()));
            }
            Command::Tell(state) => self.told.push(state.clone()),
        }
    }

    fn execute(&mut self, command: Command) -> Vec<Command> {
        let answer = match (command, self.fault) {
            (_, Some(failure)) => Event::Failed(failure),
            (Command::Read, None) => Event::Looked(self.object.clone()),
            (Command::Write(write), None) => {
                let foreign = |owner: &Owner| owner.zones && owner.manager != FIELD_MANAGER;
                let owners = self.object.iter().flat_map(|object| &object.ownership.owners);
                if !write.force && owners.filter(|owner| foreign(owner)).count() > 0 {
                    Event::Failed(Failure::Conflict)
                } else {
                    let changed = self.put(&write.body, FIELD_MANAGER, true);
                    let mut commands = self.publisher.step(Event::Written(self.version()), self.now);
                    if changed && self.watched {
                        commands.extend(self.publisher.step(Event::Noticed(self.object.clone()), self.now));
                    }
                    return commands;
                }
            }
            (Command::Tell(_), None) => return Vec::new(),
        };
        self.publisher.step(answer, self.now)
    }

    /// Another writes the object; the publisher hears of it where it watches.
    pub(super) fn other_writes(&mut self, body: &Arc<Body>, manager: &str, applies: bool) {
        self.put(body, manager, applies);
        self.tell();
    }

    /// There is a Node of this UID now.
    pub(super) fn node(&mut self, uid: &str) {
        self.node = Some(uid.to_owned());
        self.event(Event::Owner(self.node.clone()));
    }

    /// Someone deletes it.
    pub(super) fn delete(&mut self) {
        self.object = None;
        self.tell();
    }

    /// The object's version.
    pub(super) fn version(&self) -> String {
        self.object.as_ref().map(|object| object.resource_version.clone()).unwrap_or_default()
    }

    fn tell(&mut self) {
        if self.watched {
            self.event(Event::Noticed(self.object.clone()));
        }
    }

    fn put(&mut self, body: &Arc<Body>, manager: &str, applies: bool) -> bool {
        let owner = Owner {
            manager: manager.to_owned(),
            publisher: Program::of_manager(manager),
            applies,
            zones: true,
            attributes: true,
            labels: BTreeSet::new(),
            time: None,
        };
        let before = self.object.take();
        let ours = before.as_ref().is_some_and(|object| object.labels.contains_key(MANAGED_BY));
        let managed_by = (ours || manager == FIELD_MANAGER).then(|| FIELD_MANAGER.to_owned());
        let labels = managed_by.iter().map(|label| (MANAGED_BY.to_owned(), label.clone())).collect();
        let owner_references = match manager {
            FIELD_MANAGER => self.node.iter().map(|uid| node_of(uid)).collect(),
            _ => before.as_ref().map(|object| object.owner_references.clone()).unwrap_or_default(),
        };
        let mut object = Observed {
            name: "node".into(),
            uid: "1".into(),
            owner_references,
            labels,
            ownership: Ownership { owners: vec![owner], managed_by },
            body: (**body).clone(),
            ..Observed::default()
        };
        object.resource_version =
            before.as_ref().map(|object| object.resource_version.clone()).unwrap_or_default();
        let changed = before.as_ref() != Some(&object);
        if changed {
            self.version += 1;
            object.resource_version = self.version.to_string();
        }
        self.object = Some(object);
        changed
    }
}
