//! Where everything sits and how near it is to everything else: what is concluded from [`crate::host`] (the kernel)
//! and [`crate::locality`] (the driver).
//!
//! Devices refer to each other by their position in [`Topology::gpus`], [`Topology::nics`] and
//! [`Topology::pcie_switches`].

use serde::{Deserialize, Serialize};

use crate::gpu::GpuUuid;
use crate::host::{Oddity, PciPath, RdmaPort};
use crate::locality::Level;
use crate::numa::{CpuSet, NumaNode, NumaNodeId};
use crate::pci::PciAddress;

/// The node's topology.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Topology {
    /// Online NUMA nodes, ascending.
    pub numa_nodes: Vec<NumaArea>,
    /// The driver's GPUs in its order, then those that only the kernel sees, by address.
    pub gpus: Vec<PlacedGpu>,
    /// RDMA devices in the natural order of their names, then plain network devices, by address.
    pub nics: Vec<PlacedNic>,
    /// PCIe switches above a GPU, NIC or NVSwitch; a switch stands after the one above it.
    pub pcie_switches: Vec<PcieSwitch>,
    /// NVSwitches on the PCI bus, by address. In virtual machines and on newer boards they are not there.
    pub nvswitches: Vec<Place>,
    /// One entry per two devices: GPU 0 with GPU 1, GPU 2, … NIC 0, …; GPU 1 with GPU 2, … See [`Topology::pair`].
    pub pairs: Vec<Pair>,
    /// GPUs that reach each other by NVLink, by first GPU.
    pub nvlink_islands: Vec<NvlinkIsland>,
    /// The NVLink fabric clique that all GPUs agree on, or why there is none.
    pub clique: FabricPlace,
    /// What the kernel said and could not be understood.
    pub oddities: Vec<Oddity>,
}

impl Topology {
    /// The two devices' entry, in either order; absent for a device with itself or one that does not exist.
    pub fn pair(&self, one: Device, other: Device) -> Option<&Pair> {
        let (first, second) = if one <= other { (one, other) } else { (other, one) };
        let (row, column) = (self.position(first)?, self.position(second)?);
        let devices = self.gpus.len() + self.nics.len();
        let before = column.checked_sub(row + 1)?;
        self.pairs.get(row * (2 * devices - row - 1) / 2 + before)
    }

    /// All devices in the order of the matrix: GPUs, then NICs.
    pub fn devices(&self) -> impl Iterator<Item = Device> + use<> {
        (0..self.gpus.len()).map(Device::Gpu).chain((0..self.nics.len()).map(Device::Nic))
    }

    /// The device's label: `GPU0`, `NIC3`, or the address of a GPU that the driver does not list.
    pub fn label(&self, device: Device) -> &str {
        let label = match device {
            Device::Gpu(gpu) => self.gpus.get(gpu).map(|gpu| &gpu.label),
            Device::Nic(nic) => self.nics.get(nic).map(|nic| &nic.label),
        };
        label.map_or("?", String::as_str)
    }

    /// The NUMA node with this number.
    pub fn numa_node(&self, id: NumaNodeId) -> Option<&NumaArea> {
        self.numa_nodes.iter().find(|area| area.node.id == id)
    }

    /// The NUMA node of the GPU at `pci`, whoever says so.
    pub fn numa_node_of(&self, pci: PciAddress) -> Option<NumaNodeId> {
        self.gpus.iter().find(|gpu| gpu.place.pci == pci).and_then(|gpu| gpu.place.numa.node)
    }

    /// NVLinks between two GPUs that both ends agree on, switches included; 0 without.
    pub fn nvlinks(&self, one: usize, other: usize) -> u32 {
        let pair = self.pair(Device::Gpu(one), Device::Gpu(other));
        pair.and_then(|pair| pair.nvlink.as_ref()).map_or(0, |nvlink| nvlink.links)
    }

    fn position(&self, device: Device) -> Option<usize> {
        match device {
            Device::Gpu(gpu) => (gpu < self.gpus.len()).then_some(gpu),
            Device::Nic(nic) => (nic < self.nics.len()).then_some(self.gpus.len() + nic),
        }
    }
}

/// One device of the matrix, by its position in [`Topology::gpus`] or [`Topology::nics`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Device {
    /// A GPU.
    Gpu(usize),
    /// A NIC.
    Nic(usize),
}

/// One NUMA node and what it consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NumaArea {
    /// The kernel's facts.
    #[serde(flatten)]
    pub node: NumaNode,
    /// What it is.
    pub kind: NumaKind,
}

