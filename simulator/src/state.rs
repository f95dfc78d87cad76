//! What the driver would know at one instant: the whole answer space of the C ABI, in plain data.
//!
//! The engine makes it, the server publishes it, and the thin library that clients load answers from it. Nothing
//! here decides anything.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::command::CHANGING_SYMBOLS;

/// A simulated node's driver and GPUs at one instant of the simulator's clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeState {
    /// The simulator's clock, microseconds since the Unix epoch (as the driver's own timestamps are).
    pub clock_us: u64,
    /// The driver.
    pub driver: DriverState,
    /// GPUs in PCI order, which is the driver's.
    pub gpus: Vec<GpuState>,
    /// Faults in force, in the order in which they were set; the first that matches decides.
    pub faults: Vec<Fault>,
    /// The last events, oldest first. A client remembers the sequence number up to which it has seen them.
    pub events: Vec<Event>,
    /// Whether it is a virtual machine to which its GPUs were passed through: it cannot reset them.
    pub virtual_machine: bool,
    /// Counts starts of the machine.
    pub boots: u64,
}

/// The driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriverState {
    /// Whether the kernel module is loaded. Without it `nvmlInit` answers `DRIVER_NOT_LOADED`.
    pub loaded: bool,
    /// Counts loads: a handle of an earlier load is worthless.
    pub load: u64,
    /// Driver version, such as `580.105.08`.
    pub version: String,
    /// NVML version, such as `13.580.105.08`.
    pub nvml_version: String,
    /// CUDA version as NVML encodes it: 1000 × major + 10 × minor.
    pub cuda_version: i32,
    /// Symbols that this driver's library does not have (an older driver).
    pub missing_symbols: Vec<String>,
    /// Its field values.
    pub fields: FieldNumbers,
    /// Whether the caller is denied as a user without access to the device files would be.
    pub no_permission: bool,
    /// Whether `nvidia_drm` is loaded with mode setting: it then holds every GPU.
    pub modeset: bool,
}

/// How a driver numbers its field values (`NVML_FI_*`), where drivers differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldNumbers {
    /// The highest number that it knows.
    pub last: u32,
    /// The first of the three that tell how long clocks were held down for heat (by software, by hardware) and by the
    /// power brake; absent where it has none.
    pub clocks_held: Option<u32>,
    /// The one that tells whether MIG profiles are listed with MIG off; absent where it has none.
    pub mig_query: Option<u32>,
}

/// One GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpuState {
    /// What it is.
    pub identity: GpuIdentity,
    /// What its board can do: what is absent here answers `NOT_SUPPORTED`.
    pub board: BoardState,
    /// Fallen off the bus: every call fails with `GPU_IS_LOST`.
    pub lost: bool,
    /// Bound to the driver. One that is not is none of the driver's GPUs.
    pub bound: bool,
    /// Gauges.
    pub now: Gauges,
    /// Counters since the driver was loaded, and lifetime ones.
    pub count: Counters,
    /// NVLinks by number.
    pub nvlinks: Vec<NvLinkState>,
    /// Processes.
    pub processes: Vec<ProcessState>,
    /// Programs that have it open without a context on it.
    pub observers: Vec<ObserverState>,
    /// Calls that were to change it, since the node began: through NVML, and resets. Those that were refused, that failed by a
    /// fault or that have not returned yet are among them.
    pub changing_calls: u64,
    /// How often it was reset, since the node began; loading the driver is no reset.
    pub resets: u64,
    /// MIG; absent on a GPU that cannot be divided.
    pub mig: Option<MigState>,
    /// Fabric registration; absent before Hopper.
    pub fabric: Option<FabricState>,
}

impl GpuState {
    /// Whether the driver can reach it.
    pub fn is_reachable(&self) -> bool {
        self.bound && !self.lost
    }
}

/// What a GPU is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpuIdentity {
    /// `GPU-…`.
    pub uuid: String,
    /// PCI segment.
    pub pci_domain: u32,
    /// PCI bus.
    pub pci_bus: u32,
    /// PCI device.
    pub pci_device: u32,
    /// Device id in the upper, vendor in the lower half: `0x233010de`.
    pub pci_device_id: u32,
    /// Subsystem ids likewise.
    pub pci_subsystem_id: u32,
    /// N of `/dev/nvidiaN`.
    pub minor: u32,
    /// Board serial number; consumer boards have none.
    pub serial: Option<String>,
    /// Module id on a baseboard.
    pub module_id: Option<u32>,
    /// CPUs near it, as a bit mask in 64-bit words.
    pub cpu_affinity: Vec<u64>,
    /// NUMA nodes near it, as a bit mask in 64-bit words.
    pub memory_affinity: Vec<u64>,
    /// NUMA node of the GPU's own memory (Grace); absent elsewhere.
    pub memory_numa_node: Option<u32>,
    /// By GPU index, the level (`nvmlGpuTopologyLevel_t`) that the driver tells though the PCIe tree says another.
    pub told_levels: BTreeMap<u32, u32>,
}

