//! Where the GPUs sit in the machine, put together.

use gpulet_inventory::host::PciKind;
use gpulet_inventory::snapshot::{GpuPlace, Topology};

use crate::hardware;
use crate::root::Root;

/// Reads the topology below `root`. What the kernel does not tell is absent from the result.
pub fn read(root: &Root) -> Topology {
    let host = hardware::read(root);
    let gpus = host.pci.into_iter().filter(|device| device.kind == PciKind::Gpu);
    let place = |gpu: gpulet_inventory::host::PciDevice| GpuPlace {
        pci: gpu.address,
        numa_node: gpu.numa_node,
        driver: gpu.driver,
    };
    Topology { numa_nodes: host.numa_nodes, gpus: gpus.map(place).collect() }
}
