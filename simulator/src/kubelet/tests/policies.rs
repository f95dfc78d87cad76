//! What each policy decides, by name. That it is what a kubelet decides is shown by its records
//! (`tests/kubelet_replay.rs`); this is to read.

use super::*;

/// Two sockets of one NUMA node each: 4 cores without hyper-threads and 8 GiB on each, two GPUs on each.
fn two_nodes() -> Machine {
    let numa = |id: u32| NumaNode {
        id,
        cores: (0..4).map(|core| Core { socket: id, threads: vec![id * 4 + core] }).collect(),
        memory_bytes: 8 << 30,
        huge_pages: vec![HugePages { page_kib: 2048, count: 512 }],
        distances: if id == 0 { vec![10, 21] } else { vec![21, 10] },
    };
    Machine { numa: vec![numa(0), numa(1)] }
}

fn two_each() -> Vec<Device> {
    let gpu = |n: i64| Device { id: format!("gpu-{n}"), numa: Some(vec![n / 2]), healthy: true };
    (0..4).map(gpu).collect()
}

fn allocator(change: impl FnOnce(&mut Settings)) -> Allocator {
    let machine = two_nodes();
    let mut settings = Settings::strict(&machine);
    change(&mut settings);
    let mut allocator = Allocator::new(&machine, &settings).unwrap();
    allocator.update_devices(GPU, &two_each());
    allocator
}

fn with(policy: TopologyPolicy) -> Allocator {
    allocator(|settings| settings.topology_manager_policy = policy)
}

/// CPUs, memory nodes and devices of a Pod's first container.
fn lies(allocator: &Allocator, name: &str) -> (String, Vec<i64>, Vec<String>) {
    let pods = allocator.allocation().pods;
    let container = pods.iter().find(|pod| pod.name == name).unwrap().containers[0].clone();
    let memory = container.memory.iter().flat_map(|block| block.numa_nodes.clone()).collect();
    (container.cpus.to_string(), memory, container.devices.into_iter().map(|device| device.id).collect())
}

