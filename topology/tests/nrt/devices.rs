//! Devices of plugins and claims in each zone.

use gpulet_inventory::pod::PodPhase;
use gpulet_topology::nrt::{DeviceName, Hardware, NoteReason};

use super::node::{
    GPU, Node, account, api_pod, attribute, available, claim, device, figures, reasons, two_sockets, zone,
};
use super::scheduler;

const NIC: &str = "example.com/nic";

fn four_gpus() -> Node {
    let mut node = Node::with_kubelet(&two_sockets());
    for gpu in 0..4 {
        node.device(GPU, &format!("GPU-{gpu}"), Some(&[gpu / 2]));
    }
    node
}

fn give(node: &mut Node, pod: &str, devices: &[(&str, &str, Option<&[i64]>)]) {
    node.pod("ml", pod).devices =
        devices.iter().map(|(resource, id, numa)| device(resource, id, *numa)).collect();
}

#[test]
fn devices_count_where_they_are() {
    let mut node = four_gpus();
    give(&mut node, "train-0", &[(GPU, "GPU-2", Some(&[1])), (GPU, "GPU-3", Some(&[1]))]);
    let built = node.built();
    assert_eq!(figures(&built, "node-0", GPU), (2, 2, 2));
    assert_eq!(figures(&built, "node-1", GPU), (2, 2, 0));
    assert_eq!(account(&built, "node-1", GPU).taken[0].which, ["GPU-2", "GPU-3"]);
    assert_eq!(scheduler::fits(&built.body, &[("cpu", 1), (GPU, 1)]), Some(0));
    assert_eq!(scheduler::fits(&built.body, &[(GPU, 3)]), None);
}

#[test]
fn a_node_without_devices_of_a_resource_says_zero() {
    let mut node = four_gpus();
    node.device(NIC, "nic-0", Some(&[1]));
    assert_eq!(figures(&node.built(), "node-0", NIC), (0, 0, 0));
}

#[test]
fn resources_that_are_registered_later_appear() {
    let mut node = Node::with_kubelet(&two_sockets());
    assert!(node.built().why.iter().all(|account| account.resource != GPU));
    node.device(GPU, "GPU-0", Some(&[0]));
    assert_eq!(available(&node.built(), GPU), [1, 0]);
}

#[test]
fn a_device_on_two_nodes_counts_in_both_and_is_taken_from_both() {
    let mut node = four_gpus();
    node.device(GPU, "GPU-wide", Some(&[0, 1]));
    assert_eq!(available(&node.built(), GPU), [3, 3]);
    // The kubelet may name one node only where it lists what a Pod has.
    give(&mut node, "train-0", &[(GPU, "GPU-wide", Some(&[1]))]);
    let built = node.built();
    assert_eq!(figures(&built, "node-0", GPU), (3, 3, 2));
    assert_eq!(figures(&built, "node-1", GPU), (3, 3, 2));
}

#[test]
fn a_device_without_topology_is_not_on_numa_node_0() {
    let mut node = Node::with_kubelet(&two_sockets());
    node.device("example.com/fpga", "f0", None);
    node.device("example.com/fpga", "f1", None);
    node.device(NIC, "nic-0", Some(&[0]));
    give(&mut node, "a", &[("example.com/fpga", "f1", None)]);
    let built = node.built();
    // Listed nowhere, it fits anywhere; a zero in each zone would fit nowhere.
    assert!(built.why.iter().all(|account| account.resource != "example.com/fpga"));
    assert_eq!(scheduler::fits(&built.body, &[("example.com/fpga", 1)]), Some(0));
    assert_eq!(reasons(&built), [NoteReason::DeviceWithoutZone]);
    let unplaced = &built.unplaced[0];
    assert_eq!((unplaced.capacity, unplaced.allocatable, unplaced.available), (2, 2, 1));
    assert_eq!(figures(&built, "node-0", NIC), (1, 1, 1));
}

