//! What can be asked of a simulated node from outside, and what it answers.
//!
//! Commands are what a person at the machine, the hardware itself or a workload would do: run a load, pull a
//! link, unload the driver. What a client asks of the driver comes through the C ABI instead.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::state::{Effect, ProcessKind};

/// A command to a running node. GPUs are named by index, in PCI order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Command {
    /// Runs a scripted load in place of the present one.
    Load {
        /// One GPU, or every GPU that can run it.
        gpu: Option<u32>,
        /// What to run.
        load: Load,
    },
    /// Puts a fault in force.
    SetFault {
        /// One GPU; `None` for every GPU and for calls that concern none.
        gpu: Option<u32>,
        /// Symbol, such as `nvmlDeviceGetPowerUsage`; `None` for every call.
        symbol: Option<String>,
        /// What the call does.
        effect: Effect,
    },
    /// Puts a fault in force that strikes calls by their number and is then spent. It stays in the list, with its counts,
    /// until it is cleared.
    Strike(Strike),
    /// Takes one fault away, or all of them.
    ClearFault {
        /// The number that setting it gave.
        id: Option<u64>,
    },
    /// The GPU falls off the bus: its processes die, XID 79 is reported, every call fails.
    Lose {
        /// GPU index.
        gpu: u32,
    },
    /// A lost GPU is back, freshly reset.
    Restore {
        /// GPU index.
        gpu: u32,
    },
    /// Takes the GPU away from the driver, or gives it back, as through `unbind` and `bind` in sysfs. The driver then has
    /// fewer or more GPUs and numbers them anew; commands do not.
    Bind {
        /// GPU index.
        gpu: u32,
        /// Whether it is the driver's from now on.
        bound: bool,
    },
    /// Reports an XID, with the counters that go with it (48, 63, 64, 94, 95).
    Xid {
        /// GPU index.
        gpu: u32,
        /// XID number.
        code: u64,
        /// How often, 1 to [`MAX_XIDS`].
        times: u32,
        /// GPU instance and compute instance that caused it, if one did.
        instance: Option<(u32, u32)>,
    },
    /// Pulls an NVLink, at both ends where the other is a GPU, or plugs it in.
    Link {
        /// GPU index.
        gpu: u32,
        /// Link number.
        link: u32,
        /// Whether it is up from now on.
        up: bool,
    },
    /// Unloads the kernel module; refused while someone uses it unless forced, which kills the GPUs' processes.
    UnloadDriver {
        /// Whether to unload under clients and processes.
        force: bool,
    },
    /// Loads the kernel module.
    LoadDriver {
        /// Another version than the last one. Any version drives any board here, so that a client's ways around
        /// an older driver can be tried on every node.
        version: Option<String>,
    },
    /// Whether the driver denies access, as to a user who may not open the device files.
    Permission {
        /// Whether access is denied.
        denied: bool,
    },
    /// A process takes a GPU or one of its instances.
    Hold(Hold),
    /// A program opens a GPU or an instance without a context on it, as monitors do. [`Command::Release`] ends it.
    Observe(Observe),
    /// A process lets go.
    Release {
        /// Process id.
        pid: u32,
        /// One GPU, or all that it holds.
        gpu: Option<u32>,
    },
    /// Gives a counter a value, to see it wrap or step back.
    SetCounter {
        /// GPU index.
        gpu: u32,
        /// Which.
        counter: Counter,
        /// The value; counters of 32 bits refuse more.
        value: u64,
    },
    /// Sets the power limit, within the board's range.
    PowerLimit {
        /// GPU index.
        gpu: u32,
        /// Milliwatts.
        milliwatts: u32,
    },
    /// Sets the compute mode.
    ComputeMode {
        /// GPU index.
        gpu: u32,
        /// `NVML_COMPUTEMODE_*`: 0 default, 2 prohibited, 3 exclusive process; in MIG mode 0 only.
        mode: u32,
    },
    /// Sets persistence mode, as `nvidia-smi -pm`.
    Persistence {
        /// GPU index.
        gpu: u32,
        /// Whether it is on from now on.
        on: bool,
    },
    /// Loads `nvidia_drm` with mode setting, or unloads it: while it is loaded it holds every GPU.
    Modeset {
        /// Whether it is loaded from now on.
        on: bool,
    },
    /// Resets a GPU, as `nvidia-smi --gpu-reset`: refused while anybody has it open.
    Reset {
        /// GPU index.
        gpu: u32,
    },
    /// Starts the machine anew: processes, clients, `/run` and device files are gone, the driver is loaded afresh.
    Reboot,
    /// Sets the temperature of the air or water that reaches the GPU.
    Ambient {
        /// One GPU, or all.
        gpu: Option<u32>,
        /// °C, -20 to 90.
        celsius: i32,
    },
    /// Stops the clock; it then moves by [`Command::Step`] only.
    Pause,
    /// Lets the clock run.
    Run {
        /// Simulated seconds per real second, up to [`MAX_PACE`].
        factor: f64,
    },
    /// Moves the clock at once.
    Step {
        /// By how much, at most [`MAX_STEP`].
        by: Duration,
    },
}