/// What a board can do: constant while the driver is loaded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BoardState {
    /// Product name.
    pub name: String,
    /// `NVML_BRAND_*`.
    pub brand: u32,
    /// `NVML_DEVICE_ARCH_*`.
    pub architecture: u32,
    /// CUDA compute capability.
    pub compute_capability: (i32, i32),
    /// Video BIOS version.
    pub vbios: String,
    /// InfoROM image version; consumer boards have none.
    pub inforom: Option<String>,
    /// Board part number; consumer boards have none.
    pub part_number: Option<String>,
    /// Memory in all, bytes.
    pub memory_bytes: u64,
    /// Memory that driver and firmware keep, bytes.
    pub reserved_bytes: u64,
    /// BAR1 window, bytes.
    pub bar1_bytes: u64,
    /// Memory bus width, bits.
    pub memory_bus_bits: u32,
    /// CUDA cores.
    pub cores: u32,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Highest PCIe generation that both ends can do.
    pub pcie_max_generation: u32,
    /// Highest PCIe generation of the GPU alone.
    pub pcie_gpu_max_generation: u32,
    /// Most lanes that both ends have.
    pub pcie_max_width: u32,
    /// Highest clocks: graphics, SM, memory, video, MHz.
    pub max_clocks_mhz: [u32; 4],
    /// Default power limit, milliwatts.
    pub power_limit_mw: u32,
    /// Lowest and highest power limit that can be set, milliwatts.
    pub power_limit_range_mw: (u32, u32),
    /// Temperatures at which it shuts down and slows down, °C.
    pub shutdown_c: u32,
    /// See `shutdown_c`.
    pub slowdown_c: u32,
    /// Whether it tells its memory's temperature (HBM).
    pub memory_temperature: bool,
    /// Whether it has ECC.
    pub ecc: bool,
    /// Whether ECC is on when the board leaves the factory.
    pub ecc_default: bool,
    /// Whether it has row remapping (Ampere and later, with HBM or as data-centre boards).
    pub row_remapping: bool,
    /// NVLink generation; 0 without NVLink.
    pub nvlink_version: u32,
    /// What one NVLink moves each way at most, MB/s; 0 without NVLink.
    pub nvlink_link_mbps: u32,
    /// NVLink chip-to-chip links to the CPU; 0 without.
    pub c2c_links: u32,
    /// What one of them moves each way at most, MB/s.
    pub c2c_link_mbps: u32,
    /// Whether it answers GPM (Hopper and later).
    pub gpm: bool,
    /// JPEG engines and optical flow engines present.
    pub jpeg_engines: u32,
    /// See `jpeg_engines`.
    pub ofa_engines: u32,
    /// Number of fans; 0 on passively cooled boards.
    pub fans: u32,
    /// Whether MIG mode can change without a reset (Hopper and later).
    pub resetless_mig: bool,
    /// Whether GPU and display contexts are both possible (workstation boards).
    pub display: bool,
}

