//! Where the GPUs sit in the machine, put together.

use gpulet_inventory::snapshot::Topology;

use crate::root::Root;
use crate::{numa, pci};

/// Reads the topology below `root`. What the kernel does not tell is absent from the result.
pub fn read(root: &Root) -> Topology {
    Topology { numa_nodes: numa::read(root), gpus: pci::nvidia_gpus(root) }
}