#[test]
fn of_a_resource_in_zones_a_device_without_topology_is_in_none() {
    let mut node = four_gpus();
    node.device(GPU, "GPU-odd", None);
    let built = node.built();
    assert_eq!(available(&built, GPU), [2, 2]);
    assert_eq!(built.unplaced[0].available, 1);
    assert_eq!(reasons(&built), [NoteReason::DeviceWithoutZone]);
}

#[test]
fn numa_nodes_that_are_not_there_are_told_and_never_counted() {
    for absurd in [-1, 2, 99, 1 << 40, i64::MIN, i64::MAX] {
        let mut node = four_gpus();
        node.device(GPU, "GPU-odd", Some(&[absurd]));
        node.device(NIC, "nic-odd", Some(&[absurd, 1]));
        give(&mut node, "a", &[(GPU, "GPU-odd", Some(&[absurd])), (NIC, "nic-odd", Some(&[absurd]))]);
        let built = node.built();
        assert_eq!(available(&built, GPU), [2, 2], "{absurd}");
        assert_eq!(figures(&built, "node-1", NIC), (1, 1, 0), "{absurd}");
        let expected =
            [NoteReason::DeviceWithoutZone, NoteReason::UnknownNumaNode, NoteReason::UnknownNumaNode];
        assert_eq!(reasons(&built), expected, "{absurd}");
        assert_eq!(built.unplaced[0].available, 0);
    }
}

#[test]
fn a_device_on_a_memory_only_node_is_in_no_zone() {
    let mut machine = two_sockets();
    machine.node(2, "", 64);
    let mut node = Node::with_kubelet(&machine);
    node.device(GPU, "GPU-0", Some(&[2]));
    assert_eq!(reasons(&node.built()), [NoteReason::DeviceWithoutZone, NoteReason::UnknownNumaNode]);
}

#[test]
fn a_held_device_that_is_gone_leaves_no_negative_figure() {
    let mut node = four_gpus();
    node.allocatable().devices.retain(|device| device.id != "GPU-1");
    give(&mut node, "train-0", &[(GPU, "GPU-0", Some(&[0])), (GPU, "GPU-1", Some(&[0]))]);
    let built = node.built();
    assert_eq!(figures(&built, "node-0", GPU), (2, 1, 0));
    assert_eq!(account(&built, "node-0", GPU).kept[0].which, ["GPU-1"]);
    assert_eq!(reasons(&built), [NoteReason::DeviceGone]);
    // All of them gone, as while a plugin restarts.
    node.allocatable().devices.clear();
    assert_eq!(figures(&node.built(), "node-0", GPU), (2, 0, 0));
}

#[test]
fn a_device_that_is_listed_twice_counts_once() {
    let mut node = four_gpus();
    node.device(GPU, "GPU-0", Some(&[0]));
    give(&mut node, "a", &[(GPU, "GPU-0", Some(&[0])), (GPU, "GPU-0", Some(&[0]))]);
    give(&mut node, "b", &[(GPU, "GPU-0", Some(&[0]))]);
    assert_eq!(figures(&node.built(), "node-0", GPU), (2, 2, 1));
}

#[test]
fn one_id_of_two_resources_is_two_devices() {
    let mut node = four_gpus();
    node.device(NIC, "GPU-0", Some(&[0]));
    give(&mut node, "a", &[(NIC, "GPU-0", Some(&[0]))]);
    assert_eq!((available(&node.built(), GPU), available(&node.built(), NIC)), (vec![2, 2], vec![0, 0]));
}

#[test]
fn a_resource_that_calls_itself_memory_is_left_out() {
    let mut node = four_gpus();
    for name in ["memory", "cpu", "hugepages-2Mi", "", "/", "a/", "/b", "a/\u{7}b"] {
        node.device(name, "x", Some(&[0]));
    }
    let built = node.built();
    assert_eq!(built.notes.len(), 8);
    assert!(reasons(&built).iter().all(|reason| *reason == NoteReason::OddResourceName));
    assert_eq!(figures(&built, "node-0", "memory").0, 64 << 30);
}