/// Values that go up and down.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Gauges {
    /// Engine utilisation: GPU, memory, encoder, decoder, JPEG, OFA, percent.
    pub utilization: [u32; 6],
    /// Memory held by processes, bytes.
    pub memory_used_bytes: u64,
    /// BAR1 in use, bytes.
    pub bar1_used_bytes: u64,
    /// Power averaged over 1 s, milliwatts.
    pub power_average_mw: u32,
    /// Power at this instant, milliwatts.
    pub power_instant_mw: u32,
    /// Power limit in force, milliwatts.
    pub power_limit_mw: u32,
    /// Die temperature, °C.
    pub temperature_c: u32,
    /// Memory temperature, °C.
    pub memory_temperature_c: u32,
    /// Clocks now: graphics, SM, memory, video, MHz.
    pub clocks_mhz: [u32; 4],
    /// Why clocks are held down: bits of `nvmlClocksEventReason*`.
    pub clocks_event_reasons: u64,
    /// Fan speed, percent.
    pub fan_percent: u32,
    /// PCIe generation now.
    pub pcie_generation: u32,
    /// PCIe lanes now.
    pub pcie_width: u32,
    /// PCIe traffic sent and received, KB/s.
    pub pcie_throughput_kbps: (u32, u32),
    /// Performance state, 0 to 15.
    pub performance_state: u32,
    /// ECC mode: current and pending.
    pub ecc_mode: (bool, bool),
    /// Persistence mode.
    pub persistence: bool,
    /// Compute mode, `NVML_COMPUTEMODE_*`.
    pub compute_mode: u32,
    /// Recovery action, `NVML_GPU_RECOVERY_ACTION_*`.
    pub recovery_action: u32,
    /// Row remapping: one pending, one failed.
    pub row_remap: (bool, bool),
}

/// Values that only grow, until the driver is loaded again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Energy, millijoules.
    pub energy_mj: u64,
    /// PCIe replays; wraps at 32 bits.
    pub pcie_replays: u32,
    /// PCIe bytes sent and received.
    pub pcie_bytes: (u64, u64),
    /// ECC errors: volatile corrected, volatile uncorrected, aggregate corrected, aggregate uncorrected.
    pub ecc: [u64; 4],
    /// Remapped rows: correctable, uncorrectable.
    pub remapped_rows: (u32, u32),
    /// Nanoseconds held down: power cap, sync boost, software thermal, hardware thermal, hardware power brake.
    pub clocks_held_ns: [u64; 5],
}

/// One NVLink.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NvLinkState {
    /// Whether it is up.
    pub up: bool,
    /// `nvmlIntNvLinkDeviceType_t` of the other end: 0 GPU, 2 switch, 255 unknown.
    pub remote_type: u32,
    /// PCI domain, bus, device, function of the other end.
    pub remote_pci: (u32, u32, u32, u32),
    /// Data sent and received, KiB.
    pub data_kib: (u64, u64),
    /// Errors: replay, recovery, CRC flit, CRC data.
    pub errors: [u64; 4],
}

/// One process on a GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessState {
    /// Process id.
    pub pid: u32,
    /// What kind of context.
    pub kind: ProcessKind,
    /// Memory held, bytes; `None` is `NVML_VALUE_NOT_AVAILABLE`.
    pub memory_bytes: Option<u64>,
    /// SM, memory, encoder, decoder utilisation, percent.
    pub utilization: [u32; 4],
    /// GPU instance and compute instance, in MIG mode.
    pub instance: Option<(u32, u32)>,
    /// Name for `nvmlSystemGetProcessName`.
    pub name: String,
    /// Its cgroup, as `/proc/PID/cgroup` has it.
    pub cgroup: String,
    /// When it started, clock ticks (1/100 s) since boot.
    pub start_ticks: u64,
}

/// A program that has a GPU or an instance open without a context: a monitor, `nvidia-persistenced`, an X server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObserverState {
    /// Process id.
    pub pid: u32,
    /// Its program, with its arguments.
    pub name: String,
    /// Its cgroup, as `/proc/PID/cgroup` has it.
    pub cgroup: String,
    /// When it started, clock ticks (1/100 s) since boot.
    pub start_ticks: u64,
    /// The GPU instance that it has open, and the compute instance in it.
    pub instance: Option<(u32, Option<u32>)>,
}

/// Kind of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessKind {
    /// CUDA.
    Compute,
    /// Graphics.
    Graphics,
    /// Client of an MPS server.
    Mps,
}

/// MIG of one GPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MigState {
    /// Mode now and after a reset.
    pub mode: (bool, bool),
    /// Profiles by the enumerator that the profile queries take (`NVML_GPU_INSTANCE_PROFILE_*`).
    pub profiles: BTreeMap<u32, GiProfileState>,
    /// GPU instances that exist.
    pub instances: Vec<GpuInstanceState>,
}

/// A GPU instance profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GiProfileState {
    /// The id that creation and listing take.
    pub id: u32,
    /// The driver's name, such as `1g.10gb+me`, without the `MIG ` prefix that the driver prints.
    pub name: String,
    /// Compute slices.
    pub slices: u32,
    /// Most instances on an empty GPU.
    pub max_instances: u32,
    /// Memory, MiB.
    pub memory_mib: u64,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Copy engines, decoders, encoders, JPEG engines, optical flow engines.
    pub engines: [u32; 5],
    /// Peer-to-peer possible.
    pub p2p: bool,
    /// Possible first slices and the size that each takes.
    pub placements: Vec<(u32, u32)>,
    /// Compute instance profiles by enumerator (`NVML_COMPUTE_INSTANCE_PROFILE_*`).
    pub compute: BTreeMap<u32, CiProfileState>,
}

