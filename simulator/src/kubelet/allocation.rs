//! What has been given away, as gpulet's vocabulary has it: the truth of which the answers are made.

use std::collections::BTreeMap;

use gpulet_inventory::kubelet::{
    Allocatable, ContainerAllocation, KubeletDevice, MemoryBlock, NodeAllocation, PodAllocation,
};

use super::allocator::{Allocator, Known, Stage};
use super::devices::ByNode;
use super::memory::Block;
use super::pod::Container;

impl Allocator {
    /// What there is to give away, and what each active Pod has.
    pub fn allocation(&self) -> NodeAllocation {
        let active = self.pods.iter().filter(|known| known.stage != Stage::Ended);
        NodeAllocation { allocatable: self.allocatable(), pods: active.map(|known| self.of(known)).collect() }
    }

    /// How far a Pod is, if it is known.
    pub fn stage(&self, namespace: &str, name: &str) -> Option<Stage> {
        let mut known = self.pods.iter();
        let known = known.find(|known| known.pod.namespace == namespace && known.pod.name == name);
        known.map(|known| known.stage)
    }

    fn allocatable(&self) -> Allocatable {
        let device = |(resource, id, numa): (&str, &str, Option<&[i64]>)| KubeletDevice {
            resource: resource.to_owned(),
            id: id.to_owned(),
            numa_nodes: numa.map(<[i64]>::to_vec),
        };
        // A plugin that tells an empty list of NUMA nodes makes its device vanish from the answer.
        let told = self.devices.allocatable().filter(|(.., numa)| numa.is_none_or(|nodes| !nodes.is_empty()));
        Allocatable {
            devices: told.map(device).collect(),
            cpus: self.cpus.allocatable().into_iter().collect(),
            memory: self.memory.allocatable().into_iter().map(block).collect(),
        }
    }

    /// What a Pod has. Init containers that end are not told of.
    pub(super) fn of(&self, known: &Known) -> PodAllocation {
        let pod = &known.pod;
        let container = |container: &Container| {
            let devices = self.devices.of(&pod.uid, &container.name);
            let memory = match known.stage {
                Stage::Admitting => Vec::new(),
                _ => self.memory.of(&pod.uid, &container.name),
            };
            ContainerAllocation {
                name: container.name.clone(),
                devices: devices
                    .into_iter()
                    .flat_map(|(resource, ids)| of_resource(&resource, ids))
                    .collect(),
                cpus: self.cpus.of(&pod.uid, &container.name).into_iter().collect(),
                memory: memory.into_iter().map(block).collect(),
                claims: Vec::new(),
            }
        };
        let told =
            pod.init_containers.iter().filter(|container| container.restartable).chain(&pod.containers);
        PodAllocation {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            containers: told.map(container).collect(),
        }
    }
}

fn of_resource(resource: &str, by_node: ByNode) -> Vec<KubeletDevice> {
    let mut devices: BTreeMap<String, Option<Vec<i64>>> = BTreeMap::new();
    for (node, ids) in by_node {
        for id in ids {
            let nodes = devices.entry(id).or_default();
            if node >= 0 {
                nodes.get_or_insert_default().push(node);
            }
        }
    }
    let device = |(id, numa_nodes)| KubeletDevice { resource: resource.to_owned(), id, numa_nodes };
    devices.into_iter().map(device).collect()
}

fn block(block: Block) -> MemoryBlock {
    MemoryBlock {
        kind: block.kind,
        bytes: block.bytes,
        numa_nodes: block.nodes.into_iter().map(i64::from).collect(),
    }
}
