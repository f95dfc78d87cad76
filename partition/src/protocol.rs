//! From what a node's labels declare to a node whose GPUs are so: a state machine without I/O.
//!
//! ```text
//!            declared anew, file, drift, retry                     in the way, and may be waited for or moved
//!   settled ----------------------------------> due: look --------------------------------------> clearing
//!      ^                                         |   |                                              |  ^ |
//!      |              nothing to do, impossible, |   | to be changed                         gone   |  '-' look again
//!      |              in the way (refuse)        |   v                                              |
//!      |                                         | pausing: clients go <----------------------------'
//!      |                                         |   | gone
//!      |                                         |   v
//!      |                                         | ready: look once more
//!      |                                         |   | still to be changed
//!      |                                         v   v
//!      '-- told -- ending: devices, services, <-- applying ---> rebooting
//!                  clients, cordon put back
//! ```
//!
//! - Every way out of a change leads through *ending*: clients restored, what gpulet cordoned uncordoned, services started,
//!   and one of NVIDIA's four words with a reason. What is to be put back is written down before it is changed, so that a
//!   crash leads there too.
//! - Nothing is paused before a look said what is to be done; a look that says nothing is to be done changes nothing.
//! - What is declared counts by what it resolves to, not by its name: an edited file is a new wish, and from A to B and back
//!   to A is A.
//! - What is declared anew while a change is under way waits for the GPU that is being changed, and for nothing else.
//! - What fails is tried again, ever more seldom; what was blocked as soon as someone has gone.
//! - Without the label, and where another program divides this node's GPUs, hands are off.
//!
//! The parts: `declared` reads labels, `node` and `clients` know what is paused and who has to go, `assessment` is what a
//! look says, `status` what is told, `journal` what survives.

mod act;
mod assessment;
mod clients;
mod declared;
mod ending;
mod event;
mod hear;
mod journal;
mod node;
mod status;
mod timing;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use gpulet_inventory::pod::Pod;

use crate::apply::Failure;
use crate::observed::PodName;

pub use assessment::{Assessed, Assessment, Outlook};
pub use clients::OtherManager;
pub use declared::{
    CORDONED, Declared, MIG_CONFIG, NoSuchWord, OVERRIDES, STATE, STATUS, WHEN_BUSY, WhenBusy,
};
pub use event::{
    ApiFailure, ApiFailureKind, Command, Event, Eviction, GpuEnd, GpuResult, Happening, NotLooked, Policy,
    Standing, Stir,
};
pub use journal::{NodeEntry, NodeJournal, Reached, RebootMarker};
pub use node::{CLIENTS, NodeChange, NodeView, PAUSED};
pub use status::{GpuStatus, State, Status, StatusChange};
pub use timing::{Pace, Timing};

use clients::InTheWay;
use timing::Jitter;

/// Brings the node to what is declared.
#[derive(Debug)]
pub struct Protocol {
    /// There is an API server; otherwise only the configuration and the GPUs.
    kubernetes: bool,
    boot_id: String,
    policy: Policy,
    timing: Timing,
    jitter: Jitter,
    now: Instant,
    /// The Node as a watch tells; absent before it told, and then where there is none.
    node: Option<Option<NodeView>>,
    pods: Option<Arc<Vec<Pod>>>,
    /// What is to be on disk.
    entry: NodeEntry,
    /// What is.
    written: NodeEntry,
    /// The journal could not be written: not before this.
    journal_at: Option<Instant>,
    recovered: bool,
    goal: Goal,
    phase: Phase,
    attempt: Attempt,
    under_way: Option<UnderWay>,
    /// What is under way was asked to end early.
    stopping: bool,
    /// There may be news that the last look did not see.
    stale: bool,
    looked_at: Option<Instant>,
    /// How often in a row a change to this hash failed.
    failures: u32,
    failed_hash: Option<String>,
    /// Of this hash it is not waited for any more.
    waited: Option<String>,
    /// It was drained in vain.
    drained: Option<Drained>,
    /// How many looks have come one upon the other.
    crowded: u32,
    /// What the Node is to say.
    status: Option<StatusChange>,
    /// What was written last that the API server took.
    told: Option<StatusChange>,
    /// Since when the Node says something else.
    edited: Option<Instant>,
    edits: u32,
    api: Api,
    standing: Standing,
    /// What is said without an answer.
    said: Vec<Command>,
}

