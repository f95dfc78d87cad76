//! Memory and huge pages of each zone.

use std::collections::BTreeMap;

use gpulet_topology::nrt::NoteReason;

use super::node::{GIB, Node, account, available, block, distances, figures, pages, reasons, two_sockets};
use super::scheduler;

const MI2: &str = "hugepages-2Mi";
const GI1: &str = "hugepages-1Gi";

/// A kubelet whose memory manager gives 60 GiB and 64 large pages on each node.
fn managed() -> Node {
    let mut node = Node::with_kubelet(&two_sockets());
    node.settings().memory_manager_policy = "Static".to_owned();
    node.huge_pages = vec![pages(0, 2 << 20, 512), pages(1, 2 << 20, 512)];
    node.settings().reserved_memory = [(0, BTreeMap::from([("memory".to_owned(), 3 * GIB)]))].into();
    node.allocatable().memory = vec![
        block("memory", 60 * GIB, &[0]),
        block("memory", 60 * GIB, &[1]),
        block(MI2, GIB, &[0]),
        block(MI2, GIB, &[1]),
    ];
    node
}

#[test]
fn memory_is_told_where_no_manager_keeps_it() {
    let mut node = Node::with_kubelet(&two_sockets());
    let built = node.built();
    assert_eq!(figures(&built, "node-1", "memory"), (64 * GIB, 64 * GIB, 64 * GIB));
    assert_eq!(scheduler::fits(&built.body, &[("cpu", 1), ("memory", 64 * GIB)]), Some(0));
    // Huge pages are taken off the memory that the kernel counts them in.
    node.huge_pages = vec![pages(0, 1 << 30, 4), pages(1, 1 << 30, 0)];
    let built = node.built();
    assert_eq!(figures(&built, "node-0", "memory"), (64 * GIB, 60 * GIB, 60 * GIB));
    assert_eq!(figures(&built, "node-0", GI1), (4 * GIB, 4 * GIB, 4 * GIB));
    assert_eq!(figures(&built, "node-1", GI1), (0, 0, 0));
}

#[test]
fn what_is_reserved_by_node_or_for_the_machine_is_kept() {
    let mut node = Node::with_kubelet(&two_sockets());
    node.huge_pages = vec![pages(0, 1 << 30, 32), pages(1, 1 << 30, 0)];
    node.settings().reserved_memory_bytes = 6 * GIB;
    // By the memory that is left: 32 and 64 GiB.
    assert_eq!(available(&node.built(), "memory"), [30 * GIB, 60 * GIB]);
    node.settings().reserved_memory_bytes = 6 * GIB + 1;
    assert_eq!(available(&node.built(), "memory").iter().sum::<u64>(), 90 * GIB - 1);
    let on_node_1 = BTreeMap::from([("memory".to_owned(), GIB)]);
    let on_node_0 = BTreeMap::from([(GI1.to_owned(), 2 * GIB)]);
    node.settings().reserved_memory = BTreeMap::from([(0, on_node_0), (1, on_node_1)]);
    let built = node.built();
    assert_eq!(available(&built, "memory"), [32 * GIB, 63 * GIB]);
    assert_eq!(figures(&built, "node-0", GI1), (32 * GIB, 30 * GIB, 30 * GIB));
    assert_eq!(account(&built, "node-1", "memory").kept[0].whose, "reservedMemory");
}

#[test]
fn more_cannot_be_reserved_than_there_is() {
    let mut node = Node::with_kubelet(&two_sockets());
    node.settings().reserved_memory_bytes = 200 * GIB;
    let built = node.built();
    assert_eq!(available(&built, "memory"), [0, 0]);
    assert_eq!(reasons(&built), [NoteReason::ReservedTooMuch]);
    node.settings().reserved_memory = BTreeMap::from([(7, BTreeMap::from([("memory".to_owned(), GIB)]))]);
    let built = node.built();
    assert_eq!(available(&built, "memory"), [64 * GIB, 64 * GIB]);
    assert!(built.notes[0].message.contains("NUMA node 7"), "{}", built.notes[0].message);
}

#[test]
fn the_memory_managers_word_counts() {
    let mut node = managed();
    node.pod("ml", "train-0").memory = vec![block("memory", 20 * GIB, &[0]), block(MI2, 512 << 20, &[0])];
    node.pod("ml", "train-1").memory = vec![block("memory", 61 * GIB, &[1])];
    let built = node.built();
    assert_eq!(figures(&built, "node-0", "memory"), (64 * GIB, 60 * GIB, 40 * GIB));
    assert_eq!(figures(&built, "node-0", MI2), (GIB, GIB, 512 << 20));
    assert_eq!(figures(&built, "node-1", "memory"), (64 * GIB, 60 * GIB, 0));
    assert_eq!(reasons(&built), [NoteReason::MemoryOvercommitted]);
    let kept: Vec<_> = account(&built, "node-0", "memory")
        .kept
        .iter()
        .map(|share| (share.whose.as_str(), share.amount))
        .collect();
    assert_eq!(kept, [("huge pages of the NUMA node", GIB), ("reservedMemory", 3 * GIB)]);
    let kept = &account(&built, "node-1", "memory").kept;
    assert_eq!((kept[1].whose.as_str(), kept[1].amount), ("not given by the kubelet", 3 * GIB));
}

