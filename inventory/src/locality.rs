//! What the driver says of where its GPUs sit: a second opinion beside the kernel's.

use serde::{Deserialize, Serialize};

use crate::gpu::GpuUuid;
use crate::numa::CpuSet;
use crate::reading::Reading;

/// How near two devices are, in the words of `nvidia-smi topo`, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Level {
    /// The device itself, or another GPU on its board.
    #[serde(rename = "X")]
    Same,
    /// At most one PCIe bridge between them: one switch.
    Pix,
    /// Several PCIe bridges, without going through the host bridge.
    Pxb,
    /// Through the PCIe host bridge.
    Phb,
    /// Through several host bridges of one NUMA node.
    Node,
    /// Through the interconnect between NUMA nodes.
    Sys,
}

impl Level {
    /// The word that `nvidia-smi topo` prints.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "X",
            Self::Pix => "PIX",
            Self::Pxb => "PXB",
            Self::Phb => "PHB",
            Self::Node => "NODE",
            Self::Sys => "SYS",
        }
    }

    /// As `nvmlGpuTopologyLevel_t`.
    pub fn number(self) -> u32 {
        match self {
            Self::Same => 0,
            Self::Pix => 10,
            Self::Pxb => 20,
            Self::Phb => 30,
            Self::Node => 40,
            Self::Sys => 50,
        }
    }

    /// From `nvmlGpuTopologyLevel_t`.
    pub fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Same,
            10 => Self::Pix,
            20 => Self::Pxb,
            30 => Self::Phb,
            40 => Self::Node,
            50 => Self::Sys,
            _ => return None,
        })
    }
}

/// The driver's view of all its GPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverLocality {
    /// One entry per GPU, in the driver's order.
    pub gpus: Vec<GpuLocality>,
}

/// The driver's view of one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuLocality {
    /// Which GPU.
    pub uuid: GpuUuid,
    /// CPUs near it (`nvmlDeviceGetCpuAffinityWithinScope`, scope node). Restricted by the caller's own cpuset.
    pub cpu_affinity: Reading<CpuSet>,
    /// NUMA nodes near it (`nvmlDeviceGetMemoryAffinity`, scope node).
    pub memory_affinity: Reading<CpuSet>,
    /// The NUMA node of the GPU's own memory (`nvmlDeviceGetNumaNodeId`; Grace only). Not its locality.
    pub own_numa_node: Reading<u32>,
    /// NVLink chip-to-chip links to the CPU (`NVML_FI_DEV_C2C_LINK_COUNT`); 0 without.
    pub c2c_links: Reading<u32>,
    /// How near each GPU of [`DriverLocality::gpus`] is, in that order (`nvmlDeviceGetTopologyCommonAncestor`).
    pub levels: Vec<Reading<Level>>,
}
