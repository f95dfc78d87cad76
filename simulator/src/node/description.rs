//! A node as written in YAML. What it means together is checked by `check`, not here.

use gpulet_inventory::locality::Level;
use gpulet_inventory::numa::CpuSet;
use gpulet_inventory::pci::PciAddress;
use serde::Deserialize;

use super::units::{Bytes, DriverVersion, RootBus, pci_address};
use crate::command::Load;

/// A node as written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Description {
    /// What machine this is, in a line.
    pub about: String,
    /// Version of the installed driver; none on a machine without one.
    pub driver: Option<DriverVersion>,
    /// Whether it is a virtual machine to which the GPUs are passed through, which then cannot reset them.
    #[serde(default)]
    pub virtual_machine: bool,
    /// Processors.
    pub cpu: CpuDescription,
    /// NUMA nodes.
    pub numa: Vec<NumaDescription>,
    /// PCIe generation of what does not say its own.
    #[serde(default = "newest_generation")]
    pub pcie_generation: u32,
    /// PCIe, one hierarchy per root bus.
    #[serde(default)]
    pub pci: Vec<RootComplex>,
    /// NVLink.
    pub nvlink: Option<Wiring>,
    /// Registration at the NVLink fabric; only with boards that have one (Hopper and later).
    pub fabric: Option<FabricDescription>,
    /// How near the driver says that GPUs are, where that is not what the PCIe tree says; a later entry goes before an
    /// earlier one.
    #[serde(default)]
    pub driver_levels: Vec<DriverLevel>,
    /// What runs when the node starts; a GPU that is not named is idle.
    #[serde(default)]
    pub loads: Vec<DefaultLoad>,
}

fn newest_generation() -> u32 {
    5
}

/// Processors: all packages alike, every core with as many threads.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CpuDescription {
    /// Model name.
    pub model: String,
    /// Sockets.
    pub packages: u32,
    /// Cores of each package.
    pub cores_per_package: u32,
    /// Hardware threads of each core.
    pub threads_per_core: u32,
    /// How Linux numbers the threads.
    #[serde(default)]
    pub numbering: Numbering,
}

/// How Linux numbers hardware threads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Numbering {
    /// First one thread of each core, package after package, then the second threads (x86 firmware).
    #[default]
    CoresFirst,
    /// A core's threads one after the other.
    ThreadsAdjacent,
}

/// A NUMA node.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NumaDescription {
    /// The kernel's number.
    pub id: u32,
    /// CPUs; none on a node of memory only.
    #[serde(default)]
    pub cpus: CpuSet,
    /// Memory; none on a node of processors only.
    #[serde(default)]
    pub memory: Bytes,
    /// Distances to the nodes in the order of their numbers; 10 is local.
    pub distances: Vec<u32>,
    /// Huge pages of 2 MiB set aside.
    #[serde(default)]
    pub hugepages_2mib: u64,
    /// Huge pages of 1 GiB set aside.
    #[serde(default)]
    pub hugepages_1gib: u64,
}

/// A root bus with all below it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RootComplex {
    /// Domain and bus, such as `0000:15`.
    pub root: RootBus,
    /// NUMA node; without it the firmware does not say.
    pub numa: Option<u32>,
    /// Directory below `/sys/devices` in which the root is; there itself unless given. A virtual machine may have a
    /// root per device, in places such as `LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/<uuid>`.
    #[serde(default)]
    pub within: String,
    /// What is on the bus.
    pub devices: Vec<Device>,
}

/// Something on a PCIe bus.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Device {
    /// A bridge, such as a root port.
    Bridge(Bridge),
    /// A switch: an upstream port and a downstream port per device.
    Switch(Switch),
    /// A GPU.
    Gpu(GpuDescription),
    /// A network adapter.
    Nic(NicDescription),
    /// An NVSwitch.
    Nvswitch(NvSwitchDescription),
    /// Anything else.
    Other(OtherDescription),
}