#[test]
fn a_block_on_two_nodes_is_counted_once_and_in_ascending_order() {
    let mut node = managed();
    node.pod("ml", "wide").memory = vec![block("memory", 70 * GIB, &[1, 0])];
    let built = node.built();
    assert_eq!(available(&built, "memory"), [0, 50 * GIB]);
    assert_eq!(account(&built, "node-1", "memory").taken[0].amount, 10 * GIB);
    assert!(account(&built, "node-1", "memory").taken[0].which[0].contains("NUMA nodes"));
    // What lies on one node goes before what can lie on either.
    node.pod("ml", "narrow").memory = vec![block("memory", 10 * GIB, &[0])];
    assert_eq!(available(&node.built(), "memory"), [0, 40 * GIB]);
    assert!(node.built().notes.is_empty());
    node.pod("ml", "wider").memory = vec![block("memory", 41 * GIB, &[0, 1])];
    let built = node.built();
    assert_eq!(available(&built, "memory"), [0, 0]);
    assert_eq!(reasons(&built), [NoteReason::MemoryOvercommitted]);
}

#[test]
fn a_block_that_lies_partly_on_a_memory_only_node_takes_its_part_there() {
    let mut machine = two_sockets();
    machine.node(2, "", 16);
    distances(&mut machine, 20);
    let mut node = Node::with_kubelet(&machine);
    node.allocatable().memory = vec![
        block("memory", 60 * GIB, &[0]),
        block("memory", 60 * GIB, &[1]),
        block("memory", 16 * GIB, &[2]),
    ];
    node.pod("ml", "a").memory = vec![block("memory", 70 * GIB, &[0, 2])];
    node.pod("ml", "b").memory = vec![block("memory", 10 * GIB, &[2])];
    let built = node.built();
    assert_eq!(available(&built, "memory"), [0, 60 * GIB]);
    // 60 on node 0, and of 10 more only the 6 that are left on node 2.
    assert_eq!(reasons(&built), [NoteReason::MemoryOvercommitted]);
    assert!(built.notes[0].message.contains(&(4 * GIB).to_string()), "{}", built.notes[0].message);
}

#[test]
fn allocatable_that_lies_on_two_nodes_is_spread_without_exceeding_one() {
    let mut node = Node::with_kubelet(&two_sockets());
    node.allocatable().memory = vec![block("memory", 100 * GIB, &[0, 1])];
    let built = node.built();
    assert_eq!(figures(&built, "node-0", "memory"), (64 * GIB, 64 * GIB, 64 * GIB));
    assert_eq!(figures(&built, "node-1", "memory"), (64 * GIB, 36 * GIB, 36 * GIB));
    node.allocatable().memory = vec![block("memory", 130 * GIB, &[0, 1])];
    assert_eq!(reasons(&node.built()), [NoteReason::UnknownMemory]);
}

#[test]
fn the_kubelet_may_know_of_memory_that_the_kernel_does_not() {
    let mut node = Node::with_kubelet(&two_sockets());
    node.allocatable().memory = vec![block("memory", 100 * GIB, &[0]), block(GI1, 2 * GIB, &[1])];
    let built = node.built();
    assert_eq!(figures(&built, "node-0", "memory"), (100 * GIB, 100 * GIB, 100 * GIB));
    assert_eq!(figures(&built, "node-1", "memory"), (64 * GIB, 0, 0));
    assert_eq!(figures(&built, "node-0", GI1), (0, 0, 0));
    assert_eq!(figures(&built, "node-1", GI1), (2 * GIB, 2 * GIB, 2 * GIB));
}

#[test]
fn huge_pages_are_told_in_bytes_for_each_size() {
    for (page_bytes, total, name) in [
        (64 << 10, 100, "hugepages-64Ki"),
        (2 << 20, 512, MI2),
        (32 << 20, 10, "hugepages-32Mi"),
        (512 << 20, 3, "hugepages-512Mi"),
        (1 << 30, 7, GI1),
        (16 << 30, 1, "hugepages-16Gi"),
    ] {
        let mut node = Node::with_kubelet(&two_sockets());
        node.huge_pages = vec![pages(1, page_bytes, total)];
        node.allocatable().memory = vec![block("memory", GIB, &[1]), block(name, total * page_bytes, &[1])];
        node.pod("ml", "a").memory = vec![block(name, page_bytes, &[1])];
        let built = node.built();
        let bytes = total * page_bytes;
        assert_eq!(figures(&built, "node-1", name), (bytes, bytes, bytes - page_bytes), "{name}");
        assert_eq!(figures(&built, "node-0", name), (0, 0, 0), "{name}");
    }
}

#[test]
fn without_huge_pages_none_are_told() {
    let built = Node::with_kubelet(&two_sockets()).built();
    let names: Vec<_> = built.why.iter().map(|account| account.resource.as_str()).collect();
    assert_eq!(names, ["cpu", "memory", "cpu", "memory"]);
}

#[test]
fn memory_of_no_known_kind_or_place_is_told_and_not_counted() {
    let mut node = managed();
    node.pod("ml", "a").memory = vec![
        block("memory", GIB, &[-1]),
        block("memory", GIB, &[1 << 40]),
        block("memory", GIB, &[]),
        block("hugepages-", GIB, &[0]),
        block("cpu", GIB, &[0]),
    ];
    let built = node.built();
    assert_eq!(available(&built, "memory"), [60 * GIB, 60 * GIB]);
    assert_eq!(reasons(&built), [NoteReason::UnknownMemory; 3]);
}
