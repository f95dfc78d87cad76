//! Everything known about the node, in parts with an age each.
//!
//! Whoever learns something replaces one part; whoever reads takes the whole by one `Arc` and never waits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::gpu::Gpu;
use crate::holders::Holders;
use crate::pci::PciAddress;
use crate::reading::{Answer, Reading};
use crate::sample::Sample;
use crate::topology::{LargestFreeSets, NodeTopology};
use crate::word::Word;

/// One part of the snapshot and when it was true.
#[derive(Debug, Clone)]
pub struct Part<T> {
    /// What was learned.
    pub value: Arc<T>,
    /// When.
    pub taken: Instant,
}

impl<T> Part<T> {
    /// A part learned at `now`.
    pub fn new(value: T, now: Instant) -> Self {
        Self { value: Arc::new(value), taken: now }
    }

    /// How old it is at `now`.
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.taken)
    }
}

/// The node at one instant.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// When this snapshot was put together.
    pub taken: Instant,
    /// The same instant on the wall clock, for timestamps that people compare: time since the Unix epoch.
    pub taken_unix: Duration,
    /// The driver and its GPUs.
    pub gpus: Part<NodeGpus>,
    /// Where everything sits, and what is wrong with that.
    pub topology: Part<NodeTopology>,
    /// The largest sets of GPUs that answer and that no process holds, by their positions in the topology.
    pub free_sets: LargestFreeSets,
    /// Who holds which GPU, and to whom the kubelet gave it.
    pub holders: Part<Holders>,
    /// The agent's own process.
    pub process: Part<ProcessStats>,
}

/// The driver and its GPUs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeGpus {
    /// How the driver is.
    pub driver: Driver,
    /// Its GPUs in the driver's order. Those of a driver that is gone stay, each with the reason why it is down.
    pub gpus: Vec<GpuState>,
    /// GPUs that the open driver counts and that have not said which they are, in the driver's order.
    pub unlisted: Vec<UnlistedGpu>,
    /// What the calls to the driver came to.
    pub calls: CallStats,
}

impl NodeGpus {
    /// Why a GPU in this condition is down, in one stable word; absent while it is up. A GPU of a driver that is down
    /// has the driver's reason.
    pub fn down_reason(&self, condition: Condition) -> Option<&'static str> {
        match condition {
            Condition::Down(DownReason::DriverDown) => {
                Some(self.driver.down_reason().unwrap_or(DownReason::DriverDown.reason()))
            }
            other => other.down_reason(),
        }
    }
}

/// What the calls to the driver came to since this process started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallStats {
    /// Calls made.
    pub made: u64,
    /// Calls that failed, by symbol and then by reason ([`crate::reading::Cause::reason`]).
    #[serde(deserialize_with = "crate::word::deserialize_counts")]
    pub failed: BTreeMap<Word, BTreeMap<Word, u64>>,
    /// Calls, and fields of calls, that this driver or a GPU does not have, by the same. That is no failure: what there is
    /// cannot be known without asking, and what there is not is asked for once in a long time.
    #[serde(deserialize_with = "crate::word::deserialize_counts")]
    pub unsupported: BTreeMap<Word, BTreeMap<Word, u64>>,
    /// Threads that are stuck in a call now.
    pub stuck_threads: u64,
    /// How often the driver was opened.
    pub opens: u64,
}

/// How the driver is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// It answers.
    Up(DriverInfo),
    /// It does not.
    Down(DriverDown),
}

impl Driver {
    /// Why it is down, in one stable word; absent while it is up.
    pub fn down_reason(&self) -> Option<&'static str> {
        match self {
            Self::Up(_) => None,
            Self::Down(down) => Some(down.reason),
        }
    }
}

/// The driver's versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverInfo {
    /// Driver version, such as `580.105.08`.
    pub driver_version: String,
    /// Version of the NVML library.
    pub nvml_version: String,
    /// Highest CUDA version that the driver supports, such as `13.0`; absent where it does not say.
    pub cuda_version: Option<String>,
    /// Which library was opened.
    pub library: String,
    /// How often the driver has been opened by this process: changes when handles and caches do.
    pub epoch: u64,
}

