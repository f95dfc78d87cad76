//! From the kubelet's messages to the vocabulary, case by case.

use gpulet_inventory::kubelet::{
    ClaimedDevice, ContainerAllocation, KubeletDevice, MemoryBlock, NodeAllocation,
};
use proptest::prelude::*;
use prost::Message;

use super::super::{Answer, convert, v1};
use super::server::one_container;

fn on(nodes: &[i64]) -> Option<v1::TopologyInfo> {
    Some(v1::TopologyInfo { nodes: nodes.iter().map(|id| v1::NumaNode { id: *id }).collect() })
}

fn devices(resource: &str, ids: &[&str], topology: Option<v1::TopologyInfo>) -> v1::ContainerDevices {
    let device_ids = ids.iter().map(|id| (*id).to_owned()).collect();
    v1::ContainerDevices { resource_name: resource.to_owned(), device_ids, topology }
}

fn device(resource: &str, id: &str, numa_nodes: Option<&[i64]>) -> KubeletDevice {
    let numa_nodes = numa_nodes.map(<[i64]>::to_vec);
    KubeletDevice { resource: resource.to_owned(), id: id.to_owned(), numa_nodes }
}

fn allocatable(of: v1::AllocatableResourcesResponse) -> Answer {
    convert::node(of, v1::ListPodResourcesResponse::default())
}

fn allocatable_devices(devices: Vec<v1::ContainerDevices>) -> Vec<KubeletDevice> {
    let answer = v1::AllocatableResourcesResponse { devices, ..Default::default() };
    allocatable(answer).allocation.allocatable.devices
}

fn container(of: v1::ContainerResources) -> ContainerAllocation {
    let answer = convert::node(v1::AllocatableResourcesResponse::default(), one_container(of));
    answer.allocation.pods[0].containers[0].clone()
}

#[test]
fn a_device_of_several_nodes_comes_once_for_each_and_counts_once() {
    let listed = vec![
        devices("nvidia.com/gpu", &["GPU-1"], on(&[1])),
        devices("nvidia.com/gpu", &["GPU-2"], on(&[0])),
        devices("nvidia.com/gpu", &["GPU-1"], on(&[0])),
        devices("nvidia.com/gpu", &["GPU-1"], on(&[1])),
    ];
    let expected =
        [device("nvidia.com/gpu", "GPU-1", Some(&[0, 1])), device("nvidia.com/gpu", "GPU-2", Some(&[0]))];
    assert_eq!(allocatable_devices(listed), expected);
}

#[test]
fn one_id_in_two_resources_is_two_devices() {
    let listed = vec![devices("a/gpu", &["0"], on(&[0])), devices("b/nic", &["0"], on(&[1]))];
    assert_eq!(
        allocatable_devices(listed),
        [device("a/gpu", "0", Some(&[0])), device("b/nic", "0", Some(&[1]))]
    );
}

#[test]
fn several_ids_in_one_entry_are_several_devices() {
    let listed = vec![devices("a/gpu", &["0", "1", "0"], on(&[0, 1]))];
    assert_eq!(
        allocatable_devices(listed),
        [device("a/gpu", "0", Some(&[0, 1])), device("a/gpu", "1", Some(&[0, 1]))]
    );
}

#[test]
fn an_absent_topology_is_not_node_0() {
    assert_eq!(allocatable_devices(vec![devices("a/gpu", &["0"], None)]), [device("a/gpu", "0", None)]);
}

#[test]
fn a_topology_without_nodes_tells_as_little_as_none() {
    assert_eq!(allocatable_devices(vec![devices("a/gpu", &["0"], on(&[]))]), [device("a/gpu", "0", None)]);
}

#[test]
fn a_topology_told_once_holds_for_all_entries_of_a_device() {
    for listed in [[None, on(&[1])], [on(&[1]), None], [on(&[]), on(&[1])]] {
        let listed = listed.map(|topology| devices("a/gpu", &["0"], topology)).to_vec();
        assert_eq!(allocatable_devices(listed), [device("a/gpu", "0", Some(&[1]))]);
    }
}

#[test]
fn on_the_wire_node_0_is_a_node_without_a_number() {
    // Device entry: topology (3) of 2 bytes: one node (1) of 0 bytes.
    let wire = [&b"\x0a\x05a/gpu"[..], b"\x12\x010", b"\x1a\x02\x0a\x00"].concat();
    let entry = v1::ContainerDevices::decode(wire.as_slice()).unwrap();
    assert_eq!(allocatable_devices(vec![entry]), [device("a/gpu", "0", Some(&[0]))]);
}

