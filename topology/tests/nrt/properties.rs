//! What holds for any node, however odd.

use std::collections::{BTreeMap, BTreeSet};

use gpulet_inventory::kubelet::{
    Allocatable, ContainerAllocation, KubeletDevice, KubeletSettings, MemoryBlock, NodeAllocation,
    PodAllocation,
};
use gpulet_inventory::numa::CpuSet;
use gpulet_inventory::pod::{Pod, PodPhase};
use gpulet_topology::nrt::{DeviceName, Hardware, why};
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;

use super::node::{Node, api_pod, assert_sound, claim, pages};
use crate::support::machine::Machine;

/// NUMA nodes as devices and blocks name them: mostly there, sometimes absurd.
fn numa_id() -> impl Strategy<Value = i64> {
    prop_oneof![8 => 0..5i64, 1 => Just(-1), 1 => Just(99), 1 => Just(1 << 40), 1 => Just(i64::MIN)]
}

fn cpus() -> impl Strategy<Value = CpuSet> {
    vec(0..24u32, 0..10).prop_map(|cpus| cpus.into_iter().collect())
}

fn device() -> impl Strategy<Value = KubeletDevice> {
    let resource = prop_oneof![
        4 => Just("nvidia.com/gpu"),
        2 => Just("example.com/nic"),
        1 => Just("memory"),
        1 => Just(""),
    ];
    (resource, 0..8u32, of(vec(numa_id(), 0..3))).prop_map(|(resource, id, numa_nodes)| KubeletDevice {
        resource: resource.to_owned(),
        id: format!("dev-{id}"),
        numa_nodes,
    })
}

fn block() -> impl Strategy<Value = MemoryBlock> {
    let kind = prop_oneof![
        4 => Just("memory"),
        2 => Just("hugepages-2Mi"),
        1 => Just("hugepages-1Gi"),
        1 => Just("odd"),
    ];
    let bytes = prop_oneof![4 => 0..20_000u64, 1 => Just(u64::MAX), 1 => Just(1 << 40)];
    (kind, bytes, vec(numa_id(), 0..4)).prop_map(|(kind, bytes, mut numa_nodes)| {
        numa_nodes.sort_unstable();
        numa_nodes.dedup();
        MemoryBlock { kind: kind.to_owned(), bytes, numa_nodes }
    })
}

fn container() -> impl Strategy<Value = ContainerAllocation> {
    (0..3u32, vec(device(), 0..3), cpus(), vec(block(), 0..3), vec(0..8u32, 0..2)).prop_map(
        |(name, devices, cpus, memory, claims)| ContainerAllocation {
            name: format!("c{name}"),
            devices,
            cpus,
            memory,
            claims: claims
                .into_iter()
                .map(|id| claim(&format!("claim-{id}"), &format!("dev-{id}")))
                .collect(),
        },
    )
}

fn allocation() -> impl Strategy<Value = NodeAllocation> {
    let pod = (0..2u32, 0..4u32, vec(container(), 0..3)).prop_map(|(namespace, name, containers)| {
        PodAllocation { namespace: format!("ns{namespace}"), name: format!("pod{name}"), containers }
    });
    (vec(device(), 0..10), cpus(), vec(block(), 0..6), vec(pod, 0..6)).prop_map(
        |(devices, cpus, memory, pods)| NodeAllocation {
            allocatable: Allocatable { devices, cpus, memory },
            pods,
        },
    )
}

fn settings() -> impl Strategy<Value = KubeletSettings> {
    let kinds = prop_oneof![Just("memory".to_owned()), Just("hugepages-2Mi".to_owned())];
    let reserved =
        btree_map(numa_id(), btree_map(kinds, prop_oneof![Just(0), Just(4_000), Just(u64::MAX)], 0..3), 0..3);
    let amount = || prop_oneof![Just(0), Just(2_500), Just(u64::MAX)];
    (of(cpus()), amount(), reserved, amount()).prop_map(
        |(reserved_cpus, reserved_milli_cpus, reserved_memory, reserved_memory_bytes)| KubeletSettings {
            reserved_cpus,
            reserved_milli_cpus,
            reserved_memory,
            reserved_memory_bytes,
            ..super::node::settings()
        },
    )
}