/// What a NUMA node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NumaKind {
    /// It has CPUs.
    Cpu,
    /// It has memory and no CPU.
    Memory,
    /// It is a GPU's own memory, or kept free for the memory of its MIG instances (GH200, GB200).
    GpuMemory {
        /// The GPU.
        gpu: usize,
    },
}

/// Where one PCI device sits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Its address.
    pub pci: PciAddress,
    /// Root complex and bridges above it; absent where the kernel does not list the device.
    pub path: Option<PciPath>,
    /// Its NUMA node.
    pub numa: NumaPlace,
    /// The nearest PCIe switch above it.
    pub pcie_switch: Option<usize>,
    /// Its PCIe link.
    pub link: Option<SlotLink>,
    /// SR-IOV virtual functions of this device, by address; they are no devices of their own here.
    pub virtual_functions: Vec<PciAddress>,
}

/// Which NUMA node a device belongs to, and who says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NumaPlace {
    /// The node; absent where nobody says.
    pub node: Option<NumaNodeId>,
    /// Who says so.
    pub source: NumaSource,
    /// CPUs of that node; without a node, the device's `local_cpulist`.
    pub cpus: Option<CpuSet>,
}

/// Who says which NUMA node a device belongs to, most trusted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NumaSource {
    /// `numa_node` of the device.
    Sysfs,
    /// `numa_node` of a bridge above it.
    Bridge,
    /// All CPUs of its `local_cpulist` belong to one node.
    LocalCpus,
    /// NVML's memory or CPU affinity names one node.
    Driver,
    /// The machine has one node with CPUs.
    SingleNode,
    /// Nobody.
    Unknown,
}

impl NumaSource {
    /// The word for people and labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sysfs => "sysfs",
            Self::Bridge => "bridge",
            Self::LocalCpus => "local-cpus",
            Self::Driver => "driver",
            Self::SingleNode => "single-node",
            Self::Unknown => "unknown",
        }
    }
}

/// A device's PCIe link: what it does and what both of its ends could do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SlotLink {
    /// Lanes now.
    pub width: Option<u32>,
    /// Lanes that both the device and the port above it have.
    pub possible_width: Option<u32>,
    /// Speed now, megatransfers per second; GPUs lower it while idle.
    pub speed_mts: Option<u32>,
    /// Highest speed that both ends have, megatransfers per second.
    pub possible_speed_mts: Option<u32>,
}

impl SlotLink {
    /// Whether lanes are missing.
    pub fn is_narrow(&self) -> bool {
        matches!((self.width, self.possible_width), (Some(now), Some(possible)) if now < possible)
    }

    /// Whether it runs below its highest speed now; for an idle GPU that is power saving.
    pub fn is_slow(&self) -> bool {
        matches!((self.speed_mts, self.possible_speed_mts), (Some(now), Some(possible)) if now < possible)
    }
}

/// One GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlacedGpu {
    /// `GPU0` by the driver's index, or its address where the driver does not list it.
    pub label: String,
    /// The driver's index.
    pub index: Option<u32>,
    /// Identity, where the driver lists it.
    pub uuid: Option<GpuUuid>,
    /// Product name, where the driver says it.
    pub name: Option<String>,
    /// Whether kernel and driver both see it.
    pub seen_by: SeenBy,
    /// Why the driver gets no answer from it, in one stable word; absent while it is up.
    pub down: Option<&'static str>,
    /// The kernel driver bound to it, such as `nvidia` or `vfio-pci`.
    pub kernel_driver: Option<String>,
    /// Where it sits.
    #[serde(flatten)]
    pub place: Place,
    /// CPUs near it as the driver says; restricted by the caller's own cpuset.
    pub driver_cpus: Option<CpuSet>,
    /// NUMA nodes near it as the driver says.
    pub driver_numa_nodes: Option<CpuSet>,
    /// The first NUMA node of its own memory (GH200, GB200).
    pub memory_node: Option<NumaNodeId>,
    /// NVLink chip-to-chip links to the CPU; absent where the driver does not say.
    pub c2c_links: Option<u32>,
    /// Whether it is in MIG mode now; absent where the driver does not say, as for a GPU without MIG.
    pub mig_mode: Option<bool>,
    /// Its NVLinks.
    pub nvlinks: GpuNvlinks,
    /// The NVLink fabric that it is registered with.
    pub fabric: FabricPlace,
}

/// Who sees a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SeenBy {
    /// Kernel and driver.
    Both,
    /// The kernel only: no driver, another driver, or the driver gave it up.
    Kernel,
    /// The driver only: sysfs is hidden from this process.
    Driver,
}

