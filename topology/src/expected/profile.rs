//! The expected profile: what is kept of a topology that a person found good.

use std::collections::BTreeMap;

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::numa::NumaNodeId;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::topology::{PlacedGpu, PlacedNic, SlotLink, Topology};
use serde::{Deserialize, Serialize};

/// The version of [`Profile`] that this program writes and reads.
pub const VERSION: u32 = 1;

/// What a node should look like. Keys are in kebab-case; a file with keys that are unknown is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Profile {
    /// [`VERSION`]; see [`Profile::check`].
    pub version: u32,
    /// GPUs.
    pub gpus: Vec<ExpectedGpu>,
    /// NICs.
    pub nics: Vec<ExpectedNic>,
    /// Upstream ports of PCIe switches.
    pub pcie_switches: Vec<PciAddress>,
    /// NVSwitches on the PCI bus.
    pub nvswitches: Vec<PciAddress>,
}

/// One expected GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ExpectedGpu {
    /// Where it sits.
    pub pci: PciAddress,
    /// Which one it was; another one in its place is as good.
    pub uuid: Option<GpuUuid>,
    /// Product name.
    pub name: Option<String>,
    /// NUMA node.
    pub numa_node: Option<NumaNodeId>,
    /// Active NVLinks; absent where they were not read, and for a GPU in MIG mode, which has them off.
    pub nvlinks: Option<u32>,
    /// Lanes that both ends of the PCIe link have.
    pub pcie_width: Option<u32>,
    /// Highest speed of both ends of the PCIe link, megatransfers per second.
    pub pcie_speed_mts: Option<u32>,
}

/// One expected NIC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ExpectedNic {
    /// Where it sits.
    pub pci: PciAddress,
    /// RDMA device.
    pub rdma: Option<String>,
    /// Node GUID: the identity that it keeps when moved to another slot.
    pub node_guid: Option<String>,
    /// NUMA node.
    pub numa_node: Option<NumaNodeId>,
    /// GPUs that reach it without a host bridge.
    pub near_gpus: Vec<PciAddress>,
    /// Lanes that both ends of the PCIe link have.
    pub pcie_width: Option<u32>,
}

/// Why a profile cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the expected profile has version {found}, this program reads version {VERSION}; save it anew with `gpulet topo --save`"
)]
pub struct UnsupportedVersion {
    /// The version that it has.
    pub found: u32,
}

impl UnsupportedVersion {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        "UnsupportedProfileVersion"
    }
}

impl Profile {
    /// The profile of a topology as it is.
    pub fn of(topology: &Topology) -> Self {
        let mut near = super::compare::near_gpus(topology);
        Self {
            version: VERSION,
            gpus: topology.gpus.iter().map(expected_gpu).collect(),
            nics: topology.nics.iter().map(|nic| expected_nic(nic, &mut near)).collect(),
            pcie_switches: topology.pcie_switches.iter().map(|switch| switch.upstream).collect(),
            nvswitches: topology.nvswitches.iter().map(|place| place.pci).collect(),
        }
    }

    /// Whether this program can read it.
    ///
    /// # Errors
    /// When it is of another version.
    pub fn check(&self) -> Result<(), UnsupportedVersion> {
        match self.version {
            VERSION => Ok(()),
            found => Err(UnsupportedVersion { found }),
        }
    }
}

fn expected_gpu(gpu: &PlacedGpu) -> ExpectedGpu {
    let link = gpu.place.link.unwrap_or_default();
    ExpectedGpu {
        pci: gpu.place.pci,
        uuid: gpu.uuid.clone(),
        name: gpu.name.clone(),
        numa_node: gpu.place.numa.node,
        nvlinks: super::links::up(gpu),
        pcie_width: link.possible_width,
        pcie_speed_mts: link.possible_speed_mts,
    }
}

fn expected_nic(nic: &PlacedNic, near: &mut BTreeMap<PciAddress, Vec<PciAddress>>) -> ExpectedNic {
    let link: SlotLink = nic.place.link.unwrap_or_default();
    ExpectedNic {
        pci: nic.place.pci,
        rdma: nic.rdma.clone(),
        node_guid: nic.node_guid.clone(),
        numa_node: nic.place.numa.node,
        near_gpus: near.remove(&nic.place.pci).unwrap_or_default(),
        pcie_width: link.possible_width,
    }
}