fn pods() -> impl Strategy<Value = Vec<Pod>> {
    let phase = prop_oneof![Just(PodPhase::Pending), Just(PodPhase::Running), Just(PodPhase::Succeeded)];
    btree_map((0..2u32, 0..5u32), phase, 0..6).prop_map(|pods| {
        let pod = |((namespace, name), phase): ((u32, u32), PodPhase)| {
            api_pod(&format!("ns{namespace}"), &format!("pod{name}"), phase)
        };
        pods.into_iter().map(pod).collect()
    })
}

/// Up to four NUMA nodes with six CPUs each, any of which may be without CPUs or without memory.
fn machine() -> impl Strategy<Value = Machine> {
    let node = (any::<bool>(), of(prop_oneof![4 => 0..20_000u64, 1 => Just(u64::MAX)]), any::<bool>());
    vec(node, 0..5).prop_map(|nodes| {
        let mut machine = Machine::new("NVIDIA L40S");
        let mut id = 0;
        for (at, (with_cpus, memory, gap)) in nodes.into_iter().enumerate() {
            id += 1 + u32::from(gap);
            let cpus = if with_cpus { format!("{}-{}", 6 * at, 6 * at + 5) } else { String::new() };
            machine.node(id - 1, &cpus, 0);
            machine.host.numa_nodes[at].memory_bytes = memory;
            let slot = machine.slot(gap.then_some(id - 1));
            machine.gpu(&slot);
        }
        super::node::distances(&mut machine, 21);
        machine
    })
}

fn hardware(name: DeviceName<'_>) -> Option<Hardware> {
    let name = match name {
        DeviceName::Plugin { id, .. } => id,
        DeviceName::Claim(claim) => &claim.device,
    };
    let bus = name.strip_prefix("dev-")?.parse().ok()?;
    let pci = gpulet_inventory::pci::PciAddress { domain: 0, bus, device: 0, function: 0 };
    Some(Hardware { pci, part: None })
}

fn node() -> impl Strategy<Value = Node> {
    let huge_pages = vec((0..5u32, prop_oneof![Just(2u64 << 20), Just(1 << 30)], 0..3u64), 0..4);
    (machine(), huge_pages, of(allocation()), of(settings()), of(pods())).prop_map(
        |(machine, huge_pages, allocation, settings, pods)| {
            let mut node = Node::bare(&machine);
            node.huge_pages =
                huge_pages.into_iter().map(|(node, size, total)| pages(node, size, total)).collect();
            (node.allocation, node.settings, node.pods, node.hardware_of) =
                (allocation, settings, pods, hardware);
            node
        },
    )
}