/// NVLinks of one GPU, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct GpuNvlinks {
    /// Links that it has, up or down.
    pub total: u32,
    /// Links that are up.
    pub active: u32,
    /// Links that are up and end at an NVSwitch.
    pub to_switches: u32,
    /// Of these, links whose other end the driver does not show (virtual machines): taken for NVSwitches.
    pub assumed_switches: u32,
    /// Numbers of the links that are down.
    pub down: Vec<u32>,
    /// Why nothing is known of them; absent where the counts are true.
    pub unread: Option<String>,
}

/// One network or RDMA device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlacedNic {
    /// `NIC0`, numbered as in the matrix.
    pub label: String,
    /// RDMA device, such as `mlx5_0`; absent for plain network devices.
    pub rdma: Option<String>,
    /// Node GUID of the RDMA device, as sysfs writes it.
    pub node_guid: Option<String>,
    /// Ports of the RDMA device.
    pub ports: Vec<RdmaPort>,
    /// Network interfaces.
    pub interfaces: Vec<String>,
    /// Where it sits.
    #[serde(flatten)]
    pub place: Place,
}

impl PlacedNic {
    /// The name that people know it by: RDMA device, else interface, else address.
    pub fn name(&self) -> String {
        let known = self.rdma.as_ref().or(self.interfaces.first());
        known.cloned().unwrap_or_else(|| self.place.pci.to_string())
    }
}

/// One PCIe switch: an upstream port and its downstream ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PcieSwitch {
    /// The upstream port.
    pub upstream: PciAddress,
    /// Downstream ports above a GPU, NIC or NVSwitch, by address.
    pub downstream: Vec<PciAddress>,
    /// The switch above it.
    pub parent: Option<usize>,
    /// Its root complex, such as `pci0000:17`.
    pub root: String,
    /// The link to the port above.
    pub link: Option<SlotLink>,
    /// Downstream ports whose access control services send peer-to-peer traffic up to the root.
    pub redirecting: Vec<PciAddress>,
}

/// How near two devices are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// The first device.
    pub a: Device,
    /// The second.
    pub b: Device,
    /// By their places in sysfs; absent where the kernel does not list one of them.
    pub level: Option<Level>,
    /// By the driver; it says so for two GPUs only.
    pub driver_level: Option<Level>,
    /// NVLinks between two GPUs; absent without.
    pub nvlink: Option<PairNvlink>,
}

impl Pair {
    /// Whether kernel and driver disagree.
    pub fn diverges(&self) -> bool {
        matches!((self.level, self.driver_level), (Some(kernel), Some(driver)) if kernel != driver)
    }

    /// The level by sysfs, else by the driver.
    pub fn best_known_level(&self) -> Option<Level> {
        self.level.or(self.driver_level)
    }
}

/// NVLinks between two GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PairNvlink {
    /// Active links that both ends agree on.
    pub links: u32,
    /// Whether they go through NVSwitches.
    pub through_switch: bool,
    /// Where the ends disagree: links that the first and that the second GPU counts.
    pub asymmetric: Option<(u32, u32)>,
}

/// GPUs that reach each other by NVLink.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NvlinkIsland {
    /// The GPUs, ascending.
    pub gpus: Vec<usize>,
    /// Whether NVSwitches join them.
    pub through_switch: bool,
    /// Whether every two of them are linked without a third between.
    pub full_mesh: bool,
    /// Fewest links between two of its linked GPUs.
    pub fewest_links: u32,
    /// Most links between two of its GPUs.
    pub most_links: u32,
}

/// The NVLink fabric clique of a GPU or of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FabricPlace {
    /// It belongs to this one.
    Clique {
        /// UUID of the NVLink domain.
        cluster_uuid: String,
        /// The clique in it.
        clique_id: u32,
    },
    /// It belongs to none.
    Absent(FabricAbsent),
}

impl Default for FabricPlace {
    fn default() -> Self {
        Self::Absent(FabricAbsent::NotSupported)
    }
}

/// Why there is no clique.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FabricAbsent {
    /// The GPU or its driver has no fabric.
    NotSupported,
    /// Registration was not begun: no fabric manager.
    NotStarted,
    /// Registration goes on.
    InProgress,
    /// Registration ended with this `nvmlReturn_t`.
    Failed {
        /// The code.
        status: u32,
    },
    /// Registered with the switches of this machine only: the domain's UUID is zero.
    NoDomain,
    /// The driver did not answer, for this reason.
    Unread {
        /// What it said.
        why: String,
    },
    /// The GPUs of this node are in different cliques.
    Disagreeing,
}

impl FabricAbsent {
    /// The stable word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotSupported => "NotSupported",
            Self::NotStarted => "NotStarted",
            Self::InProgress => "InProgress",
            Self::Failed { .. } => "Failed",
            Self::NoDomain => "NoDomain",
            Self::Unread { .. } => "Unread",
            Self::Disagreeing => "Disagreeing",
        }
    }
}

