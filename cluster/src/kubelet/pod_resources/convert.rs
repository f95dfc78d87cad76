//! From the kubelet's messages to the vocabulary.
//!
//! Nothing of what a kubelet or a device plugin says is trusted: numbers that no machine has are left out and told. The
//! kubelet tells most things in an order that differs from one time to the next; here they are put in order, so that two
//! answers are equal when they say the same.

use std::collections::BTreeMap;

use gpulet_inventory::kubelet::{
    Allocatable, ClaimedDevice, ContainerAllocation, KubeletDevice, MemoryBlock, NodeAllocation,
    PodAllocation,
};
use gpulet_inventory::numa::CpuSet;

use super::{Answer, v1};

/// The highest number that a CPU can have; the kernel's own limit is 8,192.
const MAX_CPU: u32 = 65_535;

/// The most oddities that are told of one answer; the rest are counted in one more.
const MAX_ODDITIES: usize = 64;

/// Something in an answer that makes no sense and was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oddity {
    /// Where, such as `Pod default/train, container main`.
    pub place: String,
    /// What is wrong with it.
    pub problem: String,
}

/// What was odd, as far as it is told.
#[derive(Debug, Default)]
struct Oddities {
    told: Vec<Oddity>,
    more: usize,
}

impl Oddities {
    fn add(&mut self, place: &str, problem: String) {
        match self.told.len() {
            0..MAX_ODDITIES => self.told.push(Oddity { place: place.to_owned(), problem }),
            _ => self.more += 1,
        }
    }

    /// Those that are told, and how many are not.
    fn finish(mut self) -> Vec<Oddity> {
        if self.more > 0 {
            let problem = format!("{} more oddities like these are not told", self.more);
            self.told.push(Oddity { place: "the kubelet's answer".to_owned(), problem });
        }
        self.told
    }
}

/// The two answers of one reading, which [`bounds`](super::bounds) have let through.
pub(super) fn node(
    allocatable: v1::AllocatableResourcesResponse,
    listed: v1::ListPodResourcesResponse,
) -> Answer {
    let mut oddities = Oddities::default();
    let allocatable = Allocatable {
        devices: devices(allocatable.devices),
        cpus: cpus(&allocatable.cpu_ids, "allocatable", &mut oddities),
        memory: memory(allocatable.memory),
    };
    let mut pods: Vec<PodAllocation> =
        listed.pod_resources.into_iter().map(|pod| self::pod(pod, &mut oddities)).collect();
    pods.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    Answer { allocation: NodeAllocation { allocatable, pods }, oddities: oddities.finish() }
}

/// One Pod alone; what is odd about it is told by the reading of all.
pub(super) fn one_pod(of: v1::PodResources) -> PodAllocation {
    pod(of, &mut Oddities::default())
}

fn pod(pod: v1::PodResources, oddities: &mut Oddities) -> PodAllocation {
    let v1::PodResources { name, namespace, containers } = pod;
    let container = |of: v1::ContainerResources| {
        let place = format!("Pod {namespace}/{name}, container {}", of.name);
        ContainerAllocation {
            devices: devices(of.devices),
            cpus: cpus(&of.cpu_ids, &place, oddities),
            memory: memory(of.memory),
            claims: claims(of.dynamic_resources),
            name: of.name,
        }
    };
    let containers = containers.into_iter().map(container).collect();
    PodAllocation { namespace, name, containers }
}

/// Each device once. A device of several NUMA nodes comes once for each of them.
fn devices(listed: Vec<v1::ContainerDevices>) -> Vec<KubeletDevice> {
    let mut devices: BTreeMap<(String, String), Option<Vec<i64>>> = BTreeMap::new();
    for entry in listed {
        let nodes = nodes(entry.topology);
        for id in entry.device_ids {
            let known = devices.entry((entry.resource_name.clone(), id)).or_default();
            *known = joined(known.take(), nodes.clone());
        }
    }
    let device = |((resource, id), numa_nodes)| KubeletDevice { resource, id, numa_nodes };
    devices.into_iter().map(device).collect()
}

/// The nodes that a topology names, ascending. A topology without nodes tells as little as none.
fn nodes(topology: Option<v1::TopologyInfo>) -> Option<Vec<i64>> {
    let nodes = topology?.nodes.into_iter().map(|node| node.id);
    Some(sorted(nodes.collect())).filter(|nodes| !nodes.is_empty())
}

fn joined(one: Option<Vec<i64>>, other: Option<Vec<i64>>) -> Option<Vec<i64>> {
    match (one, other) {
        (Some(one), Some(other)) => Some(sorted([one, other].concat())),
        (one, other) => one.or(other),
    }
}

fn sorted(mut nodes: Vec<i64>) -> Vec<i64> {
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

fn cpus(ids: &[i64], place: &str, oddities: &mut Oddities) -> CpuSet {
    let cpu = |id: &i64| u32::try_from(*id).ok().filter(|cpu| *cpu <= MAX_CPU);
    let mut impossible = ids.iter().filter(|id| cpu(id).is_none());
    if let Some(first) = impossible.next() {
        let more = impossible.count();
        oddities.add(place, format!("no CPU has the number {first}; it and {more} more such were left out"));
    }
    ids.iter().filter_map(cpu).collect()
}

fn memory(blocks: Vec<v1::ContainerMemory>) -> Vec<MemoryBlock> {
    let block = |of: v1::ContainerMemory| MemoryBlock {
        kind: of.memory_type,
        bytes: of.size,
        numa_nodes: nodes(of.topology).unwrap_or_default(),
    };
    let mut blocks: Vec<MemoryBlock> = blocks.into_iter().map(block).collect();
    blocks.sort_by(|one, other| {
        (&one.kind, &one.numa_nodes, one.bytes).cmp(&(&other.kind, &other.numa_nodes, other.bytes))
    });
    blocks
}

fn claims(of: Vec<v1::DynamicResource>) -> Vec<ClaimedDevice> {
    let mut claims: Vec<ClaimedDevice> = of.into_iter().flat_map(claim).collect();
    claims.sort_by(|one, other| {
        let claim = (&one.claim_namespace, &one.claim).cmp(&(&other.claim_namespace, &other.claim));
        let device =
            || (&one.driver, &one.pool, &one.device).cmp(&(&other.driver, &other.pool, &other.device));
        claim.then_with(device).then_with(|| one.share_id.cmp(&other.share_id))
    });
    claims
}

fn claim(of: v1::DynamicResource) -> impl Iterator<Item = ClaimedDevice> {
    let v1::DynamicResource { claim_name, claim_namespace, claim_resources } = of;
    claim_resources.into_iter().map(move |device| ClaimedDevice {
        claim_namespace: claim_namespace.clone(),
        claim: claim_name.clone(),
        driver: device.driver_name,
        pool: device.pool_name,
        device: device.device_name,
        share_id: device.share_id,
        cdi_devices: device.cdi_devices.into_iter().map(|device| device.name).collect(),
    })
}