/// Most XIDs in one command: fewer than the events that are kept, so that a client which reads on misses none of them.
pub const MAX_XIDS: u32 = 10_000;

/// Fastest pace of the clock.
pub const MAX_PACE: f64 = 1000.0;

/// Longest single step.
pub const MAX_STEP: Duration = Duration::from_secs(24 * 3600);

/// A process that takes a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Hold {
    /// GPU index.
    pub gpu: u32,
    /// Process id.
    pub pid: u32,
    /// What kind of context.
    pub kind: ProcessKind,
    /// Memory that it takes, bytes; `None` for a process whose memory the driver does not tell (it then takes
    /// none).
    pub memory_bytes: Option<u64>,
    /// GPU instance and compute instance; needed in MIG mode, refused outside it.
    pub instance: Option<(u32, u32)>,
    /// Name.
    pub name: String,
    /// Its cgroup, such as `/kubepods/pod…/…`; `None` for a service of its program's name, or where it lies already.
    #[serde(default)]
    pub cgroup: Option<String>,
}

/// A program that opens a GPU without a context on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Observe {
    /// GPU index.
    pub gpu: u32,
    /// Process id.
    pub pid: u32,
    /// The GPU instance that it opens, and the compute instance in it.
    pub instance: Option<(u32, Option<u32>)>,
    /// Name.
    pub name: String,
    /// Its cgroup, such as `/system.slice/nvidia-dcgm.service`; `None` for a service of its program's name.
    #[serde(default)]
    pub cgroup: Option<String>,
}

/// A fault that strikes calls by their number, counted from when it is put in force over all processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Strike {
    /// One GPU; `None` for every GPU and for calls that concern none.
    pub gpu: Option<u32>,
    /// Symbol, such as `nvmlGpuInstanceDestroy`; `None` for every call.
    pub symbol: Option<String>,
    /// Whether calls only count that are to change a GPU ([`CHANGING_SYMBOLS`]).
    pub changing: bool,
    /// The first call that it strikes, from 1.
    pub nth: u64,
    /// How many calls it strikes, 1 or more.
    pub times: u64,
    /// Whether it strikes when the call has had its effect, as a caller sees it that is told of a failure though there was
    /// none, or is never told. Calls that failed by themselves do not count then.
    pub after: bool,
    /// What the calls do.
    pub effect: Effect,
}

/// What faults know a reset by, which is no call of the driver's library.
pub const RESET_SYMBOL: &str = "nvidia-smi --gpu-reset";

/// Calls that change a GPU.
pub const CHANGING_SYMBOLS: [&str; 9] = [
    RESET_SYMBOL,
    "nvmlDeviceSetMigMode",
    "nvmlDeviceSetPersistenceMode",
    "nvmlDeviceCreateGpuInstance",
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlGpuInstanceDestroy",
    "nvmlGpuInstanceCreateComputeInstance",
    "nvmlGpuInstanceCreateComputeInstanceWithPlacement",
    "nvmlComputeInstanceDestroy",
];

/// Longest delay of a call, milliseconds.
pub const MAX_DELAY_MS: u32 = 600_000;

/// A scripted load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Load {
    /// Nothing runs.
    #[default]
    Idle,
    /// The same work all the time.
    Steady {
        /// Share of the GPU, percent.
        percent: u32,
    },
    /// Work that grows or shrinks evenly, then stays.
    Ramp {
        /// At first, percent.
        from: u32,
        /// At last, percent.
        to: u32,
        /// Seconds in between.
        seconds: u32,
    },
    /// Work that comes and goes.
    Burst {
        /// Between bursts, percent.
        low: u32,
        /// In bursts, percent.
        high: u32,
        /// Seconds from one burst to the next.
        period: u32,
        /// Share of the period that a burst lasts, percent.
        duty: u32,
    },
    /// Distributed training: computation, exchange over NVLink each step, a checkpoint every ten minutes.
    Training,
    /// Serving a model: demand that swells and ebbs.
    Inference,
}

