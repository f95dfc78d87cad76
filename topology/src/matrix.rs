//! The matrix of `nvidia-smi topo -m` as values.

use std::fmt;

use gpulet_inventory::locality::Level;
use gpulet_inventory::numa::{CpuSet, NumaNodeId};
use gpulet_inventory::topology::{Device, PlacedNic, Topology};

/// The matrix: GPUs, then RDMA devices. Plain network devices are not in it, as `nvidia-smi` leaves them out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cells {
    /// Labels of rows and columns alike.
    pub labels: Vec<String>,
    /// Rows of cells.
    pub rows: Vec<Vec<Cell>>,
    /// One entry per GPU: CPUs near it.
    pub cpu_affinity: Vec<Option<CpuSet>>,
    /// One entry per GPU: its NUMA node.
    pub numa_affinity: Vec<Option<NumaNodeId>>,
    /// One entry per GPU: the NUMA node of its own memory.
    pub gpu_numa_id: Vec<Option<NumaNodeId>>,
}

/// One cell of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// What it says.
    pub word: Word,
    /// What the driver says of the PCIe path, where that differs from sysfs and no NVLink stands in the cell.
    pub driver_says: Option<Level>,
}

/// A word of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Active NVLinks between two GPUs.
    NvLink(u32),
    /// How near two devices are.
    Level(Level),
    /// Nobody says.
    Unknown,
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NvLink(links) => write!(f, "NV{links}"),
            Self::Level(level) => f.write_str(level.as_str()),
            Self::Unknown => f.write_str("?"),
        }
    }
}

/// The matrix of a topology.
pub fn cells(topology: &Topology) -> Cells {
    let devices: Vec<Device> = in_matrix(topology).collect();
    Cells {
        labels: devices.iter().map(|device| topology.label(*device).to_owned()).collect(),
        rows: devices
            .iter()
            .map(|row| devices.iter().map(|column| cell(topology, *row, *column)).collect())
            .collect(),
        cpu_affinity: topology.gpus.iter().map(|gpu| gpu.place.numa.cpus.clone()).collect(),
        numa_affinity: topology.gpus.iter().map(|gpu| gpu.place.numa.node).collect(),
        gpu_numa_id: topology.gpus.iter().map(|gpu| gpu.memory_node).collect(),
    }
}

/// RDMA devices come first among the NICs, so that their labels have no gaps.
fn in_matrix(topology: &Topology) -> impl Iterator<Item = Device> {
    topology.devices().filter(|device| match device {
        Device::Gpu(_) => true,
        Device::Nic(nic) => topology.nics.get(*nic).is_some_and(in_table),
    })
}

/// Whether the matrix has a column for a NIC.
pub(crate) fn in_table(nic: &PlacedNic) -> bool {
    nic.rdma.is_some()
}

fn cell(topology: &Topology, row: Device, column: Device) -> Cell {
    let plain = |word| Cell { word, driver_says: None };
    if row == column {
        return plain(Word::Level(Level::Same));
    }
    let Some(pair) = topology.pair(row, column) else { return plain(Word::Unknown) };
    match pair.nvlink {
        Some(nvlink) if nvlink.links > 0 => plain(Word::NvLink(nvlink.links)),
        _ => Cell {
            word: pair.best_known_level().map_or(Word::Unknown, Word::Level),
            driver_says: pair.driver_level.filter(|_| pair.diverges()),
        },
    }
}