/// What is to be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Goal {
    /// Not known yet.
    Unknown,
    /// The API server has no Node of our name.
    NoNode,
    /// Nothing.
    NotDeclared,
    /// Nothing, as another program does it.
    Other(OtherManager),
    /// This.
    Reach(Declared),
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// It is to be looked at.
    Due,
    /// Who is in the way is to go.
    Clearing(InTheWay),
    /// The clients are to go.
    Pausing,
    /// It is to be looked at once more, not before this.
    Ready(Instant),
    /// The GPUs are to be changed.
    Applying,
    /// The machine is to go down until then.
    Rebooting { asked: bool, until: Instant },
    /// All is to be put back.
    Ending(Verdict),
    /// There is nothing to do until then, or until something happens.
    Settled { again: Option<Instant>, blocked: bool },
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Verdict {
    /// Whether it is as wanted.
    success: bool,
    /// When it is tried again.
    retry: Retry,
}

/// When something is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Retry {
    /// After a wait that grows.
    Soon,
    /// The same, and as soon as someone has gone.
    WhenFree,
    /// Rarely: nothing is wrong, or only another declaration helps.
    Rarely,
}

/// A drain after which who was in the way was there still.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Drained {
    /// For this hash.
    hash: String,
    /// How it ended.
    failure: Failure,
    /// Not before this it is drained again.
    again: Instant,
}

/// What was done around the GPUs since it began.
#[derive(Debug, Default)]
struct Attempt {
    /// It was told that it begins.
    begun: bool,
    /// Until then it is waited for who is in the way.
    until: Option<Instant>,
    cordoned: bool,
    paused: bool,
    /// Until then the clients are waited for.
    clients_until: Option<Instant>,
    /// Services of the host were stopped, or none had to be.
    stopped: bool,
    /// Pods whose evictions were accepted.
    evicted: BTreeSet<PodName>,
    evict_at: Option<Instant>,
    look_at: Option<Instant>,
    /// Why an eviction is put off, in the API server's words.
    budget: Option<String>,
    /// GPUs were changed, or what had begun before was ended.
    applied: bool,
    /// In ending: done or given up.
    cared: bool,
    started: bool,
    restored: bool,
    refreshed: bool,
    /// A change of the Node, decided for one version of it.
    change: Option<NodeChange>,
    /// Of the look that was made last.
    assessment: Option<Assessment>,
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum UnderWay {
    Recover,
    Look(Declared),
    Journal(NodeEntry),
    Read(For),
    Change(For, NodeChange),
    Evict(Vec<PodName>),
    Refresh(Vec<PodName>),
    Stop(Vec<String>),
    Start(Vec<String>),
    Apply { reboot: bool },
    Care,
    Reboot,
}

/// What the Node is read or changed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    Cordoning,
    Pausing,
    Restoring,
    Telling,
}

/// How the API server answers.
#[derive(Debug, Default)]
struct Api {
    failures: u32,
    until: Option<Instant>,
}

impl Protocol {
    /// One that begins at `now` with what was on disk. `seed` decides the random parts of its waits and should differ between
    /// nodes.
    pub fn new(setting: Setting, now: Instant) -> Self {
        let Setting { kubernetes, boot_id, policy, timing, seed, journal } = setting;
        let entry: NodeEntry = journal.map(NodeEntry::from).unwrap_or_default();
        Self {
            kubernetes,
            boot_id,
            policy,
            timing,
            jitter: Jitter::new(seed),
            now,
            node: None,
            pods: None,
            written: entry.clone(),
            entry,
            journal_at: None,
            recovered: false,
            goal: Goal::Unknown,
            phase: Phase::Due,
            attempt: Attempt::default(),
            under_way: None,
            stopping: false,
            stale: false,
            looked_at: None,
            failures: 0,
            failed_hash: None,
            waited: None,
            drained: None,
            crowded: 0,
            status: None,
            told: None,
            edited: None,
            edits: 0,
            api: Api::default(),
            standing: Standing::Unknown,
            said: Vec::new(),
        }
    }

    /// How it goes.
    pub fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Whether it matters who uses the GPUs: then their coming and going should be told by [`Event::Stirred`].
    pub fn cares_for_holders(&self) -> bool {
        matches!(self.phase, Phase::Clearing(_) | Phase::Settled { blocked: true, .. })
    }

    /// Takes `event`, which happened at `now`, and gives what is to be done. The first event is any.
    pub fn step(&mut self, event: Event, now: Instant) -> Vec<Command> {
        self.now = self.now.max(now);
        self.hear(event);
        let next = self.act();
        let mut commands = std::mem::take(&mut self.said);
        commands.extend(next);
        commands
    }
}

/// What a [`Protocol`] begins with.
#[derive(Debug, Clone)]
pub struct Setting {
    /// There is an API server; otherwise only the configuration and the GPUs.
    pub kubernetes: bool,
    /// Of this boot (source: `/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
    /// What is permitted.
    pub policy: Policy,
    /// How long is waited.
    pub timing: Timing,
    /// Decides the random parts of waits.
    pub seed: u64,
    /// What was on disk.
    pub journal: Option<NodeJournal>,
}