/// A compute instance profile within a GPU instance profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CiProfileState {
    /// The id that creation and listing take.
    pub id: u32,
    /// The driver's name, such as `1c.3g.40gb`.
    pub name: String,
    /// Compute slices.
    pub slices: u32,
    /// Most in one GPU instance.
    pub max_instances: u32,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Possible first slices and the size that each takes.
    pub placements: Vec<(u32, u32)>,
}

/// A GPU instance that exists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GpuInstanceState {
    /// The driver's number.
    pub id: u32,
    /// Enumerator of its profile, key of [`MigState::profiles`].
    pub profile: u32,
    /// First slice and size.
    pub placement: (u32, u32),
    /// Compute instances that exist.
    pub compute: Vec<ComputeInstanceState>,
    /// Memory held by its processes, bytes.
    pub memory_used_bytes: u64,
}

/// A compute instance that exists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComputeInstanceState {
    /// The driver's number within its GPU instance.
    pub id: u32,
    /// Enumerator of its profile.
    pub profile: u32,
    /// First slice and size.
    pub placement: (u32, u32),
    /// `MIG-…`.
    pub uuid: String,
}

/// Fabric registration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FabricState {
    /// `NVML_GPU_FABRIC_STATE_*`: 0 not supported, 1 not started, 2 in progress, 3 completed.
    pub state: u32,
    /// `nvmlReturn_t` of the registration.
    pub status: u32,
    /// Clique.
    pub clique_id: u32,
    /// UUID of the NVLink domain.
    pub cluster_uuid: [u8; 16],
    /// Health bits.
    pub health_mask: u32,
}

/// A fault in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// Number by which it is cleared.
    pub id: u64,
    /// GPU index; `None` for every GPU and for calls that concern none.
    pub gpu: Option<u32>,
    /// Symbol, such as `nvmlDeviceGetPowerUsage`; `None` for every call.
    pub symbol: Option<String>,
    /// What happens.
    pub effect: Effect,
    /// For one that strikes calls by their number; absent where it strikes all.
    pub strike: Option<StrikeState>,
}

impl Fault {
    /// Whether it is about this call.
    pub fn concerns(&self, symbol: &str, gpu: Option<u32>) -> bool {
        self.gpu.is_none_or(|of| Some(of) == gpu)
            && self.symbol.as_ref().is_none_or(|named| named == symbol)
            && self.strike.is_none_or(|strike| !strike.changing || CHANGING_SYMBOLS.contains(&symbol))
    }

    /// Whether it strikes calls that have had their effect.
    pub fn strikes_after(&self) -> bool {
        self.strike.is_some_and(|strike| strike.after)
    }
}

/// Which calls a fault strikes, by number, and how far it has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StrikeState {
    /// Whether it counts calls only that are to change a GPU.
    pub changing: bool,
    /// The first that it strikes, from 1.
    pub nth: u64,
    /// How many it strikes.
    pub times: u64,
    /// Whether it strikes when the call has had its effect; it then counts calls that succeeded.
    pub after: bool,
    /// Calls that it has counted.
    pub seen: u64,
    /// Calls that it has struck.
    pub struck: u64,
}

impl StrikeState {
    /// Whether it has struck all that it was to strike.
    pub fn is_spent(&self) -> bool {
        self.struck >= self.times
    }
}

/// What a fault does to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// It returns this `nvmlReturn_t`.
    Return(u32),
    /// It does not return until the fault is cleared.
    Block,
    /// It takes so many milliseconds longer.
    Delay(u32),
}

/// Something that an event set can wait for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Ascending, without gaps.
    pub sequence: u64,
    /// GPU index.
    pub gpu: u32,
    /// `nvmlEventType*`: 0x8 is an XID, 0x100 a MIG change.
    pub kind: u64,
    /// For an XID, its number.
    pub data: u64,
    /// GPU instance, or 0xFFFFFFFF.
    pub gpu_instance: u32,
    /// Compute instance, or 0xFFFFFFFF.
    pub compute_instance: u32,
}