/// The same node with everything that has no order of its own in another.
fn turned(node: &Node) -> Node {
    let mut turned = node.clone();
    turned.huge_pages.reverse();
    if let Some(allocation) = &mut turned.allocation {
        allocation.allocatable.devices.reverse();
        allocation.allocatable.memory.reverse();
        allocation.pods.reverse();
        for container in allocation.pods.iter_mut().flat_map(|pod| &mut pod.containers) {
            container.devices.reverse();
            container.memory.reverse();
            container.claims.reverse();
        }
    }
    if let Some(pods) = &mut turned.pods {
        pods.reverse();
    }
    turned
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_node_has_a_sound_object(node in node()) {
        let built = node.built();
        assert_sound(&built);
        prop_assert!(why(&built).ends_with('\n'));
        prop_assert!(built.notes.is_sorted());
    }

    #[test]
    fn the_order_of_what_is_said_makes_no_difference(mut node in node()) {
        // Sizes of one NUMA node that are told twice, and Pods of one name, are no order but a contradiction.
        let mut seen = BTreeSet::new();
        node.huge_pages.retain(|pages| seen.insert((pages.numa_node, pages.page_bytes)));
        if let Some(allocation) = &mut node.allocation {
            let mut seen = BTreeSet::new();
            allocation.pods.retain(|pod| seen.insert((pod.namespace.clone(), pod.name.clone())));
            for pod in &mut allocation.pods {
                let mut seen = BTreeSet::new();
                pod.containers.retain(|container| seen.insert(container.name.clone()));
            }
        }
        prop_assert_eq!(turned(&node).built(), node.built());
    }

    #[test]
    fn nothing_is_lost_between_the_zones(mut node in node()) {
        let mut pods = Vec::new();
        std::mem::swap(&mut pods, &mut node.allocation.get_or_insert_default().pods);
        let free = node.built();
        node.allocation.as_mut().unwrap().pods = pods;
        let built = node.built();
        // CPUs: those that may be given and that no live container has.
        let ended: BTreeSet<(&str, &str)> = node.pods.iter().flatten().filter(|pod| pod.phase.is_terminal())
            .map(|pod| (pod.namespace.as_str(), pod.name.as_str())).collect();
        let live = || node.allocation.iter().flat_map(|allocation| &allocation.pods)
            .filter(|pod| !ended.contains(&(pod.namespace.as_str(), pod.name.as_str())))
            .flat_map(|pod| &pod.containers);
        let given: BTreeSet<u32> = live().flat_map(|container| container.cpus.iter()).collect();
        let sum = |built: &gpulet_topology::nrt::Built, resource: &str| -> u128 {
            super::node::available(built, resource).into_iter().map(u128::from).sum()
        };
        let to_give = &node.allocation.as_ref().unwrap().allocatable.cpus;
        if !to_give.is_empty() {
            let online = |cpu: &u32| node.topology.numa_nodes.iter().any(|area| area.node.cpus.contains(*cpu));
            let left = to_give.iter().filter(|cpu| online(cpu) && !given.contains(cpu)).count();
            prop_assert_eq!(sum(&built, "cpu"), left as u128);
        }
        // Memory: what blocks took is theirs, and no zone lost more than all blocks together have.
        let blocks = |kind: &str| live().flat_map(|container| &container.memory).filter(|block| block.kind == kind)
            .map(|block| u128::from(block.bytes)).sum::<u128>();
        let mut kinds: BTreeMap<&str, u128> = BTreeMap::new();
        for account in built.why.iter().filter(|account| account.resource.contains("mem") || account.resource.contains("huge")) {
            *kinds.entry(&account.resource).or_default() += account.taken.iter().map(|share| u128::from(share.amount)).sum::<u128>();
        }
        for (kind, taken) in kinds {
            prop_assert!(taken <= blocks(kind), "{kind}");
            prop_assert_eq!(sum(&built, kind) + taken, sum(&free, kind));
        }
    }

    #[test]
    fn a_device_is_available_where_it_is_and_nobody_has_it(node in node()) {
        let built = node.built();
        let Some(allocation) = &node.allocation else { return Ok(()) };
        let ended = |pod: &&PodAllocation| node.pods.iter().flatten()
            .any(|known| known.phase.is_terminal() && known.namespace == pod.namespace && known.name == pod.name);
        let live: Vec<&ContainerAllocation> =
            allocation.pods.iter().filter(|pod| !ended(pod)).flat_map(|pod| &pod.containers).collect();
        let held = |resource: &str, id: &str| live.iter().any(|container| {
            container.devices.iter().any(|device| device.resource == resource && device.id == id)
                || container.claims.iter().any(|claim| claim.device == id)
        });
        let cpu_nodes = node.topology.numa_nodes.iter().filter(|area| !area.node.cpus.is_empty());
        for (number, area) in cpu_nodes.enumerate() {
            for resource in ["nvidia.com/gpu", "example.com/nic"] {
                let zone = format!("node-{number}");
                let Some(account) = built.why.iter().find(|one| one.zone == zone && one.resource == resource)
                else { continue };
                let all = allocation.allocatable.devices.iter().chain(live.iter().flat_map(|container| &container.devices));
                let here: BTreeSet<&str> = all
                    .filter(|device| device.resource == resource)
                    .filter(|device| device.numa_nodes.iter().flatten().any(|id| *id == i64::from(area.node.id.0)))
                    .map(|device| device.id.as_str())
                    .collect();
                let healthy: BTreeSet<&str> = allocation.allocatable.devices.iter()
                    .filter(|device| device.resource == resource).map(|device| device.id.as_str()).collect();
                let free = here.iter().filter(|id| healthy.contains(*id) && !held(resource, id)).count();
                prop_assert_eq!(account.available, free as u64);
                prop_assert_eq!(account.allocatable, here.intersection(&healthy).count() as u64);
                prop_assert_eq!(account.capacity, here.len() as u64);
            }
        }
    }
}
