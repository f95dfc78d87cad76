//! Who holds what: no process is lost, every name is found, and what means nothing is said once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod node;

use std::collections::BTreeMap;

use gpulet_inventory::holders::{
    CgroupOwner, HeldDevice, Holders, HostUnit, Inputs, MAX_UNKNOWN, Owner, PodGroup, ProcessOrigin,
    Processes, Resolved, Resolver, join,
};
use gpulet_inventory::kubelet::{
    ClaimedDevice, ContainerAllocation, KubeletDevice, NodeAllocation, PodAllocation,
};
use gpulet_inventory::pod::{Keeper, Pod, PodContainer, PodPhase, QosClass};
use gpulet_inventory::reading::Reading;
use gpulet_inventory::snapshot::NodeGpus;
use node::{gpu, instance, mig_uuid, node, process, uuid};
use proptest::prelude::*;
use serde_json as _;
use thiserror as _;

const UID: &str = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0";
const HASH: &str = "36b6d6be73b1065af369b3985edafa09";

fn pod(name: &str, uid: &str, container: &str) -> Pod {
    Pod {
        namespace: "work".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        config_hash: None,
        keeper: Keeper::Other,
        deployed_by: Vec::new(),
        role: None,
        phase: PodPhase::Running,
        qos: QosClass::Guaranteed,
        deleting: false,
        containers: vec![PodContainer { name: "main".to_owned(), id: Some(container.to_owned()) }],
    }
}

fn group(uid: &str, container: Option<&str>) -> PodGroup {
    PodGroup { uid: uid.to_owned(), container: container.map(str::to_owned) }
}

fn in_pod(uid: &str, container: Option<&str>) -> CgroupOwner {
    CgroupOwner::Pods(vec![group(uid, container)])
}

fn processes(origins: &[(u32, CgroupOwner)]) -> Processes {
    let origin = |(pid, owner): &(u32, CgroupOwner)| {
        (*pid, ProcessOrigin { start_ticks: u64::from(*pid) * 100, owner: owner.clone() })
    };
    Processes { known: origins.iter().map(origin).collect(), vanished: 0 }
}

/// What the containers `main` of Pods have, by Pod: resource and name.
fn given(pods: &[(&str, &[(&str, &str)])]) -> NodeAllocation {
    let device = |(resource, id): &(&str, &str)| KubeletDevice {
        resource: (*resource).to_owned(),
        id: (*id).to_owned(),
        numa_nodes: None,
    };
    let pod = |(name, devices): &(&str, &[(&str, &str)])| PodAllocation {
        namespace: "work".to_owned(),
        name: (*name).to_owned(),
        containers: vec![ContainerAllocation {
            name: "main".to_owned(),
            devices: devices.iter().map(device).collect(),
            ..ContainerAllocation::default()
        }],
    };
    NodeAllocation { pods: pods.iter().map(pod).collect(), ..NodeAllocation::default() }
}

fn joined(gpus: &NodeGpus, allocation: &NodeAllocation) -> Holders {
    let inputs = Inputs { gpus, processes: &Processes::default(), pods: None, allocation: Some(allocation) };
    join(&inputs, &mut Resolver::default())
}

/// `0`, or for an instance `0/7/0`: a GPU's number and its instances.
fn place(device: &HeldDevice) -> String {
    let index = u32::from_str_radix(&device.id.gpu.as_str()[28..], 16).unwrap();
    match device.id.instance {
        None => index.to_string(),
        Some(part) => {
            let compute = part.compute.map_or("-".to_owned(), |compute| compute.0.to_string());
            format!("{index}/{}/{compute}", part.gpu.0)
        }
    }
}

