//! CPUs of each zone.

use gpulet_inventory::pod::PodPhase;
use gpulet_topology::nrt::NoteReason;

use super::node::{Node, account, api_pod, available, figures, reasons, two_sockets};
use super::scheduler;

fn cpus(list: &str) -> gpulet_inventory::numa::CpuSet {
    list.parse().unwrap()
}

#[test]
fn what_the_cpu_manager_can_give_is_allocatable_and_what_it_gave_is_taken() {
    let mut node = Node::with_kubelet(&two_sockets());
    node.settings().reserved_cpus = Some(cpus("0,8"));
    node.allocatable().cpus = cpus("1-7,9-15");
    node.pod("ml", "train-0").cpus = cpus("1,9");
    node.pod("ml", "train-1").cpus = cpus("2,4-5");
    node.pod("web", "shared").cpus = cpus("");
    let built = node.built();
    assert_eq!(figures(&built, "node-0", "cpu"), (8, 6, 3));
    assert_eq!(figures(&built, "node-1", "cpu"), (8, 8, 6));
    let of_node_0 = account(&built, "node-0", "cpu");
    assert_eq!(of_node_0.kept[0].which, ["CPUs 0,8"]);
    let taken: Vec<_> = of_node_0.taken.iter().map(|share| (share.whose.as_str(), share.amount)).collect();
    assert_eq!(taken, [("ml/train-0, container main", 2), ("ml/train-1, container main", 1)]);
    assert_eq!(scheduler::fits(&built.body, &[("cpu", 6)]), Some(1));
    assert_eq!(scheduler::fits(&built.body, &[("cpu", 7)]), None);
}

#[test]
fn without_a_cpu_manager_all_online_cpus_but_the_reserved_count() {
    let mut node = Node::with_kubelet(&two_sockets());
    node.settings().cpu_manager_policy = "none".to_owned();
    assert_eq!(available(&node.built(), "cpu"), [8, 8]);
    node.settings().reserved_cpus = Some(cpus("3-4"));
    assert_eq!(available(&node.built(), "cpu"), [7, 7]);
    // A quantity: whole CPUs, from the first node on.
    node.settings().reserved_cpus = None;
    node.settings().reserved_milli_cpus = 1500;
    assert_eq!(available(&node.built(), "cpu"), [6, 8]);
    node.settings().reserved_milli_cpus = 9001;
    assert_eq!(available(&node.built(), "cpu"), [0, 6]);
    node.settings().reserved_milli_cpus = u64::MAX;
    assert_eq!(available(&node.built(), "cpu"), [0, 0]);
}

#[test]
fn shared_cpus_are_nobodys() {
    let mut node = Node::with_kubelet(&two_sockets());
    node.allocatable().cpus = cpus("0-15");
    node.pod("web", "burstable");
    let built = node.built();
    assert_eq!(available(&built, "cpu"), [8, 8]);
    assert!(account(&built, "node-0", "cpu").taken.is_empty());
}

#[test]
fn a_cpu_that_two_containers_name_is_taken_once() {
    let mut node = Node::with_kubelet(&two_sockets());
    node.allocatable().cpus = cpus("0-15");
    node.pod("ml", "a").cpus = cpus("0-1");
    node.pod("ml", "b").cpus = cpus("1-2");
    assert_eq!(figures(&node.built(), "node-0", "cpu"), (8, 8, 5));
}

#[test]
fn offline_cpus_are_not_there_even_if_the_kubelet_counts_them() {
    let mut machine = two_sockets();
    machine.host.numa_nodes[1].cpus = cpus("4-7,12-14");
    let mut node = Node::with_kubelet(&machine);
    node.allocatable().cpus = cpus("0-15");
    node.pod("ml", "a").cpus = cpus("14-15");
    let built = node.built();
    assert_eq!(figures(&built, "node-1", "cpu"), (7, 7, 6));
    assert_eq!(reasons(&built), [NoteReason::CpuOffline]);
    assert!(built.notes[0].message.contains("CPUs 15"), "{}", built.notes[0].message);
}

#[test]
fn a_zone_whose_cpus_are_all_reserved_says_zero() {
    let mut node = Node::with_kubelet(&two_sockets());
    node.allocatable().cpus = cpus("4-7,12-15");
    assert_eq!(figures(&node.built(), "node-0", "cpu"), (8, 0, 0));
}

#[test]
fn pods_that_have_ended_take_nothing() {
    let mut node = Node::with_kubelet(&two_sockets());
    node.allocatable().cpus = cpus("0-15");
    node.device("nvidia.com/gpu", "GPU-0", Some(&[0]));
    let job = node.pod("ml", "job");
    job.cpus = cpus("0-3");
    job.devices.push(super::node::device("nvidia.com/gpu", "GPU-0", Some(&[0])));
    assert_eq!(
        (available(&node.built(), "cpu"), available(&node.built(), "nvidia.com/gpu")),
        (vec![4, 8], vec![0, 0])
    );
    for (phase, free) in [
        (PodPhase::Pending, 0),
        (PodPhase::Running, 0),
        (PodPhase::Unknown, 0),
        (PodPhase::Succeeded, 1),
        (PodPhase::Failed, 1),
    ] {
        node.pods = Some(vec![api_pod("ml", "job", phase), api_pod("other", "job", PodPhase::Failed)]);
        assert_eq!(available(&node.built(), "nvidia.com/gpu")[0], free, "{phase:?}");
    }
    // Another Pod's end is not this one's.
    node.pods = Some(vec![api_pod("other", "job", PodPhase::Failed)]);
    assert_eq!(available(&node.built(), "cpu"), [4, 8]);
}