/// A bridge or port.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Bridge {
    /// Address.
    #[serde(deserialize_with = "pci_address")]
    pub at: PciAddress,
    /// Its link; the node's generation with 16 lanes unless given.
    #[serde(default)]
    pub link: Link,
    /// What is behind it.
    #[serde(default)]
    pub devices: Vec<Device>,
}

/// A PCIe switch.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Switch {
    /// Address of the upstream port.
    #[serde(deserialize_with = "pci_address")]
    pub at: PciAddress,
    /// Its link; the node's generation with 16 lanes unless given.
    #[serde(default)]
    pub link: Link,
    /// Downstream ports.
    pub ports: Vec<Bridge>,
}

/// A PCIe link: what is left out is what the device can do at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Link {
    /// Generation at which it runs.
    pub generation: Option<u32>,
    /// Lanes on which it runs.
    pub width: Option<u32>,
    /// Highest generation.
    pub max_generation: Option<u32>,
    /// Most lanes.
    pub max_width: Option<u32>,
}

/// A GPU.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct GpuDescription {
    /// Address.
    #[serde(deserialize_with = "pci_address")]
    pub at: PciAddress,
    /// Name of a shipped board, or the path of a board's file, seen from this file.
    pub board: String,
    /// Its link, if worse than board and port can do.
    #[serde(default)]
    pub link: Link,
    /// N of `/dev/nvidiaN`; the index unless given.
    pub minor: Option<u32>,
    /// Module number on the baseboard.
    pub module: Option<u32>,
    /// NVLinks that do not come up, by number.
    #[serde(default)]
    pub dark_nvlinks: CpuSet,
    /// NUMA nodes of its own memory (Grace): the first has it, the others are kept for MIG instances.
    #[serde(default)]
    pub memory_nodes: CpuSet,
    /// What the driver says is near it, where that is not what sysfs says.
    pub driver_affinity: Option<DriverAffinity>,
    /// Division; a board that can be divided is whole unless given.
    pub mig: Option<MigDescription>,
}

/// What the driver says is near a GPU.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DriverAffinity {
    /// CPUs.
    pub cpus: CpuSet,
    /// NUMA nodes.
    pub numa: CpuSet,
}

/// A GPU in MIG mode.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MigDescription {
    /// GPU instances.
    #[serde(default)]
    pub instances: Vec<InstanceDescription>,
}

/// A GPU instance.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct InstanceDescription {
    /// Name of its profile, such as `1g.10gb`.
    pub profile: String,
    /// First slice.
    pub start: u32,
    /// Compute slices of its compute instances, from the left; one of the full size unless given.
    pub compute: Option<Vec<u32>>,
}

/// A network adapter.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NicDescription {
    /// Address.
    #[serde(deserialize_with = "pci_address")]
    pub at: PciAddress,
    /// RDMA device, such as `mlx5_0`.
    pub rdma: Option<String>,
    /// Network interface, such as `ibs108`.
    pub net: Option<String>,
    /// Ports.
    #[serde(default = "one")]
    pub ports: u32,
    /// Rate of a port, Gb/s.
    pub rate_gbps: u32,
    /// What the ports speak.
    #[serde(default)]
    pub link_layer: LinkLayer,
    /// Its PCIe link; the node's generation with 16 lanes unless given.
    #[serde(default)]
    pub link: Link,
    /// PCI vendor.
    #[serde(default = "mellanox")]
    pub vendor: u16,
    /// PCI device; a ConnectX-7 unless given.
    #[serde(default = "connectx_7")]
    pub device: u16,
    /// Kernel driver.
    #[serde(default = "mlx5_core")]
    pub driver: String,
    /// SR-IOV functions that are switched on.
    #[serde(default)]
    pub virtual_functions: Vec<VirtualFunction>,
}

