//! Which NUMA node a device belongs to, and who says so.

use std::collections::HashMap;

use gpulet_inventory::host::{Host, PciDevice, PciKind, PciPath};
use gpulet_inventory::locality::GpuLocality;
use gpulet_inventory::numa::{CpuSet, NumaNode, NumaNodeId};
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::topology::{NumaArea, NumaKind, NumaPlace, NumaSource, PlacedGpu};

/// Answers for one host.
pub(super) struct Finder<'a> {
    nodes: &'a [NumaNode],
    with_cpus: Vec<&'a NumaNode>,
    bridges: HashMap<PciAddress, NumaNodeId>,
}

impl<'a> Finder<'a> {
    pub(super) fn new(host: &'a Host) -> Self {
        let bridges = host.pci.iter().filter(|device| device.kind == PciKind::Bridge);
        Self {
            nodes: &host.numa_nodes,
            with_cpus: host.numa_nodes.iter().filter(|node| !node.cpus.is_empty()).collect(),
            bridges: bridges.filter_map(|bridge| Some((bridge.address, bridge.numa_node?))).collect(),
        }
    }

    /// The node of a device that the kernel may list and the driver may have an opinion on.
    pub(super) fn place(&self, device: Option<&PciDevice>, driver: Option<&GpuLocality>) -> NumaPlace {
        let local_cpus = device.and_then(|device| device.local_cpus.as_ref());
        let (node, source) = self.node(device, local_cpus, driver);
        let of_node = node.and_then(|id| self.nodes.iter().find(|node| node.id == id)).map(|node| &node.cpus);
        NumaPlace { node, source, cpus: of_node.or(local_cpus).cloned() }
    }

    fn node(
        &self,
        device: Option<&PciDevice>,
        local_cpus: Option<&CpuSet>,
        driver: Option<&GpuLocality>,
    ) -> (Option<NumaNodeId>, NumaSource) {
        let answers = [
            (device.and_then(|device| self.online(device.numa_node?)), NumaSource::Sysfs),
            (device.and_then(|device| self.of_bridges(&device.path)), NumaSource::Bridge),
            (local_cpus.and_then(|cpus| self.around(cpus)), NumaSource::LocalCpus),
            (driver.and_then(|driver| self.by_driver(driver)), NumaSource::Driver),
        ];
        let first = answers.into_iter().find(|(node, _)| node.is_some());
        first.unwrap_or(match self.with_cpus.as_slice() {
            [only] => (Some(only.id), NumaSource::SingleNode),
            _ => (None, NumaSource::Unknown),
        })
    }

    /// Firmware may name a node that does not exist.
    fn online(&self, id: NumaNodeId) -> Option<NumaNodeId> {
        self.nodes.iter().any(|node| node.id == id).then_some(id)
    }

    fn of_bridges(&self, path: &PciPath) -> Option<NumaNodeId> {
        path.bridges.iter().rev().find_map(|bridge| self.online(*self.bridges.get(bridge)?))
    }

    /// The one node that has all of these CPUs. On a machine with a single node that says nothing.
    fn around(&self, cpus: &CpuSet) -> Option<NumaNodeId> {
        if cpus.is_empty() || self.with_cpus.len() < 2 {
            return None;
        }
        self.with_cpus.iter().find(|node| cpus.is_subset(&node.cpus)).map(|node| node.id)
    }

    fn by_driver(&self, driver: &GpuLocality) -> Option<NumaNodeId> {
        if self.with_cpus.len() < 2 {
            return None;
        }
        let by_memory = driver.memory_affinity.value().and_then(|named| {
            let mut nodes = self.with_cpus.iter().filter(|node| named.contains(node.id.0));
            let first = nodes.next()?;
            nodes.next().is_none().then_some(first.id)
        });
        by_memory.or_else(|| driver.cpu_affinity.value().and_then(|cpus| self.around(cpus)))
    }
}

/// Whether two devices belong to one NUMA node.
pub(super) fn together(host: &Host, one: &NumaPlace, other: &NumaPlace) -> bool {
    match (one.node, other.node) {
        (Some(one), Some(other)) => one == other,
        _ => host.numa_nodes.iter().filter(|node| !node.cpus.is_empty()).count() < 2,
    }
}

/// The NUMA nodes with what they are.
pub(super) fn areas(host: &Host, gpus: &[PlacedGpu]) -> Vec<NumaArea> {
    let area = |node: &NumaNode| NumaArea { node: node.clone(), kind: kind(node, gpus) };
    host.numa_nodes.iter().map(area).collect()
}

/// A GPU's memory begins at the node that the driver names; the nodes after it that have neither CPUs nor memory are
/// kept for its MIG instances.
fn kind(node: &NumaNode, gpus: &[PlacedGpu]) -> NumaKind {
    if !node.cpus.is_empty() {
        return NumaKind::Cpu;
    }
    let begun = gpus.iter().enumerate().filter_map(|(gpu, placed)| Some((placed.memory_node?, gpu)));
    match begun.filter(|(first, _)| *first <= node.id).max() {
        Some((first, gpu)) if first == node.id || node.memory_bytes.unwrap_or(0) == 0 => {
            NumaKind::GpuMemory { gpu }
        }
        _ => NumaKind::Memory,
    }
}