/// Why the driver is down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverDown {
    /// One stable word: `LibraryNotFound`, `DriverNotLoaded`, `NoPermission`, `VersionMismatch`, `Quiesced`, …
    #[serde(deserialize_with = "crate::word::deserialize")]
    pub reason: Word,
    /// What happened, naming the object.
    pub message: String,
    /// What a person can do about it.
    pub remedy: String,
}

impl DriverDown {
    /// Every word that [`DriverDown::reason`] can be.
    pub const REASONS: [Word; 13] = [
        "LibraryNotFound",
        "LibraryUnusable",
        "DriverNotLoaded",
        "NoPermission",
        "VersionMismatch",
        "Unknown",
        "Unresponsive",
        "TooManyStuckThreads",
        "NoThread",
        "NotOpen",
        "Quiescing",
        Self::QUIESCED,
        "NotRecorded",
    ];

    /// It was let go of on request, which is no fault.
    pub const QUIESCED: Word = "Quiesced";
}

/// One GPU and the last that was read from it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GpuState {
    /// What it is.
    pub gpu: Arc<Gpu>,
    /// Whether it answers.
    pub condition: Condition,
    /// The last readings; absent while it is down.
    pub sample: Option<Arc<Sample>>,
    /// When `sample` was read; without one, when the GPU last gave one.
    #[serde(skip)]
    pub sampled: Instant,
    /// How long reading took, as seen from outside the worker.
    pub took: Duration,
    /// XIDs by code since this process started, where the driver tells of them.
    pub xids: Reading<BTreeMap<u32, u64>>,
}

/// A GPU that the driver counts and that has no name yet: it hung, was lost or refused before it told its UUID.
/// Once it tells, it is one of [`NodeGpus::gpus`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnlistedGpu {
    /// The driver's number.
    pub index: u32,
    /// Where it sits, if it has told that much.
    pub pci: Option<PciAddress>,
    /// Why no more is known of it.
    pub reason: DownReason,
}

/// Whether a GPU answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// It answers.
    Up,
    /// It does not.
    Down(DownReason),
}

impl Condition {
    /// Why it is down, in one stable word; absent while it is up.
    pub fn down_reason(self) -> Option<&'static str> {
        match self {
            Self::Up => None,
            Self::Down(reason) => Some(reason.reason()),
        }
    }
}

/// Why a GPU does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DownReason {
    /// It has fallen off the bus (`NVML_ERROR_GPU_IS_LOST`).
    Lost(Answer),
    /// It must be reset before it answers again (`NVML_ERROR_RESET_REQUIRED`).
    ResetRequired(Answer),
    /// A call has not returned for longer than its deadline.
    Unresponsive {
        /// The call that hangs.
        #[serde(deserialize_with = "crate::word::deserialize")]
        call: Word,
        /// For how long, at the time of the snapshot.
        since: Duration,
    },
    /// The driver is not open.
    DriverDown,
    /// It answered with an error that says nothing more exact.
    Failed(Answer),
}

impl DownReason {
    /// Every word that [`DownReason::reason`] can be, but for that of a driver that is down, which has its own
    /// ([`NodeGpus::down_reason`]).
    pub const REASONS: [Word; 4] = ["Lost", "ResetRequired", "Unresponsive", "Failed"];

    /// The call that hangs or was refused; absent while the driver is not open.
    pub fn call(self) -> Option<&'static str> {
        match self {
            Self::Lost(answer) | Self::ResetRequired(answer) | Self::Failed(answer) => Some(answer.call),
            Self::Unresponsive { call, .. } => Some(call),
            Self::DriverDown => None,
        }
    }

    /// The stable word for metric labels and events.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Lost(_) => "Lost",
            Self::ResetRequired(_) => "ResetRequired",
            Self::Unresponsive { .. } => "Unresponsive",
            Self::DriverDown => "DriverDown",
            Self::Failed(_) => "Failed",
        }
    }
}

/// The agent's own process (source: `/proc/self`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ProcessStats {
    /// User and system CPU time, seconds.
    pub cpu_seconds: f64,
    /// Resident memory, bytes.
    pub resident_bytes: u64,
    /// Virtual memory, bytes.
    pub virtual_bytes: u64,
    /// Open file descriptors.
    pub open_fds: u64,
    /// Limit on open file descriptors.
    pub max_fds: u64,
    /// Threads.
    pub threads: u64,
    /// Start of the process, seconds since the Unix epoch.
    pub start_time_seconds: f64,
}
