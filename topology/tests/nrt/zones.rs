//! Which zones there are, on machines that others stumble over.

use gpulet_topology::nrt::NoteReason;
use gpulet_topology::nrt::object::Cost;

use super::node::{
    Node, account, attribute, available, distances, figures, node_zones, reasons, two_sockets, zone,
};
use super::scheduler;
use crate::support::machine::Machine;
use crate::support::machines;

fn costs(costs: &[Cost]) -> Vec<(&str, i64)> {
    costs.iter().map(|cost| (cost.name.as_str(), cost.value)).collect()
}

fn names(node: &Node) -> Vec<String> {
    node_zones(&node.built().body).map(|zone| zone.name.clone()).collect()
}

#[test]
fn zones_are_dense_where_the_kernels_numbers_have_gaps() {
    let mut machine = Machine::new("Tesla V100");
    for (at, id) in [0, 1, 8, 33].into_iter().enumerate() {
        machine.node(id, &format!("{}-{}", 4 * at, 4 * at + 3), 32);
    }
    // Columns follow the online nodes: the third is node 8.
    for (at, node) in machine.host.numa_nodes.iter_mut().enumerate() {
        node.distances = (0..4u32).map(|other| if at == other as usize { 10 } else { 20 + other }).collect();
    }
    let slot = machine.slot(Some(8));
    machine.gpu(&slot);
    let mut node = Node::with_kubelet(&machine);
    node.device("nvidia.com/gpu", "GPU-a", Some(&[8]));
    node.device("example.com/nic", "nic", Some(&[33]));
    let built = node.built();
    assert_eq!(names(&node), ["node-0", "node-1", "node-2", "node-3"]);
    let ids = node_zones(&built.body).map(|zone| attribute(&zone.attributes, "gpulet.dev/numa-id").unwrap());
    assert_eq!(ids.collect::<Vec<_>>(), ["0", "1", "8", "33"]);
    assert_eq!(
        costs(&zone(&built, "node-2").costs),
        [("node-0", 20), ("node-1", 21), ("node-2", 10), ("node-3", 23)]
    );
    assert_eq!(available(&built, "nvidia.com/gpu"), [0, 0, 1, 0]);
    assert_eq!(available(&built, "example.com/nic"), [0, 0, 0, 1]);
    assert_eq!(attribute(&zone(&built, "node-2").attributes, "gpulet.dev/gpus"), Some("0"));
    assert!(built.notes.is_empty(), "{:?}", built.notes);
}

#[test]
fn memory_only_nodes_are_zones_of_another_type() {
    let mut machine = Machine::new("NVIDIA L40S");
    machine.node(0, "0-3", 32);
    machine.node(1, "", 256);
    machine.node(2, "4-7", 32);
    let rows = [[10, 14, 21], [14, 10, 24], [21, 24, 10]];
    for (node, row) in machine.host.numa_nodes.iter_mut().zip(rows) {
        node.distances = row.to_vec();
    }
    let built = Node::with_kubelet(&machine).built();
    let node_1 = zone(&built, "node-1");
    assert_eq!(attribute(&node_1.attributes, "gpulet.dev/numa-id"), Some("2"));
    assert_eq!(costs(&node_1.costs), [("node-0", 21), ("node-1", 10)]);
    let memory = zone(&built, "memory-1");
    assert_eq!((memory.kind.as_str(), memory.parent.as_deref()), ("MemoryNode", Some("node-0")));
    assert_eq!(costs(&memory.costs), [("node-0", 14), ("node-1", 24)]);
    assert_eq!(attribute(&memory.attributes, "gpulet.dev/memory"), Some((256u64 << 30).to_string().as_str()));
    assert!(memory.resources.is_empty());
    assert_eq!(figures(&built, "node-1", "memory").0, 32 << 30);
}

#[test]
fn a_node_with_cpus_and_no_memory_is_a_zone_with_none() {
    let mut machine = two_sockets();
    machine.node(2, "16-17", 0);
    machine.host.numa_nodes[2].memory_bytes = None;
    distances(&mut machine, 20);
    let built = Node::with_kubelet(&machine).built();
    assert_eq!(available(&built, "cpu"), [8, 8, 2]);
    assert_eq!(available(&built, "memory"), [64 << 30, 64 << 30, 0]);
}

#[test]
fn a_machine_without_cpu_nodes_has_no_place_and_says_so() {
    let mut machine = Machine::new("NVIDIA L40S");
    machine.node(0, "", 64);
    let root = machine.root(None);
    machine.gpu(&root);
    for node in [Node::bare(&machine), Node::with_kubelet(&machine), Node::bare(&Machine::new("none"))] {
        let built = node.built();
        assert_eq!(node_zones(&built.body).count(), 0);
        assert!(reasons(&built).contains(&NoteReason::NoCpuNodes));
    }
}