#[test]
fn processes_are_pods_services_or_unknown() {
    let gpus = node(vec![gpu(vec![process(10, None), process(11, None), process(12, None)], None), {
        gpu(vec![process(13, None), process(14, None), process(10, None)], None)
    }]);
    let pods = [
        pod("trainer", UID, "c1"),
        Pod { config_hash: Some(HASH.to_owned()), ..pod("static", "other-uid", "c2") },
    ];
    let known = processes(&[
        (10, in_pod(UID, Some("c1"))),
        (11, CgroupOwner::Host(HostUnit::new("nvidia-persistenced.service"))),
        (13, in_pod(HASH, Some("sandbox"))),
        (14, in_pod("11111111-0000-0000-0000-000000000000", Some("c9"))),
    ]);
    let inputs = Inputs { gpus: &gpus, processes: &known, pods: Some(&pods), allocation: None };
    let holders = join(&inputs, &mut Resolver::default());
    let owners = |device: usize| -> Vec<_> {
        let processes = holders.devices[device].processes.iter();
        processes.map(|process| (process.pid, process.start_ticks, process.owner.clone())).collect()
    };
    let first = owners(0);
    let trainer = first[0].2.pod().unwrap();
    assert_eq!((trainer.uid.as_str(), trainer.namespace.as_deref()), (UID, Some("work")));
    assert_eq!((trainer.name.as_deref(), trainer.container.as_deref()), (Some("trainer"), Some("main")));
    assert_eq!(first[0].1, Some(1000));
    assert_eq!(first[1].2.as_str(), "host:nvidia-persistenced.service");
    assert_eq!((first[2].1, &first[2].2), (None, &Owner::Unknown));
    let second = owners(1);
    let by_hash = second[0].2.pod().unwrap();
    assert_eq!((by_hash.uid.as_str(), by_hash.name.as_deref()), ("other-uid", Some("static")));
    assert_eq!(by_hash.container, None, "the sandbox is none of its containers");
    let stranger = second[1].2.pod().unwrap();
    assert_eq!((stranger.uid.as_str(), &stranger.name), ("11111111-0000-0000-0000-000000000000", &None));
    assert_eq!(second[2].2, first[0].2, "one process on two GPUs");
}

/// Pod name and container of a process that lies in these groups, the outermost first, while the API tells these Pods.
fn owner_of(
    groups: &[(&str, Option<&str>)],
    pods: Option<&[Pod]>,
) -> (String, Option<String>, Option<String>) {
    let gpus = node(vec![gpu(vec![process(10, None)], None)]);
    let groups = groups.iter().map(|(uid, container)| group(uid, *container)).collect();
    let known = processes(&[(10, CgroupOwner::Pods(groups))]);
    let inputs = Inputs { gpus: &gpus, processes: &known, pods, allocation: None };
    let holders = join(&inputs, &mut Resolver::default());
    let owner = holders.devices[0].processes[0].owner.pod().unwrap().clone();
    (owner.uid, owner.name, owner.container)
}

fn owned(uid: &str, name: Option<&str>, container: Option<&str>) -> (String, Option<String>, Option<String>) {
    (uid.to_owned(), name.map(str::to_owned), container.map(str::to_owned))
}

#[test]
fn a_pod_that_makes_groups_named_for_another_stays_the_owner() {
    let pods = [pod("victim", UID, "c1"), pod("spoofer", "spoofer-uid", "c2")];
    let own = ("spoofer-uid", Some("c2"));
    let spoofer = owned("spoofer-uid", Some("spoofer"), Some("main"));
    assert_eq!(owner_of(&[own, (UID, Some("c1"))], Some(&pods)), spoofer);
    assert_eq!(owner_of(&[own, ("nobody", None), (UID, Some("c1"))], Some(&pods)), spoofer);
    // A static Pod, which cgroups call by its hash.
    let pods = [pods[0].clone(), Pod { config_hash: Some(HASH.to_owned()), ..pods[1].clone() }];
    assert_eq!(owner_of(&[(HASH, Some("c2")), (UID, Some("c1"))], Some(&pods)), spoofer);
}