/// An SR-IOV function of a network adapter; what is not here it has from the adapter.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct VirtualFunction {
    /// Address, on the bus of the adapter.
    #[serde(deserialize_with = "pci_address")]
    pub at: PciAddress,
    /// PCI device; a ConnectX virtual function unless given.
    #[serde(default = "connectx_function")]
    pub device: u16,
    /// RDMA device.
    pub rdma: Option<String>,
    /// Network interface.
    pub net: Option<String>,
}

fn connectx_function() -> u16 {
    0x101e
}

fn one() -> u32 {
    1
}

fn mellanox() -> u16 {
    0x15b3
}

fn connectx_7() -> u16 {
    0x1021
}

fn mlx5_core() -> String {
    "mlx5_core".to_owned()
}

/// What a network port speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkLayer {
    /// InfiniBand.
    #[default]
    Infiniband,
    /// Ethernet.
    Ethernet,
    /// Something of the maker's own, such as EFA.
    Unspecified,
}

/// An NVSwitch.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NvSwitchDescription {
    /// Address.
    #[serde(deserialize_with = "pci_address")]
    pub at: PciAddress,
    /// PCI device, such as 0x22a3 for the third generation.
    pub device: u16,
}

/// Any other device.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OtherDescription {
    /// Address.
    #[serde(deserialize_with = "pci_address")]
    pub at: PciAddress,
    /// PCI class, 24 bits, such as 0x010802 for NVMe.
    pub class: u32,
    /// PCI vendor.
    pub vendor: u16,
    /// PCI device.
    pub device: u16,
    /// Its PCIe link; the node's generation with 16 lanes unless given.
    #[serde(default)]
    pub link: Link,
    /// Kernel driver, if one is bound.
    pub driver: Option<String>,
}

/// How NVLinks are wired.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wiring {
    /// Every GPU to every NVSwitch of the node: links of a GPU to each, in the order of their addresses.
    Switched(Vec<u32>),
    /// GPUs of several baseboards to the NVSwitches of their own, with links between the baseboards' switches.
    Baseboards(Vec<Baseboard>),
    /// Through switches that the node does not see: links of each GPU.
    HiddenSwitches(u32),
    /// GPU to GPU.
    Direct(Vec<Pair>),
}

/// GPUs that have the same NVSwitches.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Baseboard {
    /// GPUs by index.
    pub gpus: CpuSet,
    /// Links of a GPU to each NVSwitch of the node, in the order of their addresses.
    pub links: Vec<u32>,
}

/// Two GPUs with NVLinks between them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Pair {
    /// Both, by index in PCI order.
    pub gpus: (u32, u32),
    /// How many links.
    pub links: u32,
}

/// How near the driver says that some GPUs are to each other.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DriverLevel {
    /// GPUs by index, each to every other.
    pub gpus: CpuSet,
    /// Level, in the words of `nvidia-smi topo`.
    pub level: Level,
}

/// Registration at the NVLink fabric.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FabricDescription {
    /// UUID of the NVLink domain; all zero on a machine that is a domain of its own.
    #[serde(default)]
    pub cluster_uuid: ClusterUuid,
    /// Clique.
    #[serde(default)]
    pub clique: u32,
    /// How far registration is.
    #[serde(default)]
    pub state: FabricProgress,
}

/// How far registration at the fabric is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FabricProgress {
    /// No fabric manager has begun.
    NotStarted,
    /// Going on.
    InProgress,
    /// Done.
    #[default]
    Completed,
}

/// UUID of an NVLink domain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClusterUuid(pub [u8; 16]);

impl<'de> Deserialize<'de> for ClusterUuid {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let plain = digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit());
        plain
            .then(|| u128::from_str_radix(&digits, 16).ok())
            .flatten()
            .map(|uuid| Self(uuid.to_be_bytes()))
            .ok_or_else(|| {
                serde::de::Error::custom(format!("`{text}` is no UUID; expected 32 hexadecimal digits"))
            })
    }
}

/// A load from the start.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DefaultLoad {
    /// GPUs by index, as a list such as `0-3,6`.
    pub gpus: CpuSet,
    /// What runs on them.
    pub load: Load,
}
