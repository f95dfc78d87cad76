//! What the kubelet answers, in its manner: one id per entry, a device of several NUMA nodes once for each of them, node
//! 0 as an empty message (it is proto3's default), and everything in an order that changes from answer to answer, as
//! the kubelet's does, which goes through Go's maps.

use gpulet_inventory::kubelet::{
    ContainerAllocation, KubeletDevice, MemoryBlock, NodeAllocation, PodAllocation,
};

use super::pod_resources::v1;

/// Changes orders: the same ones for the same number.
pub(super) struct Disorder(u64);

impl Disorder {
    pub(super) fn new(number: u64) -> Self {
        Self(number)
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn disorder<T>(&mut self, mut items: Vec<T>) -> Vec<T> {
        for last in (1..items.len()).rev() {
            items.swap(last, (self.next() % (last as u64 + 1)) as usize);
        }
        items
    }
}

/// The answer to `List`.
pub(super) fn list(pods: Vec<PodAllocation>, disorder: &mut Disorder) -> v1::ListPodResourcesResponse {
    let pods = disorder.disorder(pods);
    v1::ListPodResourcesResponse { pod_resources: pods.into_iter().map(|p| pod(p, disorder)).collect() }
}

/// The answer to `GetAllocatableResources`.
pub(super) fn allocatable(
    allocation: NodeAllocation,
    disorder: &mut Disorder,
) -> v1::AllocatableResourcesResponse {
    let there = allocation.allocatable;
    v1::AllocatableResourcesResponse {
        devices: devices(there.devices, disorder),
        cpu_ids: disorder.disorder(there.cpus.iter().map(i64::from).collect()),
        memory: memory(there.memory, disorder),
    }
}

/// One Pod.
pub(super) fn pod(pod: PodAllocation, disorder: &mut Disorder) -> v1::PodResources {
    let container = |container: ContainerAllocation| v1::ContainerResources {
        name: container.name,
        devices: devices(container.devices, disorder),
        cpu_ids: disorder.disorder(container.cpus.iter().map(i64::from).collect()),
        memory: memory(container.memory, disorder),
        dynamic_resources: Vec::new(),
    };
    v1::PodResources {
        name: pod.name,
        namespace: pod.namespace,
        containers: pod.containers.into_iter().map(container).collect(),
    }
}

fn devices(devices: Vec<KubeletDevice>, disorder: &mut Disorder) -> Vec<v1::ContainerDevices> {
    let entry = |device: &KubeletDevice, topology| v1::ContainerDevices {
        resource_name: device.resource.clone(),
        device_ids: vec![device.id.clone()],
        topology,
    };
    let entries = |device: KubeletDevice| match &device.numa_nodes {
        None => vec![entry(&device, None)],
        Some(nodes) => nodes.iter().map(|node| entry(&device, Some(topology(&[*node])))).collect(),
    };
    disorder.disorder(devices.into_iter().flat_map(entries).collect())
}

fn memory(blocks: Vec<MemoryBlock>, disorder: &mut Disorder) -> Vec<v1::ContainerMemory> {
    let entry = |block: MemoryBlock| v1::ContainerMemory {
        memory_type: block.kind,
        size: block.bytes,
        topology: Some(topology(&block.numa_nodes)),
    };
    disorder.disorder(blocks.into_iter().map(entry).collect())
}

fn topology(nodes: &[i64]) -> v1::TopologyInfo {
    v1::TopologyInfo { nodes: nodes.iter().map(|id| v1::NumaNode { id: *id }).collect() }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[test]
    fn node_0_is_an_empty_message_and_no_node_is_none() {
        let device = |numa_nodes| KubeletDevice { resource: "r".to_owned(), id: "d".to_owned(), numa_nodes };
        let bytes = |numa_nodes| {
            let entries = devices(vec![device(numa_nodes)], &mut Disorder::new(1));
            entries.into_iter().map(|entry| entry.encode_to_vec()).collect::<Vec<_>>()
        };
        let named = [0x0a, 1, b'r', 0x12, 1, b'd'];
        assert_eq!(bytes(None), [named.to_vec()]);
        assert_eq!(bytes(Some(vec![0])), [[named.as_slice(), &[0x1a, 2, 0x0a, 0]].concat()]);
        assert_eq!(bytes(Some(vec![0, 1])).len(), 2);
    }

    #[test]
    fn the_order_changes_but_nothing_is_lost() {
        let (mut one, mut other) = (Disorder::new(1), Disorder::new(2));
        let numbers: Vec<u32> = (0..40).collect();
        let (mut first, second) = (one.disorder(numbers.clone()), other.disorder(numbers.clone()));
        assert_ne!(first, second);
        first.sort_unstable();
        assert_eq!(first, numbers);
    }
}