#[test]
fn an_annotation_with_the_uid_of_another_pod_takes_nothing_from_it() {
    let victim = pod("victim", UID, "c1");
    let thief = Pod { config_hash: Some(UID.to_owned()), ..pod("thief", "thief-uid", "c2") };
    for pods in [[victim.clone(), thief.clone()], [thief, victim]] {
        let owner = owner_of(&[(UID, Some("c1"))], Some(&pods));
        assert_eq!(owner, owned(UID, Some("victim"), Some("main")));
    }
}

#[test]
fn a_node_in_a_pod_is_that_pod_and_to_itself_its_own_pods() {
    let groups = [("outer", Some("c1")), ("inner", Some("c2"))];
    let (outer, inner) = (pod("kind", "outer", "c1"), pod("inside", "inner", "c2"));
    let seen = |pods: &[Pod]| owner_of(&groups, Some(pods));
    assert_eq!(seen(&[outer]), owned("outer", Some("kind"), Some("main")));
    assert_eq!(seen(&[inner]), owned("inner", Some("inside"), Some("main")));
    for pods in [None, Some(&[][..])] {
        assert_eq!(owner_of(&groups, pods), owned("inner", None, None));
    }
}

#[test]
fn every_name_finds_its_device() {
    let whole = || gpu(Vec::new(), None);
    let parted =
        gpu(Vec::new(), Some(vec![instance(1, 9, 2, 1), instance(1, 7, 0, 1), instance(1, 3, 4, 2)]));
    let gpus = node(vec![whole(), parted, whole()]);
    for (name, expected) in [
        (uuid(2), "2"),
        (format!("{}::1", uuid(2)), "2"),
        ("0".to_owned(), "0"),
        // The first is N of /dev/nvidiaN, and these run the other way round.
        ("nvidia0".to_owned(), "2"),
        ("nvidia2/vgpu3".to_owned(), "0"),
        ("gpu-0".to_owned(), "2"),
        (mig_uuid(1, 56), "1/7/0"),
        (format!("MIG-{}/3/1", uuid(1)), "1/3/1"),
        // In the driver's order: 3/0, 3/1, 7/0, 9/0.
        ("1:1".to_owned(), "1/3/1"),
        ("1:3".to_owned(), "1/9/0"),
        ("nvidia1/gi7".to_owned(), "1/7/0"),
        ("nvidia1/gi3".to_owned(), "1/3/-"),
        ("gpu-1-mig-1g10gb-19-2".to_owned(), "1/9/0"),
        ("gpu-1-mig-19-0-1".to_owned(), "1/7/0"),
    ] {
        let holders = joined(&gpus, &given(&[("a", &[("nvidia.com/gpu", &name)])]));
        let places: Vec<_> = holders.devices.iter().map(place).collect();
        assert_eq!((places, holders.unknown.len()), (vec![expected.to_owned()], 0), "{name}");
    }
    for name in
        ["3", "1:4", "nvidia3", "nvidia1/gi8", "gpu-1-mig-1g10gb-19-6", &uuid(7), &mig_uuid(0, 1), "?"]
    {
        let holders = joined(&gpus, &given(&[("a", &[("nvidia.com/gpu", name)])]));
        assert_eq!((holders.devices.len(), holders.unknown.len()), (0, 1), "{name}");
        assert_eq!(holders.unknown[0].allocated.name, name);
    }
}

