//! Zones of type `MemoryNode`: NUMA nodes without CPUs, such as a GPU's own memory (GH200, GB200) or memory behind CXL.
//!
//! A kubelet that takes them for places to put Pods in has 2^34 of them to choose from on a GB200; so they are no zones of
//! type `Node`.

use gpulet_inventory::numa::{CpuSet, NumaNode};
use gpulet_inventory::topology::{NumaArea, NumaKind, Topology};

use super::super::attribute::{self, Attributes};
use super::super::nodes::Nodes;
use super::super::object::Zone;
use super::gpus;

/// One for each NUMA node that has memory and no CPUs. Costs are the NUMA distances to the zones of type `Node`.
pub(super) fn zones(topology: &Topology, nodes: &Nodes<'_>) -> Vec<Zone> {
    topology
        .numa_nodes
        .iter()
        .filter(|area| !is_spare(area))
        .filter_map(|area| zone(area, topology, nodes))
        .collect()
}

fn zone(area: &NumaArea, topology: &Topology, nodes: &Nodes<'_>) -> Option<Zone> {
    let mut attributes = Attributes::default();
    attributes.add(attribute::NUMA_ID, area.node.id);
    attributes.add_known(attribute::MEMORY, area.node.memory_bytes);
    let parent = match area.kind {
        NumaKind::Cpu => return None,
        NumaKind::Memory => nearest(&area.node, nodes),
        NumaKind::GpuMemory { gpu } => {
            attributes.add(attribute::SPARE_NUMA_IDS, spares(gpu, topology));
            topology.gpus.get(gpu).map(|gpu| gpus::name(gpu.place.pci))
        }
    };
    Some(Zone {
        name: format!("memory-{}", area.node.id),
        kind: "MemoryNode".to_owned(),
        parent,
        attributes: attributes.finish(),
        costs: nodes.costs(&area.node),
        resources: Vec::new(),
    })
}

/// Kept free for the memory of MIG instances, and nothing until then: told with the node that has the memory.
fn is_spare(area: &NumaArea) -> bool {
    matches!(area.kind, NumaKind::GpuMemory { .. }) && area.node.memory_bytes.unwrap_or(0) == 0
}

fn spares(gpu: usize, topology: &Topology) -> CpuSet {
    let of_gpu = |area: &&NumaArea| area.kind == NumaKind::GpuMemory { gpu } && is_spare(area);
    topology.numa_nodes.iter().filter(of_gpu).map(|area| area.node.id.0).collect()
}

/// The zone that is nearer than every other.
fn nearest(node: &NumaNode, nodes: &Nodes<'_>) -> Option<String> {
    let costs = nodes.costs(node);
    let least = costs.iter().map(|cost| cost.value).min()?;
    let mut near = costs.into_iter().filter(|cost| cost.value == least);
    let first = near.next()?;
    near.next().is_none().then_some(first.name)
}
