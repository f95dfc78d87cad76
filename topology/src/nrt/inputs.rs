//! What the object is built from.

use std::collections::BTreeSet;

use gpulet_inventory::host::HugePages;
use gpulet_inventory::kubelet::{ClaimedDevice, KubeletSettings, NodeAllocation};
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::pod::Pod;
use gpulet_inventory::topology::Topology;

/// Everything that the object is built from. What is absent is left out of the object, never guessed.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// Where everything sits.
    pub topology: &'a Topology,
    /// Huge pages by NUMA node and size.
    pub huge_pages: &'a [HugePages],
    /// What the kubelet may give and has given; absent without a kubelet, and until it has answered once.
    pub allocation: Option<&'a NodeAllocation>,
    /// How the kubelet decides; absent where that is not known.
    pub settings: Option<&'a KubeletSettings>,
    /// The node's Pods by the API: it tells which have ended; absent without an API server.
    pub pods: Option<&'a [Pod]>,
    /// GPUs that a process holds. Counts only without a kubelet.
    pub gpus_in_use: &'a BTreeSet<PciAddress>,
    /// Which hardware a device of the kubelet's is, where that is known.
    pub hardware_of: &'a dyn Fn(DeviceName<'_>) -> Option<Hardware>,
}

/// A device as the kubelet tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceName<'a> {
    /// A device plugin's.
    Plugin {
        /// The resource, such as `nvidia.com/gpu`.
        resource: &'a str,
        /// The plugin's id, such as `GPU-…` or `GPU-…::2`.
        id: &'a str,
    },
    /// A DRA driver's.
    Claim(&'a ClaimedDevice),
}

/// A PCI device, or a part of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hardware {
    /// The device.
    pub pci: PciAddress,
    /// The part of it, such as a MIG instance, by a name that everyone gives it; absent for the whole device.
    pub part: Option<String>,
}

impl Hardware {
    /// Whether whoever has the one has something of the other.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.pci == other.pci && (self.part.is_none() || other.part.is_none() || self.part == other.part)
    }
}