#[test]
fn devices_that_are_shared_claimed_or_renamed() {
    let gpus = node(vec![gpu(Vec::new(), None), gpu(Vec::new(), None)]);
    let mut allocation = given(&[
        (
            "a",
            &[("nvidia.com/gpu.shared", &format!("{}::0", uuid(0))), ("nvidia.com/hostdev", "0000:3b:00.2")],
        ),
        ("b", &[("example.com/large", &format!("{}::1", uuid(0))), ("cpu.example.com/core", "0")]),
        ("c", &[]),
    ]);
    let claim = |driver: &str, device: &str| ClaimedDevice {
        claim_namespace: "work".to_owned(),
        claim: "claim".to_owned(),
        driver: driver.to_owned(),
        pool: "node".to_owned(),
        device: device.to_owned(),
        share_id: None,
        cdi_devices: Vec::new(),
    };
    allocation.pods[2].containers[0].claims =
        vec![claim("gpu.nvidia.com", "gpu-0"), claim("compute-domain.nvidia.com", "channel-0")];
    let holders = joined(&gpus, &allocation);
    assert_eq!(holders.unknown, [], "what is none of ours is none that is missing");
    let told: Vec<_> = holders
        .devices
        .iter()
        .flat_map(|device| {
            let given = device.allocated.iter();
            given.map(|to| (place(device), to.pod.as_str(), to.resource.as_str(), to.replica))
        })
        .collect();
    assert_eq!(
        told,
        [
            ("0".to_owned(), "a", "nvidia.com/gpu.shared", Some(0)),
            ("0".to_owned(), "b", "example.com/large", Some(1)),
            ("1".to_owned(), "c", "gpu.nvidia.com", None),
        ]
    );
}

#[test]
fn pods_that_have_ended_have_nothing() {
    let gpus = node(vec![gpu(Vec::new(), None)]);
    let pods = [Pod { phase: PodPhase::Succeeded, ..pod("done", UID, "c1") }];
    let allocation =
        given(&[("done", &[("nvidia.com/gpu", "0")]), ("unheard-of", &[("nvidia.com/gpu", "0")])]);
    let known = Processes::default();
    let inputs = Inputs { gpus: &gpus, processes: &known, pods: Some(&pods), allocation: Some(&allocation) };
    let holders = join(&inputs, &mut Resolver::default());
    let given: Vec<_> = holders.devices[0].allocated.iter().map(|to| to.pod.as_str()).collect();
    assert_eq!(given, ["unheard-of"]);
}

#[test]
fn an_unknown_name_is_told_once_until_the_gpus_are_others() {
    let parted = |instances| node(vec![gpu(Vec::new(), Some(instances))]);
    let before = parted(vec![instance(0, 1, 0, 1)]);
    let name = mig_uuid(0, 16);
    let allocation = given(&[("a", &[("nvidia.com/mig-1g.10gb", &name)])]);
    let known = Processes::default();
    let mut resolver = Resolver::default();
    let mut news = |gpus: &NodeGpus| {
        let inputs = Inputs { gpus, processes: &known, pods: None, allocation: Some(&allocation) };
        let unknown = join(&inputs, &mut resolver).unknown;
        unknown.iter().map(|unknown| unknown.is_news).collect::<Vec<_>>()
    };
    assert_eq!(news(&before), [true]);
    assert_eq!(news(&before), [false]);
    assert_eq!(news(&parted(vec![instance(0, 1, 4, 1)])), [true], "another instance is there");
    let after = parted(vec![instance(0, 1, 4, 1), instance(0, 2, 0, 1)]);
    assert!(news(&after).is_empty(), "this one");
    // While the GPU hangs it tells nothing, and what it had counts.
    let mut hangs = after.clone();
    hangs.gpus[0].sample = None;
    assert!(news(&hangs).is_empty());
    let mut refuses = after;
    let mut sample = (**refuses.gpus[0].sample.as_ref().unwrap()).clone();
    sample.mig = match sample.mig {
        Reading::Supported(_) => Reading::Failed(gpulet_inventory::reading::Answer {
            call: "nvmlDeviceGetMigMode",
            cause: gpulet_inventory::reading::Cause::Code(999),
        }),
        other => other,
    };
    refuses.gpus[0].sample = Some(sample.into());
    assert!(news(&refuses).is_empty());
}

#[test]
fn what_is_remembered_has_an_end() {
    let mut resolver = Resolver::default();
    resolver.observe(&node(vec![gpu(Vec::new(), None)]));
    for number in 0..MAX_UNKNOWN {
        let resolved = resolver.resolve(&format!("nvidia{}", number + 1));
        assert_eq!(resolved, Resolved::Unknown { is_news: true });
    }
    let more = format!("nvidia{}", MAX_UNKNOWN + 1);
    assert_eq!(resolver.resolve(&more), Resolved::Unknown { is_news: false }, "not told, not remembered");
}