/// A counter that can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counter {
    /// Energy, millijoules.
    Energy,
    /// PCIe replays, 32 bits.
    PcieReplays,
    /// PCIe bytes sent.
    PcieTransmitted,
    /// PCIe bytes received.
    PcieReceived,
    /// ECC errors corrected since the driver was loaded.
    EccVolatileCorrected,
    /// ECC errors not corrected since the driver was loaded.
    EccVolatileUncorrected,
    /// ECC errors corrected in the board's life.
    EccAggregateCorrected,
    /// ECC errors not corrected in the board's life.
    EccAggregateUncorrected,
    /// Rows remapped for correctable errors, 32 bits.
    RemappedCorrectable,
    /// Rows remapped for uncorrectable errors, 32 bits.
    RemappedUncorrectable,
    /// Sent over one NVLink, KiB.
    NvlinkTransmitted(u32),
    /// Received over one NVLink, KiB.
    NvlinkReceived(u32),
    /// Replays on one NVLink.
    NvlinkReplays(u32),
    /// CRC errors of flits on one NVLink.
    NvlinkCrc(u32),
}

/// What a command came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Applied {
    /// It is done.
    Done,
    /// A fault is in force.
    Fault {
        /// The number by which it is cleared.
        id: u64,
    },
    /// Faults are gone.
    Cleared {
        /// How many.
        count: u64,
    },
    /// The clock has moved.
    Clock {
        /// Microseconds since the Unix epoch.
        clock_us: u64,
    },
}

/// Why a command was refused. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// The index is too high.
    #[error("there is no GPU {gpu}: this node has {count}, numbered from 0")]
    NoSuchGpu {
        /// As asked for.
        gpu: u32,
        /// How many there are.
        count: u32,
    },
    /// The command needs the driver.
    #[error("the driver is not loaded: load it first")]
    DriverNotLoaded,
    /// The driver is there already.
    #[error("the driver is loaded already: unload it first")]
    DriverLoaded,
    /// The node has none.
    #[error("this node has no driver: its description names none")]
    NoDriver,
    /// The driver is in use.
    #[error(
        "the driver is in use by processes {}: end them, or force it",
        .pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
    )]
    InUse {
        /// Who uses it.
        pids: Vec<u32>,
    },
    /// What is not a version.
    #[error("`{version}` is not a driver version: expected numbers such as 580.105.08")]
    InvalidVersion {
        /// As asked for.
        version: String,
    },
    /// The GPU has fallen off the bus.
    #[error("GPU {gpu} has fallen off the bus: restore it first")]
    GpuLost {
        /// GPU index.
        gpu: u32,
    },
    /// The GPU has not.
    #[error("GPU {gpu} is not lost: only a lost GPU can be restored")]
    GpuNotLost {
        /// GPU index.
        gpu: u32,
    },
    /// The driver does not have the GPU.
    #[error("GPU {gpu} is not bound to the driver: bind it first")]
    GpuNotBound {
        /// GPU index.
        gpu: u32,
    },
    /// Binding would change nothing.
    #[error("GPU {gpu} is {} the driver already", if *.bound { "bound to" } else { "unbound from" })]
    SameBinding {
        /// GPU index.
        gpu: u32,
        /// Whether it is bound.
        bound: bool,
    },
    /// The GPU has no such link.
    #[error("GPU {gpu} has no NVLink {link}: it has {count}, numbered from 0")]
    NoSuchLink {
        /// GPU index.
        gpu: u32,
        /// As asked for.
        link: u32,
        /// How many it has.
        count: u32,
    },
    /// The instance does not exist.
    #[error("GPU {gpu} has no compute instance {compute_instance} in GPU instance {gpu_instance}")]
    NoSuchInstance {
        /// GPU index.
        gpu: u32,
        /// As asked for.
        gpu_instance: u32,
        /// As asked for.
        compute_instance: u32,
    },
    /// In MIG mode work runs in instances only.
    #[error("GPU {gpu} is in MIG mode: name an instance that exists")]
    InstanceNeeded {
        /// GPU index.
        gpu: u32,
    },
    /// MIG instances have no graphics.
    #[error("GPU {gpu} is in MIG mode, in which graphics contexts are not possible")]
    NoGraphics {
        /// GPU index.
        gpu: u32,
    },
    /// The memory is not there.
    #[error("GPU {gpu} has {free} bytes free there, not {wanted}: ask for less, or release a process")]
    OutOfMemory {
        /// GPU index.
        gpu: u32,
        /// Bytes asked for.
        wanted: u64,
        /// Bytes free.
        free: u64,
    },
    /// The compute mode forbids another process.
    #[error("GPU {gpu} is in a compute mode that admits no further process")]
    ComputeMode {
        /// GPU index.
        gpu: u32,
    },
    /// The process is there already.
    #[error("process {pid} holds GPU {gpu} already with such a context: release it first")]
    AlreadyHeld {
        /// GPU index.
        gpu: u32,
        /// Process id.
        pid: u32,
    },
    /// The process is not there.
    #[error("process {pid} holds no such GPU")]
    NotHeld {
        /// Process id.
        pid: u32,
    },
    /// A virtual machine cannot reset the GPUs that were passed through to it.
    #[error(
        "GPU {gpu} was passed through to this virtual machine, which cannot reset it: start the machine anew"
    )]
    ResetNotPossible {
        /// GPU index.
        gpu: u32,
    },
    /// Persistence mode keeps the driver on the GPU.
    #[error("GPU {gpu} is in persistence mode, which keeps it open: turn that off first")]
    Persistent {
        /// GPU index.
        gpu: u32,
    },
    /// Mode setting keeps the GPU open.
    #[error("nvidia_drm is loaded with mode setting and has every GPU open: unload it first")]
    ModesetActive,
    /// No such fault.
    #[error("there is no fault {id} in force")]
    NoSuchFault {
        /// As asked for.
        id: u64,
    },
    /// A value that the field cannot have.
    #[error("{field} cannot be {value}: expected {expected}")]
    OutOfRange {
        /// Which field.
        field: String,
        /// As asked for.
        value: String,
        /// What it can be.
        expected: String,
    },
}