#[test]
fn node_numbers_are_the_plugins_word() {
    let listed = vec![devices("a/gpu", &["0"], on(&[1 << 40, -1, 99]))];
    assert_eq!(allocatable_devices(listed), [device("a/gpu", "0", Some(&[-1, 99, 1 << 40]))]);
}

#[test]
fn cpus_in_any_order_are_a_set() {
    let found = container(v1::ContainerResources { cpu_ids: vec![9, 2, 1, 9, 3], ..Default::default() });
    assert_eq!(found.cpus.to_string(), "1-3,9");
}

#[test]
fn cpus_that_no_machine_has_are_left_out_and_told() {
    let cpu_ids = vec![5, -1, 65_535, 65_536, i64::MAX, i64::MIN, 1 << 33];
    let answer =
        allocatable(v1::AllocatableResourcesResponse { cpu_ids: cpu_ids.clone(), ..Default::default() });
    assert_eq!(answer.allocation.allocatable.cpus.to_string(), "5,65535");
    let [oddity] = answer.oddities.as_slice() else { panic!("{:?}", answer.oddities) };
    assert_eq!(oddity.place, "allocatable");
    assert_eq!(oddity.problem, "no CPU has the number -1; it and 4 more such were left out");

    let listed =
        one_container(v1::ContainerResources { name: "main".to_owned(), cpu_ids, ..Default::default() });
    let answer = convert::node(v1::AllocatableResourcesResponse::default(), listed);
    assert_eq!(answer.oddities[0].place, "Pod default/train, container main");
}

#[test]
fn no_more_oddities_are_told_than_anybody_reads() {
    let container = v1::ContainerResources { cpu_ids: vec![-1], ..Default::default() };
    let mut listed = one_container(container.clone());
    listed.pod_resources[0].containers = vec![container; 1000];
    let oddities = convert::node(v1::AllocatableResourcesResponse::default(), listed).oddities;
    assert_eq!(oddities.len(), 65);
    assert!(oddities[64].problem.starts_with("936 more"), "{}", oddities[64].problem);
}

#[test]
fn memory_may_lie_on_several_nodes_together() {
    let block =
        |kind: &str, size, topology| v1::ContainerMemory { memory_type: kind.to_owned(), size, topology };
    let memory = vec![
        block("memory", 3 << 30, on(&[1, 0])),
        block("hugepages-2Mi", u64::MAX, on(&[1])),
        block("memory", 7, None),
    ];
    let found = container(v1::ContainerResources { memory, ..Default::default() });
    let expected = |kind: &str, bytes, numa_nodes| MemoryBlock { kind: kind.to_owned(), bytes, numa_nodes };
    assert_eq!(
        found.memory,
        [
            expected("hugepages-2Mi", u64::MAX, vec![1]),
            expected("memory", 7, vec![]),
            expected("memory", 3 << 30, vec![0, 1]),
        ]
    );
}

#[test]
fn what_is_told_of_the_pod_as_a_whole_is_not_counted_again() {
    let mut wire = one_container(v1::ContainerResources { cpu_ids: vec![4, 5], ..Default::default() })
        .pod_resources[0]
        .encode_to_vec();
    // Fields 4 (CPUs, packed) and 5 (memory of 1 byte).
    wire.extend(b"\x22\x03\x04\x05\x06");
    wire.extend(b"\x2a\x0a\x0a\x06memory\x10\x01");
    let pod = v1::PodResources::decode(wire.as_slice()).unwrap();
    let listed = v1::ListPodResourcesResponse { pod_resources: vec![pod] };
    let answer = convert::node(v1::AllocatableResourcesResponse::default(), listed);
    let [container] = answer.allocation.pods[0].containers.as_slice() else { panic!("one container") };
    assert_eq!((container.cpus.to_string().as_str(), container.memory.len()), ("4-5", 0));
}