/// Process ids, each with the GPU and compute instance where there are such.
type Listed = Vec<(u32, Option<(u32, u32)>)>;

/// Processes of two GPUs, the second of which is in MIG mode.
fn held() -> impl Strategy<Value = Vec<Listed>> {
    let whole = proptest::collection::vec((1..40_u32, Just(None)), 0..12);
    let part = prop_oneof![Just(None), (0..4_u32, 0..2_u32).prop_map(Some)];
    let parted = proptest::collection::vec((1..40_u32, part), 0..12);
    (whole, parted).prop_map(|(whole, parted)| vec![whole, parted])
}

fn owner() -> impl Strategy<Value = CgroupOwner> {
    prop_oneof![
        (prop_oneof![Just(UID), Just(HASH), Just("stranger")], proptest::option::of("c[12]"))
            .prop_map(|(uid, container)| in_pod(uid, container.as_deref())),
        "[a-c].service".prop_map(|unit| CgroupOwner::Host(HostUnit::new(&unit))),
    ]
}

proptest! {
    #[test]
    fn no_process_is_lost(
        held in held(),
        origins in proptest::collection::btree_map(1..40_u32, owner(), 0..40),
        api_tells: bool,
        names in proptest::collection::vec("[01]|0:[0-3]|nvidia[01](/gi[0-3])?|[a-z]{1,3}", 0..6),
    ) {
        let gpus = node(held.iter().map(|processes| {
            gpu(processes.iter().map(|(pid, part)| process(*pid, *part)).collect(), Some(vec![instance(1, 0, 0, 2)]))
        }).collect());
        let origins: Vec<_> = origins.into_iter().collect();
        let known = processes(&origins);
        let pods = [pod("a", UID, "c1"), Pod { config_hash: Some(HASH.to_owned()), ..pod("b", "b", "c2") }];
        let devices: Vec<_> = names.iter().map(|name| ("nvidia.com/gpu", name.as_str())).collect();
        let allocation = given(&[("a", &devices)]);
        let inputs = Inputs {
            gpus: &gpus,
            processes: &known,
            pods: api_tells.then_some(&pods[..]),
            allocation: Some(&allocation),
        };
        let holders = join(&inputs, &mut Resolver::default());

        let mut told: Vec<_> = holders.devices.iter().flat_map(|device| {
            let index = usize::from(device.id.gpu.as_str() == uuid(1));
            let part = device.id.instance.map(|part| (part.gpu.0, part.compute.map(|compute| compute.0)));
            device.processes.iter().map(move |process| (index, process.pid, part))
        }).collect();
        let mut expected: Vec<_> = held.iter().enumerate().flat_map(|(index, processes)| {
            processes.iter().map(move |(pid, part)| (index, *pid, part.map(|(gpu, compute)| (gpu, Some(compute)))))
        }).collect();
        told.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(told, expected);

        for device in &holders.devices {
            // Each owner once; together they have all processes.
            prop_assert!(device.owners.is_sorted_by(|one, other| one < other));
            let mut of_owners: BTreeMap<&Owner, usize> = BTreeMap::new();
            for process in &device.processes {
                prop_assert!(device.owners.contains(&process.owner));
                prop_assert_eq!(process.start_ticks.is_none(), process.owner == Owner::Unknown);
                *of_owners.entry(&process.owner).or_default() += 1;
            }
            prop_assert_eq!(of_owners.len(), device.owners.len());
            prop_assert_eq!(of_owners.values().sum::<usize>(), device.processes.len());
        }
        let given: usize = holders.devices.iter().map(|device| device.allocated.len()).sum();
        prop_assert_eq!(given + holders.unknown.len(), names.len());
        prop_assert_eq!(join(&inputs, &mut Resolver::default()), holders, "the same makes the same");
    }
}
