//! What the kernel says of the node's hardware (source: sysfs and procfs under the host's root).
//!
//! These are facts as they were read, before anything is concluded from them. What the kernel does not say is absent.

use serde::{Deserialize, Serialize};

use crate::numa::{CpuSet, NumaNode, NumaNodeId};
use crate::pci::PciAddress;

/// The node's hardware.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Host {
    /// Online NUMA nodes, ascending.
    pub numa_nodes: Vec<NumaNode>,
    /// Huge pages by NUMA node and page size, also those of which there are none; a node without memory has no entry.
    pub huge_pages: Vec<HugePages>,
    /// CPUs.
    pub cpus: Cpus,
    /// GPUs, NVSwitches, NICs and every bridge above one of them, by address.
    pub pci: Vec<PciDevice>,
    /// Network and RDMA devices, by address.
    pub nics: Vec<Nic>,
    /// NUMA nodes that are GPUs' own memory.
    pub gpu_memory: Vec<GpuMemoryNode>,
    /// Version of the loaded NVIDIA kernel module.
    pub nvidia_module: Option<String>,
    /// What was there and could not be understood.
    pub oddities: Vec<Oddity>,
}

/// Huge pages of one size on one NUMA node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct HugePages {
    /// The node.
    pub numa_node: NumaNodeId,
    /// Size of one page, bytes.
    pub page_bytes: u64,
    /// How many there are.
    pub total: u64,
    /// How many are free.
    pub free: u64,
}

/// CPUs of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Cpus {
    /// Online.
    pub online: CpuSet,
    /// Present, online or not.
    pub present: CpuSet,
    /// One entry per online CPU that tells its place, ascending.
    pub places: Vec<CpuPlace>,
    /// Last-level caches: which CPUs share one, ascending by first CPU.
    pub last_level_caches: Vec<CpuSet>,
}

/// Where one CPU sits (source: `/sys/devices/system/cpu/cpuN/topology`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CpuPlace {
    /// Its number.
    pub cpu: u32,
    /// Physical package.
    pub package: u32,
    /// CPUs of the same core, itself included. The kernel's numbers of cores repeat in each package and die, and say no
    /// more than this.
    pub siblings: CpuSet,
}

/// What a PCI device is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PciKind {
    /// An NVIDIA display or 3D controller.
    Gpu,
    /// An NVIDIA bridge of class 0x068000.
    NvSwitch,
    /// An Ethernet or InfiniBand controller.
    Nic,
    /// A PCI-to-PCI bridge: a root port, or one port of a switch.
    Bridge,
}

/// One PCI function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PciDevice {
    /// Its address.
    pub address: PciAddress,
    /// What it is to us.
    pub kind: PciKind,
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
    /// Where it hangs in the tree.
    pub path: PciPath,
    /// `numa_node` as sysfs has it; absent for -1.
    pub numa_node: Option<NumaNodeId>,
    /// `local_cpulist`; not read of bridges.
    pub local_cpus: Option<CpuSet>,
    /// Its link; absent for a device without PCIe link.
    pub link: Option<PcieLink>,
    /// The kernel driver bound to it.
    pub driver: Option<String>,
    /// For an SR-IOV virtual function: the physical one.
    pub physical_function: Option<PciAddress>,
    /// For a bridge: whether access control services send peer-to-peer traffic up to the root; absent where the
    /// configuration space could not be read (needs root) or has no such capability.
    pub acs_redirects: Option<bool>,
}

/// Where a device hangs: a root complex and the bridges from there down to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct PciPath {
    /// The root's name in sysfs, such as `pci0000:17`.
    pub root: String,
    /// Bridges from the root port down; the device itself is left out.
    pub bridges: Vec<PciAddress>,
}

/// A PCIe link now and at most, as the device at its lower end tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PcieLink {
    /// Speed now, megatransfers per second; falls while idle. Not read of root ports and downstream ports: what hangs
    /// there tells it.
    pub speed_mts: Option<u32>,
    /// Lanes now; as for the speed.
    pub width: Option<u32>,
    /// Highest speed of the device, megatransfers per second.
    pub max_speed_mts: Option<u32>,
    /// Most lanes of the device.
    pub max_width: Option<u32>,
}

/// A network or RDMA device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Nic {
    /// Its PCI function.
    pub pci: PciAddress,
    /// Network interfaces, such as `ens1f0np0`.
    pub interfaces: Vec<String>,
    /// RDMA device; absent for a plain Ethernet controller.
    pub rdma: Option<Rdma>,
}

/// An RDMA device (source: `/sys/class/infiniband`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rdma {
    /// Its name, such as `mlx5_0`.
    pub name: String,
    /// Node GUID, as sysfs writes it.
    pub node_guid: Option<String>,
    /// Ports by number.
    pub ports: Vec<RdmaPort>,
}

/// One port of an RDMA device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RdmaPort {
    /// Its number, from 1.
    pub number: u32,
    /// State in the kernel's word, such as `ACTIVE`.
    pub state: Option<String>,
    /// Rate, megabits per second.
    pub rate_mbps: Option<u64>,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: Option<String>,
}

/// A NUMA node that is a GPU's own memory (source: `/proc/driver/nvidia/gpus/*/numa_status`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct GpuMemoryNode {
    /// The GPU.
    pub pci: PciAddress,
    /// The first node of its memory.
    pub numa_node: NumaNodeId,
}

/// Something that was there and could not be understood.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Oddity {
    /// The file, below the host's root.
    pub path: String,
    /// What is odd about it.
    pub problem: String,
}