/// Something about the topology that a person should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What is wrong, in one stable word.
    pub reason: FindingReason,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about: a label or an address.
    pub subject: String,
    /// What was seen, and what was expected.
    pub evidence: String,
    /// What a person can do.
    pub remedy: String,
}

/// The topology and what is wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NodeTopology {
    /// Where everything sits.
    #[serde(flatten)]
    pub model: Topology,
    /// What a person should know, faults first.
    pub findings: Vec<Finding>,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Worth knowing; nothing is broken.
    Note,
    /// Something is missing or works below what it can.
    Fault,
}

/// What a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub enum FindingReason {
    /// An expected GPU is not there.
    GpuMissing,
    /// A GPU sits elsewhere than expected.
    GpuMoved,
    /// A GPU is of another model than the one that is expected in its place.
    GpuModelChanged,
    /// A GPU that the driver lists does not answer.
    GpuDown,
    /// The kernel sees a GPU that the driver does not list.
    GpuWithoutDriver,
    /// The driver lists a GPU that the kernel does not show.
    GpuHidden,
    /// An expected NIC is not there.
    NicMissing,
    /// A NIC sits elsewhere than expected.
    NicMoved,
    /// A NIC that is expected to do RDMA does not.
    NicWithoutRdma,
    /// An expected PCIe switch is not there.
    SwitchMissing,
    /// An expected NVSwitch is not there.
    NvSwitchMissing,
    /// A GPU has fewer active NVLinks than it should.
    NvlinkDegraded,
    /// Two GPUs count different numbers of NVLinks between them.
    NvlinkAsymmetric,
    /// A PCIe link has fewer lanes than both of its ends.
    PcieWidthReduced,
    /// A PCIe link is slower than it should be, power saving aside.
    PcieSpeedReduced,
    /// Nobody says to which NUMA node a GPU belongs.
    NumaUnknown,
    /// Driver and kernel disagree on how near GPUs are.
    LevelDivergence,
    /// A PCIe switch sends traffic between its GPUs up to the root.
    AcsRedirect,
    /// GPUs are not registered with their NVLink fabric, or with different cliques.
    FabricIncomplete,
    /// The expected profile cannot be read, so nothing was compared with it.
    ProfileUnreadable,
}

impl FindingReason {
    /// All of them.
    pub const ALL: [Self; 20] = [
        Self::GpuMissing,
        Self::GpuMoved,
        Self::GpuModelChanged,
        Self::GpuDown,
        Self::GpuWithoutDriver,
        Self::GpuHidden,
        Self::NicMissing,
        Self::NicMoved,
        Self::NicWithoutRdma,
        Self::SwitchMissing,
        Self::NvSwitchMissing,
        Self::NvlinkDegraded,
        Self::NvlinkAsymmetric,
        Self::PcieWidthReduced,
        Self::PcieSpeedReduced,
        Self::NumaUnknown,
        Self::LevelDivergence,
        Self::AcsRedirect,
        Self::FabricIncomplete,
        Self::ProfileUnreadable,
    ];

    /// The stable word for labels and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::GpuMissing => "GpuMissing",
            Self::GpuMoved => "GpuMoved",
            Self::GpuModelChanged => "GpuModelChanged",
            Self::GpuDown => "GpuDown",
            Self::GpuWithoutDriver => "GpuWithoutDriver",
            Self::GpuHidden => "GpuHidden",
            Self::NicMissing => "NicMissing",
            Self::NicMoved => "NicMoved",
            Self::NicWithoutRdma => "NicWithoutRdma",
            Self::SwitchMissing => "SwitchMissing",
            Self::NvSwitchMissing => "NvSwitchMissing",
            Self::NvlinkDegraded => "NvlinkDegraded",
            Self::NvlinkAsymmetric => "NvlinkAsymmetric",
            Self::PcieWidthReduced => "PcieWidthReduced",
            Self::PcieSpeedReduced => "PcieSpeedReduced",
            Self::NumaUnknown => "NumaUnknown",
            Self::LevelDivergence => "LevelDivergence",
            Self::AcsRedirect => "AcsRedirect",
            Self::FabricIncomplete => "FabricIncomplete",
            Self::ProfileUnreadable => "ProfileUnreadable",
        }
    }
}

/// The largest sets of free GPUs that share something; each empty where no free GPU does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LargestFreeSets {
    /// Of one NUMA node.
    pub numa_node: Vec<usize>,
    /// Below one PCIe switch, switches under it included.
    pub pcie_switch: Vec<usize>,
    /// That reach each other by NVLink through free GPUs and NVSwitches only.
    pub nvlink_island: Vec<usize>,
}