#[test]
fn devices_by_claims() {
    let cdi = |name: &str| v1::CdiDevice { name: name.to_owned() };
    let claimed = |device: &str, share: Option<&str>, cdi_devices| v1::ClaimResource {
        cdi_devices,
        driver_name: "gpu.nvidia.com".to_owned(),
        pool_name: "node-a".to_owned(),
        device_name: device.to_owned(),
        share_id: share.map(str::to_owned),
    };
    let claim = v1::DynamicResource {
        claim_name: "gpus".to_owned(),
        claim_namespace: "default".to_owned(),
        claim_resources: vec![
            claimed(
                "gpu-0",
                None,
                vec![cdi("k8s.gpu.nvidia.com/device=a"), cdi("k8s.gpu.nvidia.com/device=b")],
            ),
            claimed("gpu-1-mig-1g.10gb", Some("7"), vec![]),
        ],
    };
    let found = container(v1::ContainerResources { dynamic_resources: vec![claim], ..Default::default() });
    let expected = |device: &str, share_id: Option<&str>, cdi_devices: &[&str]| ClaimedDevice {
        claim_namespace: "default".to_owned(),
        claim: "gpus".to_owned(),
        driver: "gpu.nvidia.com".to_owned(),
        pool: "node-a".to_owned(),
        device: device.to_owned(),
        share_id: share_id.map(str::to_owned),
        cdi_devices: cdi_devices.iter().map(|name| (*name).to_owned()).collect(),
    };
    let both = ["k8s.gpu.nvidia.com/device=a", "k8s.gpu.nvidia.com/device=b"];
    assert_eq!(found.claims, [expected("gpu-0", None, &both), expected("gpu-1-mig-1g.10gb", Some("7"), &[])]);
}

#[test]
fn the_same_in_another_order_is_the_same() {
    let block = |kind: &str, node| v1::ContainerMemory {
        memory_type: kind.to_owned(),
        size: 1,
        topology: on(&[node]),
    };
    let claimed = |device: &str| v1::ClaimResource { device_name: device.to_owned(), ..Default::default() };
    let claim = |name: &str, devices: [&str; 2]| v1::DynamicResource {
        claim_name: name.to_owned(),
        claim_resources: devices.map(claimed).to_vec(),
        ..Default::default()
    };
    let container = v1::ContainerResources {
        devices: vec![devices("b/nic", &["1", "0"], None), devices("a/gpu", &["1"], on(&[1, 0]))],
        memory: vec![block("memory", 1), block("hugepages-2Mi", 0), block("memory", 0)],
        dynamic_resources: vec![claim("b", ["1", "0"]), claim("a", ["0", "1"])],
        ..Default::default()
    };
    let mut other = container.clone();
    other.devices.reverse();
    other.memory.reverse();
    other.dynamic_resources.reverse();
    let pod = |namespace: &str, name: &str, container: &v1::ContainerResources| v1::PodResources {
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        containers: vec![container.clone()],
    };
    let answer = |container, names: [(&str, &str); 3]| {
        let pods = names.map(|(namespace, name)| pod(namespace, name, container));
        convert::node(Default::default(), v1::ListPodResourcesResponse { pod_resources: pods.to_vec() })
    };
    let one = answer(&container, [("b", "a"), ("a", "b"), ("a", "a")]);
    assert_eq!(one, answer(&other, [("a", "a"), ("b", "a"), ("a", "b")]));
    let names: Vec<&str> = one.allocation.pods.iter().map(|pod| pod.namespace.as_str()).collect();
    assert_eq!(names, ["a", "a", "b"]);
}

#[test]
fn a_kubelet_with_nothing() {
    let empty = convert::node(Default::default(), Default::default());
    assert_eq!(empty.allocation, NodeAllocation::default());
}

proptest! {
    #[test]
    fn any_bytes_are_an_answer_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(listed) = v1::ListPodResourcesResponse::decode(bytes.as_slice()) {
            convert::node(Default::default(), listed);
        }
    }

    #[test]
    fn each_device_comes_out_once_with_all_of_its_nodes(
        listed in proptest::collection::vec(
            (0..3_u8, 0..4_u8, proptest::option::of(proptest::collection::vec(-2..5_i64, 0..3))),
            0..40,
        ),
    ) {
        let entry = |(resource, id, nodes): &(u8, u8, Option<Vec<i64>>)| {
            devices(&resource.to_string(), &[&id.to_string()], nodes.as_ref().and_then(|nodes| on(nodes)))
        };
        let found = allocatable_devices(listed.iter().map(entry).collect());
        let mut expected = std::collections::BTreeMap::<_, std::collections::BTreeSet<i64>>::new();
        for (resource, id, nodes) in &listed {
            expected.entry((resource.to_string(), id.to_string())).or_default().extend(nodes.iter().flatten());
        }
        prop_assert_eq!(found.len(), expected.len());
        for device in found {
            let nodes: Vec<i64> = expected[&(device.resource, device.id)].iter().copied().collect();
            prop_assert_eq!(device.numa_nodes.unwrap_or_default(), nodes);
        }
    }
}