impl Refusal {
    /// The stable word for this refusal.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoSuchGpu { .. } => "NoSuchGpu",
            Self::DriverNotLoaded => "DriverNotLoaded",
            Self::DriverLoaded => "DriverLoaded",
            Self::NoDriver => "NoDriver",
            Self::InUse { .. } => "InUse",
            Self::InvalidVersion { .. } => "InvalidVersion",
            Self::GpuLost { .. } => "GpuLost",
            Self::GpuNotLost { .. } => "GpuNotLost",
            Self::GpuNotBound { .. } => "GpuNotBound",
            Self::SameBinding { .. } => "SameBinding",
            Self::NoSuchLink { .. } => "NoSuchLink",
            Self::NoSuchInstance { .. } => "NoSuchInstance",
            Self::InstanceNeeded { .. } => "InstanceNeeded",
            Self::NoGraphics { .. } => "NoGraphics",
            Self::OutOfMemory { .. } => "OutOfMemory",
            Self::ComputeMode { .. } => "ComputeMode",
            Self::AlreadyHeld { .. } => "AlreadyHeld",
            Self::NotHeld { .. } => "NotHeld",
            Self::ResetNotPossible { .. } => "ResetNotPossible",
            Self::Persistent { .. } => "Persistent",
            Self::ModesetActive => "ModesetActive",
            Self::NoSuchFault { .. } => "NoSuchFault",
            Self::OutOfRange { .. } => "OutOfRange",
        }
    }
}

impl Load {
    /// Whether its figures are possible.
    ///
    /// # Errors
    /// [`Refusal::OutOfRange`] for percentages above 100 and durations of 0.
    pub fn check(&self) -> Result<(), Refusal> {
        let (percentages, seconds) = match *self {
            Self::Idle | Self::Training | Self::Inference => return Ok(()),
            Self::Steady { percent } => ([percent, 0, 0], 1),
            Self::Ramp { from, to, seconds } => ([from, to, 0], seconds),
            Self::Burst { low, high, period, duty } => ([low, high, duty], period),
        };
        if let Some(percent) = percentages.into_iter().find(|percent| *percent > 100) {
            return Err(out_of_range("a load's share", percent, "0 to 100 percent"));
        }
        match seconds {
            1..=86_400 => Ok(()),
            _ => Err(out_of_range("a load's duration", seconds, "1 to 86400 seconds")),
        }
    }
}

/// A refusal of `value` for `field`.
pub(crate) fn out_of_range(field: &str, value: impl ToString, expected: &str) -> Refusal {
    Refusal::OutOfRange { field: field.to_owned(), value: value.to_string(), expected: expected.to_owned() }
}