fn gpus(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

/// The kubelet of a real node of this shape, with CPU 0 reserved, gave its first two Pods the same.
#[test]
fn two_pods_lie_where_those_of_a_real_node_lay() {
    let mut allocator = with(TopologyPolicy::SingleNumaNode);
    let first =
        Pod::new("default", "pod-a").container(Container::new("c").guaranteed(2, 64 << 20).devices(GPU, 1));
    let second = Pod { name: "pod-b".to_owned(), ..first.clone() };
    allocator.admit(first).unwrap();
    allocator.admit_with(second, &|_| gpus(&["gpu-2"])).unwrap();
    assert_eq!(lies(&allocator, "pod-a"), ("1-2".to_owned(), vec![0], gpus(&["gpu-0"])));
    // One CPU is left beside the first GPU, too few.
    assert_eq!(lies(&allocator, "pod-b"), ("4-5".to_owned(), vec![1], gpus(&["gpu-2"])));
}

#[test]
fn single_numa_node_refuses_what_lies_on_two() {
    let mut allocator = with(TopologyPolicy::SingleNumaNode);
    let refused = allocator.admit(pod("wide", 5, 1)).unwrap_err();
    assert_eq!(refused.reason, "TopologyAffinityError");
    assert_eq!(refused.message, "Resources cannot be allocated with Topology locality");
    assert_eq!(allocator.admit(pod("many", 1, 3)).unwrap_err().reason, "TopologyAffinityError");
    allocator.admit(pod("a", 3, 1)).unwrap();
    allocator.admit(pod("b", 3, 1)).unwrap();
    // CPUs are free on node 1 alone, GPUs on both.
    let last = pod("c", 1, 2);
    assert_eq!(allocator.admit(last.clone()).unwrap_err().reason, "TopologyAffinityError");
    allocator.remove("default", "b");
    allocator.admit(last).unwrap();
    assert_eq!(lies(&allocator, "c"), ("4".to_owned(), vec![1], gpus(&["gpu-2", "gpu-3"])));
}

#[test]
fn restricted_admits_two_nodes_only_where_one_could_never_do() {
    let mut allocator = with(TopologyPolicy::Restricted);
    let wide = |memory| Container::new("c").guaranteed(5, memory).devices(GPU, 3);
    let wide = |memory| Pod::new("default", "wide").container(wide(memory));
    // CPUs and GPUs need two nodes, memory one: they do not agree.
    assert_eq!(allocator.admit(wide(1 << 30)).unwrap_err().reason, "TopologyAffinityError");
    allocator.admit(wide(9 << 30)).unwrap();
    let (cpus, memory, devices) = lies(&allocator, "wide");
    assert_eq!((cpus.as_str(), memory, devices.len()), ("1,4-7", vec![0, 1], 3));
    allocator.remove("default", "wide");
    allocator.admit(pod("a", 3, 1)).unwrap();
    allocator.admit(pod("b", 3, 1)).unwrap();
    assert_eq!(allocator.admit(pod("c", 1, 2)).unwrap_err().reason, "TopologyAffinityError");
}

#[test]
fn best_effort_admits_what_lies_badly() {
    let mut allocator = with(TopologyPolicy::BestEffort);
    allocator.admit(pod("a", 3, 1)).unwrap();
    allocator.admit(pod("b", 3, 1)).unwrap();
    allocator.admit(pod("c", 1, 2)).unwrap();
    assert_eq!(lies(&allocator, "c").2.len(), 2);
    assert_eq!(allocator.admit(pod("d", 1, 0)).unwrap_err().reason, "UnexpectedAdmissionError");
}

#[test]
fn without_a_policy_cpus_are_exclusive_all_the_same() {
    let mut allocator = with(TopologyPolicy::None);
    allocator.admit(pod("a", 2, 1)).unwrap();
    assert_eq!(lies(&allocator, "a").0, "1-2");
}

#[test]
fn the_scope_decides_whether_containers_may_lie_apart() {
    let container = |name: &str| Container::new(name).guaranteed(3, 1 << 30).devices(GPU, 1);
    let both = Pod::new("default", "both").container(container("c")).container(container("d"));
    let mut apart = with(TopologyPolicy::SingleNumaNode);
    apart.admit(both.clone()).unwrap();
    assert_eq!(lies(&apart, "both").0, "1-3");
    let mut together = allocator(|settings| settings.topology_manager_scope = TopologyScope::Pod);
    assert_eq!(together.admit(both).unwrap_err().reason, "TopologyAffinityError");
}

#[test]
fn what_is_not_guaranteed_or_not_whole_has_no_cpus_of_its_own() {
    let mut allocator = with(TopologyPolicy::SingleNumaNode);
    let part =
        Container::new("c").with("cpu", Quantity::of_milli(1500)).with("memory", Quantity::of(1 << 30));
    allocator.admit(Pod::new("default", "part").container(part)).unwrap();
    assert_eq!(lies(&allocator, "part"), (String::new(), vec![0], Vec::new()));
    let burstable = Container::new("c").with("cpu", Quantity::of(2));
    allocator.admit(Pod::new("default", "burstable").container(burstable)).unwrap();
    assert_eq!(lies(&allocator, "burstable"), (String::new(), Vec::new(), Vec::new()));
}

#[test]
fn memory_over_two_nodes_keeps_both_for_the_like() {
    let mut allocator = with(TopologyPolicy::BestEffort);
    let wide = Container::new("c").guaranteed(1, 12 << 30);
    allocator.admit(Pod::new("default", "wide").container(wide)).unwrap();
    assert_eq!(lies(&allocator, "wide").1, [0, 1]);
    // One node has room enough, but its memory belongs to both.
    let narrow = Pod::new("default", "narrow").container(Container::new("c").guaranteed(1, 64 << 20));
    allocator.admit(narrow.clone()).unwrap();
    assert_eq!(lies(&allocator, "narrow").1, [0, 1]);
    allocator.remove("default", "wide");
    allocator.remove("default", "narrow");
    allocator.admit(narrow).unwrap();
    assert_eq!(lies(&allocator, "narrow").1, [0]);
    let again = Container::new("c").guaranteed(1, 12 << 30);
    let refused = allocator.admit(Pod::new("default", "wide").container(again)).unwrap_err();
    assert_eq!(refused.reason, "UnexpectedAdmissionError");
    assert!(refused.message.contains("[memorymanager]"), "{refused}");
}

#[test]
fn huge_pages_are_memory_of_another_kind() {
    let mut allocator = with(TopologyPolicy::SingleNumaNode);
    let pages = Container::new("c").guaranteed(1, 1 << 30).with("hugepages-2Mi", Quantity::of(1 << 30));
    let pod = |name: &str| Pod::new("default", name).container(pages.clone());
    allocator.admit(pod("a")).unwrap();
    allocator.admit(pod("b")).unwrap();
    assert_eq!((lies(&allocator, "a").1, lies(&allocator, "b").1), (vec![0, 0], vec![1, 1]));
    assert_eq!(allocator.admit(pod("c")).unwrap_err().reason, "UnexpectedAdmissionError");
}

#[test]
fn init_containers_leave_what_they_had_to_those_after_them() {
    let mut allocator = with(TopologyPolicy::SingleNumaNode);
    let container = |name: &str| Container::new(name).guaranteed(2, 1 << 30).devices(GPU, 2);
    let pod = Pod::new("default", "p").init_container(container("init")).container(container("c"));
    allocator.admit(pod).unwrap();
    assert_eq!(lies(&allocator, "p"), ("1-2".to_owned(), vec![0], gpus(&["gpu-0", "gpu-1"])));
    let pods = allocator.allocation().pods;
    assert_eq!(pods[0].containers.len(), 1, "an init container that has ended is not told of");
    let side = Pod::new("default", "q").init_container(container("side").restartable());
    let refused = allocator.admit(side.container(container("c"))).unwrap_err();
    assert_eq!(refused.reason, "TopologyAffinityError", "a sidecar keeps what it has");
}

#[test]
fn devices_without_a_place_and_on_several_nodes_are_given_too() {
    let mut allocator = with(TopologyPolicy::SingleNumaNode);
    let device = |id: &str, numa: Option<Vec<i64>>| Device { id: id.to_owned(), numa, healthy: true };
    allocator.update_devices("x/anywhere", &[device("a", None)]);
    allocator.update_devices("x/wide", &[device("w", Some(vec![0, 1]))]);
    let container = Container::new("c").guaranteed(1, 1 << 30).devices("x/anywhere", 1).devices("x/wide", 1);
    allocator.admit(Pod::new("default", "p").container(container)).unwrap();
    let devices = &allocator.allocation().pods[0].containers[0].devices;
    assert_eq!((devices[0].numa_nodes.clone(), devices[1].numa_nodes.clone()), (None, Some(vec![0, 1])));
}

#[test]
fn what_the_node_does_not_have_at_all_is_out() {
    let mut allocator = allocator(|settings| {
        settings.topology_manager_policy = TopologyPolicy::None;
        settings.cpu_manager_policy = CpuPolicy::None;
        settings.memory_manager_policy = MemoryPolicy::None;
        settings.reserved_memory.clear();
    });
    let refused = allocator.admit(pod("cpu", 9, 0)).unwrap_err();
    assert_eq!(refused.reason, "OutOfcpu");
    let message = "Node didn't have enough resource: cpu, requested: 9000, used: 0, capacity: 7000";
    assert_eq!(refused.message, message);
    let memory = Container::new("c").guaranteed(1, 40 << 30);
    let refused = allocator.admit(Pod::new("default", "m").container(memory)).unwrap_err();
    assert_eq!(refused.reason, "OutOfmemory");
    // Nobody offers these: a matter for others.
    let unknown = Container::new("c").devices("example.com/unknown", 3);
    allocator.admit(Pod::new("default", "u").container(unknown)).unwrap();
}

#[test]
fn settings_with_which_no_kubelet_starts_are_refused() {
    let reason = |change: &dyn Fn(&mut Settings)| {
        let mut settings = Settings::strict(&two_nodes());
        change(&mut settings);
        Allocator::new(&two_nodes(), &settings).unwrap_err().reason()
    };
    assert_eq!(reason(&|s| s.system_reserved.clear()), "NothingReserved");
    assert_eq!(reason(&|s| s.reserved_memory[0].numa_node = 7), "UnknownNode");
    assert_eq!(reason(&|s| s.reserved_memory.clear()), "ReservedMemory");
    assert_eq!(reason(&|s| s.reserved_system_cpus = Some("0,99".parse().unwrap())), "ReservedCpus");
    let option = |name: &str, value: &str| {
        let pair = (name.to_owned(), value.to_owned());
        reason(&|s| s.cpu_manager_policy_options = [pair.clone()].into())
    };
    assert_eq!(option("full-pcpus", "true"), "UnknownOption");
    assert_eq!(option("full-pcpus-only", "maybe"), "InvalidOption");
    assert_eq!(option("align-by-socket", "true"), "ExclusiveOptions");
    let many = NumaNode { id: 8, ..two_nodes().numa[0].clone() };
    let many = Machine { numa: (0..9).map(|id| NumaNode { id, ..many.clone() }).collect() };
    let error = Allocator::new(&many, &Settings::strict(&many)).unwrap_err();
    assert_eq!(error.reason(), "TooManyNodes");
}