/// `GPU-1` and its replicas and `gpu-1` of DRA are GPU 1; `MIG-1-a` and `mig-1-a` are a part of it.
fn hardware(name: DeviceName<'_>) -> Option<Hardware> {
    let name = match name {
        DeviceName::Plugin { id, .. } => id.to_lowercase(),
        DeviceName::Claim(claim) => claim.device.clone(),
    };
    let name = name.split("::").next().unwrap();
    let mut words = name.split('-');
    let kind = words.next()?;
    let number: u8 = words.next()?.parse().ok()?;
    let pci = gpulet_inventory::pci::PciAddress { domain: 0, bus: 0x10 + number, device: 0, function: 0 };
    let part = (kind == "mig").then(|| words.next()).flatten().map(str::to_owned);
    ["gpu", "mig"].contains(&kind).then_some(Hardware { pci, part })
}

#[test]
fn a_claim_takes_the_plugins_device_that_is_the_same_hardware() {
    let mut node = four_gpus();
    node.hardware_of = hardware;
    for replica in 0..2 {
        node.device("nvidia.com/gpu.shared", &format!("GPU-1::{replica}"), Some(&[0]));
    }
    for part in ["a", "b"] {
        node.device("nvidia.com/mig-1g.10gb", &format!("MIG-1-{part}"), Some(&[0]));
        node.device("nvidia.com/mig-1g.10gb", &format!("MIG-2-{part}"), Some(&[1]));
    }
    node.pod("ml", "whole").claims = vec![claim("one", "gpu-1")];
    node.pod("ml", "part").claims = vec![claim("slice", "mig-2-a"), claim("disk", "nvme-0")];
    let built = node.built();
    assert_eq!(available(&built, GPU), [1, 1]);
    assert_eq!(available(&built, "nvidia.com/gpu.shared"), [0, 0]);
    assert_eq!(available(&built, "nvidia.com/mig-1g.10gb"), [0, 1]);
    let taken = &account(&built, "node-0", GPU).taken[0];
    assert_eq!(
        (taken.whose.as_str(), taken.which[0].as_str()),
        ("ml/whole, container main, claim ml/one", "GPU-1")
    );
    // A claim of a Pod that has ended takes nothing.
    node.pods = Some(vec![api_pod("ml", "whole", PodPhase::Succeeded)]);
    assert_eq!(available(&node.built(), GPU), [2, 1]);
}

#[test]
fn a_claim_takes_no_device_twice() {
    let mut node = four_gpus();
    node.hardware_of = hardware;
    give(&mut node, "plugin", &[(GPU, "GPU-1", Some(&[0]))]);
    node.pod("ml", "claim").claims = vec![claim("one", "gpu-1"), claim("other", "gpu-1")];
    let built = node.built();
    assert_eq!(figures(&built, "node-0", GPU), (2, 2, 1));
    assert_eq!(account(&built, "node-0", GPU).taken[0].whose, "ml/plugin, container main");
}

#[test]
fn a_gpus_zone_names_its_claims() {
    let mut node = four_gpus();
    let pci = node.topology.gpus[1].place.pci;
    let name = format!("gpu-{pci}");
    node.hardware_of = |name| match name {
        DeviceName::Claim(claim) => Some(Hardware { pci: claim.device.parse().unwrap(), part: None }),
        DeviceName::Plugin { .. } => None,
    };
    node.pod("ml", "b").claims = vec![claim("two", &pci.to_string()), claim("one", &pci.to_string())];
    let built = node.built();
    assert_eq!(attribute(&zone(&built, &name).attributes, "gpulet.dev/claims"), Some("ml/one,ml/two"));
    assert_eq!(available(&built, GPU), [2, 2]);
}
