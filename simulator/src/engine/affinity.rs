//! What the driver tells of where a GPU is.

use std::collections::BTreeMap;

use gpulet_inventory::numa::CpuSet;

use crate::node::{Gpu, Node};

/// CPUs near a GPU: those of its NUMA node; all of them where the firmware names none.
pub(super) fn cpus(node: &Node, gpu: &Gpu) -> CpuSet {
    if let Some(told) = &gpu.description.driver_affinity {
        return told.cpus.clone();
    }
    let near = |id: u32| gpu.function.numa.is_none_or(|numa| numa == id);
    let nodes = node.description().numa.iter().filter(|numa| near(numa.id));
    nodes.flat_map(|numa| numa.cpus.iter()).collect()
}

/// NUMA nodes near a GPU: its own; none where the firmware names none. Beside a Grace these are also the nodes that are
/// kept for MIG instances of all GPUs at it, but not those that hold the GPUs' memory (GB200's published affinities).
pub(super) fn numa_nodes(node: &Node, gpu: &Gpu) -> CpuSet {
    if let Some(told) = &gpu.description.driver_affinity {
        return told.numa.clone();
    }
    let Some(own) = gpu.function.numa else { return CpuSet::default() };
    let beside = node.gpus().iter().filter(|other| other.function.numa == Some(own));
    beside.flat_map(|other| other.description.memory_nodes.iter().skip(1)).chain([own]).collect()
}

/// Levels that the driver tells of a GPU to others though the PCIe tree says otherwise, by the others' index.
pub(super) fn told_levels(node: &Node, index: usize) -> BTreeMap<u32, u32> {
    let Ok(own) = u32::try_from(index) else { return BTreeMap::new() };
    let about = node.description().driver_levels.iter().filter(|told| told.gpus.contains(own));
    let others = |gpus: &CpuSet| gpus.iter().filter(|gpu| *gpu != own).collect::<Vec<_>>();
    about.flat_map(|told| others(&told.gpus).into_iter().map(|gpu| (gpu, told.level.number()))).collect()
}
