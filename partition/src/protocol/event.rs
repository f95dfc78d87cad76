//! What the machine hears and says.

use std::sync::Arc;
use std::time::Duration;

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::pod::Pod;

use crate::apply::Failure;
use crate::observed::PodName;
use crate::reboot::Permission;

use super::assessment::Assessment;
use super::declared::Declared;
use super::journal::NodeJournal;
use super::node::{NodeChange, NodeView};
use super::status::Status;

/// What is to be done at the edges. All but [`Command::Tell`], [`Command::Happened`] and [`Command::StopSoon`] are answered by
/// one event, within a deadline of the edge; until then no other such command comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Finishes or rolls back what a crash has cut off on single GPUs: answered by [`Event::Recovered`].
    Recover,
    /// Reads the GPUs, resolves what is declared, and plans: answered by [`Event::Looked`].
    Look(Declared),
    /// Writes the journal so that it survives a power loss: answered by [`Event::Journalled`].
    Journal(NodeJournal),
    /// Reads the Node from the API server: answered by [`Event::NodeRead`].
    ReadNode,
    /// Changes the Node: answered by [`Event::NodeChanged`].
    ChangeNode(NodeChange),
    /// Evicts these Pods through the eviction API: answered by [`Event::Evicted`].
    Evict(Vec<PodName>),
    /// Stops these services of the host: answered by [`Event::ServicesDone`].
    StopServices(Vec<String>),
    /// Starts these services of the host: answered by [`Event::ServicesDone`].
    StartServices(Vec<String>),
    /// Carries out what was planned at the last look: answered by [`Event::Applied`].
    Apply {
        /// Whether a change of mode may wait for a reboot.
        reboot: bool,
    },
    /// Ends what [`Command::Apply`] does once the GPU that it is at is done.
    StopSoon,
    /// Brings device files and the CDI specification to what there is: answered by [`Event::CaredFor`].
    Care,
    /// Reboots the machine: answered by [`Event::RebootAsked`].
    Reboot,
    /// How it goes is this now: for the Node's condition, the log and metrics.
    Tell(Standing),
    /// Something happened that people want to know: an Event about the Node.
    Happened(Happening),
}

/// How it goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Standing {
    /// Nobody knows yet what is declared.
    #[default]
    Unknown,
    /// Nothing is declared.
    NotDeclared,
    /// Something is.
    Of(Status),
}

/// Something that people want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happening {
    /// Whether someone should look.
    pub warning: bool,
    /// Why it happened, in one word.
    pub reason: String,
    /// For people.
    pub message: String,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The time that was asked for has come, or it begins.
    Woken,
    /// The Node is this, as a watch tells; nothing where there is none of our name. Without Kubernetes what the configuration
    /// declares.
    Node(Option<NodeView>),
    /// These Pods are on the node, as a watch tells.
    Pods(Arc<Vec<Pod>>),
    /// The configuration or the partition file may be another.
    File,
    /// The GPUs, or who uses them, may be others than at the last look.
    Stirred(Stir),
    /// The driver was loaded anew: what it had divided is gone, and nobody has changed it.
    Reloaded,
    /// What is permitted is this now.
    Policy(Policy),
    /// Whether all that a crash had cut off on single GPUs is finished or rolled back; otherwise why not. Absent: there was
    /// nothing.
    Recovered(Option<Result<String, Failure>>),
    /// What there is and what would be done, or why that is not known.
    Looked(Result<Assessment, NotLooked>),
    /// The journal is as it was to be, or why not.
    Journalled(Result<(), Failure>),
    /// The Node and its version.
    NodeRead(Result<(NodeView, String), ApiFailure>),
    /// The Node was changed, or why not.
    NodeChanged(Result<(), ApiFailure>),
    /// What became of each eviction.
    Evicted(Vec<(PodName, Eviction)>),
    /// The services were stopped or started, or why not.
    ServicesDone(Result<(), Failure>),
    /// How it ended on each GPU of the plan.
    Applied(Vec<GpuResult>),
    /// What was seen to after the change, or what could not be.
    CaredFor(Result<String, Failure>),
    /// The machine is going down, or why not.
    RebootAsked(Result<(), Failure>),
}

/// What may be another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stir {
    /// The GPUs: their mode, their instances, whether they answer.
    Gpus,
    /// Who uses them.
    Holders,
}

/// What is permitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Without a label: what happens while something is in use.
    pub when_busy: super::declared::WhenBusy,
    /// How long [`WhenBusy::Wait`](super::WhenBusy::Wait) waits and [`WhenBusy::Drain`](super::WhenBusy::Drain) tries.
    pub wait: Duration,
    /// Whether the machine may be rebooted.
    pub reboot: Permission,
    /// Whether what someone else has changed since it was reached is changed back.
    pub repair: bool,
}

/// Why a look told nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotLooked {
    /// Why.
    pub failure: Failure,
    /// What is declared is wrong: nothing but another declaration helps.
    pub is_wrong: bool,
}

/// Why the API server did not do something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiFailure {
    /// Why.
    pub failure: Failure,
    /// What is to be done.
    pub kind: ApiFailureKind,
}

/// What an API server's refusal is, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiFailureKind {
    /// The object has changed since it was read.
    Conflict,
    /// There is no such object.
    NotFound,
    /// It may not be asked, or asked so: nothing but a person helps.
    Refused,
    /// It may be asked again later, after this time at least.
    Later(Option<Duration>),
}

/// What became of an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Eviction {
    /// The Pod is to end, or has ended.
    Accepted,
    /// A PodDisruptionBudget forbids it for now, or it can be asked again for another reason: in the API server's words.
    Later(String),
    /// It will not be done.
    Failed(Failure),
}

/// How it ended on one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuResult {
    /// Which; absent where it does not even tell its UUID.
    pub gpu: Option<GpuUuid>,
    /// How.
    pub end: GpuEnd,
    /// The stable word.
    pub reason: String,
    /// For people.
    pub message: String,
}

/// How it ended on one GPU, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GpuEnd {
    /// Nothing was to be done.
    Unchanged,
    /// It is as wanted, read again.
    Reached,
    /// It was not begun, for it was asked to stop before.
    Stopped,
    /// It was not begun, and is as it was.
    NotBegun,
    /// It is as it was before.
    RolledBack,
    /// The mode changes with a reboot.
    RebootRequired,
    /// It is neither as wanted nor as before, or cannot be read.
    Broken,
}

impl GpuEnd {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Unchanged => "as-wanted",
            Self::Reached => "changed",
            Self::Stopped | Self::NotBegun => "not-begun",
            Self::RolledBack => "rolled-back",
            Self::RebootRequired => "reboot-required",
            Self::Broken => "broken",
        }
    }

    /// Whether the GPU may be another than it was.
    pub(super) fn may_have_changed(self) -> bool {
        !matches!(self, Self::Unchanged | Self::Stopped | Self::NotBegun)
    }
}