#[test]
fn gb200_has_two_zones_for_its_34_numa_nodes() {
    let mut machine = machines::gb200_tray();
    distances(&mut machine, 80);
    let mut node = Node::with_kubelet(&machine);
    for gpu in 0..4 {
        node.device("nvidia.com/gpu", &format!("GPU-{gpu}"), Some(&[gpu / 2]));
    }
    let built = node.built();
    assert_eq!(names(&node), ["node-0", "node-1"]);
    assert_eq!(costs(&zone(&built, "node-1").costs), [("node-0", 80), ("node-1", 10)]);
    assert_eq!(available(&built, "nvidia.com/gpu"), [2, 2]);
    assert_eq!(available(&built, "memory"), [478 << 30, 478 << 30]);
    let memory: Vec<_> = built.body.zones.iter().filter(|zone| zone.kind == "MemoryNode").collect();
    assert_eq!(
        memory.iter().map(|zone| zone.name.as_str()).collect::<Vec<_>>(),
        ["memory-2", "memory-10", "memory-18", "memory-26"]
    );
    let gpu = &node.topology.gpus[1];
    assert_eq!(memory[1].parent, Some(format!("gpu-{}", gpu.place.pci)));
    assert_eq!(attribute(&memory[1].attributes, "gpulet.dev/spare-numa-ids"), Some("11-17"));
    assert_eq!(reasons(&built), [NoteReason::ManyNumaNodes]);
    node.settings().topology_manager_policy = "none".to_owned();
    assert!(node.built().notes.is_empty());
}

#[test]
fn the_65th_cpu_node_is_left_out() {
    let mut machine = Machine::new("NVIDIA L40S");
    for node in 0..65 {
        machine.node(node, &format!("{}-{}", 2 * node, 2 * node + 1), 8);
    }
    distances(&mut machine, 20);
    let mut node = Node::with_kubelet(&machine);
    node.device("nvidia.com/gpu", "GPU-0", Some(&[63]));
    node.device("nvidia.com/gpu", "GPU-1", Some(&[64]));
    let built = node.built();
    assert_eq!(node_zones(&built.body).count(), 64);
    assert_eq!(zone(&built, "node-63").costs.len(), 64);
    assert_eq!(figures(&built, "node-63", "nvidia.com/gpu"), (1, 1, 1));
    let expected = [
        NoteReason::TooManyNodes,
        NoteReason::ManyNumaNodes,
        NoteReason::DeviceWithoutZone,
        NoteReason::UnknownNumaNode,
    ];
    assert_eq!(reasons(&built), expected);
    let note = &built.notes[0];
    assert!(note.message.contains("NUMA node 64"), "{}", note.message);
    assert_eq!(built.unplaced[0].available, 1);
}

#[test]
fn costs_are_told_for_all_zones_or_for_none() {
    let mut machine = two_sockets();
    machine.host.numa_nodes[1].distances.pop();
    let built = Node::with_kubelet(&machine).built();
    assert!(node_zones(&built.body).all(|zone| zone.costs.is_empty()));
}

#[test]
fn without_a_kubelet_gpus_count_as_the_driver_shows_them() {
    let mut machine = two_sockets();
    machine.gpus[1].down = Some("Lost");
    let mut node = Node::bare(&machine);
    node.gpus_in_use.insert(machine.gpus[2].pci);
    let built = node.built();
    assert_eq!(figures(&built, "node-0", "nvidia.com/gpu"), (2, 1, 1));
    assert_eq!(figures(&built, "node-1", "nvidia.com/gpu"), (2, 2, 1));
    assert_eq!(figures(&built, "node-0", "cpu"), (8, 8, 8));
    assert_eq!(figures(&built, "node-1", "memory"), (64 << 30, 64 << 30, 64 << 30));
    assert!(account(&built, "node-0", "nvidia.com/gpu").kept[0].whose.contains("Lost"));
    assert_eq!(built.body.attributes, []);
    assert_eq!(
        scheduler::fits(&built.body, &[("cpu", 8), ("nvidia.com/gpu", 1), ("memory", 64 << 30)]),
        Some(0)
    );
}

#[test]
fn without_a_kubelet_a_gpu_that_another_driver_has_is_kept() {
    let mut machine = two_sockets();
    let pci = machine.gpus.pop().unwrap().pci;
    machine.pci(pci).driver = Some("vfio-pci".to_owned());
    let built = Node::bare(&machine).built();
    assert_eq!(figures(&built, "node-1", "nvidia.com/gpu"), (2, 1, 1));
    assert!(account(&built, "node-1", "nvidia.com/gpu").kept[0].whose.contains("vfio-pci"));
}

#[test]
fn a_gpu_that_nobody_gives_a_numa_node_is_in_no_zone() {
    let mut machine = two_sockets();
    let root = machine.root(None);
    machine.gpu(&root);
    let built = Node::bare(&machine).built();
    assert_eq!(available(&built, "nvidia.com/gpu"), [2, 2]);
    assert_eq!(reasons(&built), [NoteReason::DeviceWithoutZone]);
    assert_eq!(built.unplaced.len(), 1);
    assert_eq!((built.unplaced[0].capacity, built.unplaced[0].available), (1, 1));
    // On a machine with one node it has that one, as its source says.
    let built = Node::bare(&machines::consumer_2gpu()).built();
    assert_eq!(available(&built, "nvidia.com/gpu"), [2]);
    let gpu = built.body.zones.iter().find(|zone| zone.kind == "GPU").unwrap();
    assert_eq!(attribute(&gpu.attributes, "gpulet.dev/numa-source"), Some("single-node"));
}
