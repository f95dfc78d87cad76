//! What a kubelet gives to Pods: each has a GPU, and CPUs and memory beside it, while there are any.

use std::collections::BTreeMap;

use gpulet_inventory::kubelet::{
    Allocatable, ContainerAllocation, KubeletDevice, MemoryBlock, NodeAllocation, PodAllocation,
};
use gpulet_inventory::pod::Pod;
use gpulet_inventory::topology::Topology;

/// Exclusive CPUs of each Pod.
const CPUS: usize = 8;
/// Memory of each Pod, bytes.
const MEMORY: u64 = 64 << 30;

/// Gives, and knows who has what.
pub(super) struct Giver {
    allocatable: Allocatable,
    /// What one Pod may have.
    shares: Vec<ContainerAllocation>,
    /// The shares that are taken, by the Pods' UIDs.
    taken: BTreeMap<String, usize>,
}

impl Giver {
    /// One with the GPUs and NUMA nodes of `topology`.
    pub(super) fn new(topology: &Topology) -> Self {
        let mut allocatable = Allocatable::default();
        let mut shares = Vec::new();
        let mut cpus = Vec::new();
        for area in &topology.numa_nodes {
            let node = i64::from(area.node.id.0);
            let bytes = area.node.memory_bytes.unwrap_or_default();
            allocatable.memory.push(MemoryBlock { kind: "memory".into(), bytes, numa_nodes: vec![node] });
            cpus.extend(area.node.cpus.iter());
            let gpus = topology.gpus.iter().filter(|gpu| gpu.place.numa.node == Some(area.node.id));
            let own: Vec<u32> = area.node.cpus.iter().collect();
            for (gpu, cpus) in gpus.zip(own.chunks_exact(CPUS)) {
                let device = KubeletDevice {
                    resource: "nvidia.com/gpu".into(),
                    id: gpu.uuid.as_ref().unwrap().as_str().to_owned(),
                    numa_nodes: Some(vec![node]),
                };
                allocatable.devices.push(device.clone());
                shares.push(ContainerAllocation {
                    name: "main".into(),
                    devices: vec![device],
                    cpus: cpus.iter().copied().collect(),
                    memory: vec![MemoryBlock {
                        kind: "memory".into(),
                        bytes: MEMORY,
                        numa_nodes: vec![node],
                    }],
                    claims: Vec::new(),
                });
            }
        }
        allocatable.cpus = cpus.into_iter().collect();
        Self { allocatable, shares, taken: BTreeMap::new() }
    }

    /// What each of `pods` has. One that has ended has nothing any more.
    pub(super) fn give(&mut self, pods: &[Pod]) -> NodeAllocation {
        let alive: Vec<&Pod> = pods.iter().filter(|pod| !pod.phase.is_terminal()).collect();
        self.taken.retain(|uid, _| alive.iter().any(|pod| pod.uid == *uid));
        let mut given = Vec::new();
        for pod in alive {
            let free = (0..self.shares.len()).find(|share| !self.taken.values().any(|taken| taken == share));
            let share = self.taken.get(&pod.uid).copied().or(free);
            if let Some(share) = share {
                self.taken.insert(pod.uid.clone(), share);
            }
            let containers = share.map(|share| self.shares[share].clone()).into_iter().collect();
            given.push(PodAllocation {
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                containers,
            });
        }
        NodeAllocation { allocatable: self.allocatable.clone(), pods: given }
    }
}
