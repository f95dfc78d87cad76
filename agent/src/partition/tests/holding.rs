//! Everyone is on each instance that he may use.

use std::collections::{BTreeMap, BTreeSet};

use gpulet_host::partition::preflight::{Module, Opened, Opener, Preflight};
use gpulet_inventory::holders::{Allocated, DeviceId, HeldDevice, Holders, Instance as Part, UnknownDevice};
use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId};
use gpulet_partition::observed::{GpuDivision, Holder};

use super::super::holders::{self, Place};
use super::super::look::Subject;
use super::super::names::Name;
use super::super::openers;
use super::{division, looked, pod, process, uuid};

const ONE: GpuInstanceId = GpuInstanceId(7);
const THREE: GpuInstanceId = GpuInstanceId(2);

/// Who is on the 1g, on the 3g, and on the GPU, in words.
fn told(division: &GpuDivision) -> [Vec<String>; 3] {
    let of = |id| {
        let found = division.instances.iter().filter(move |instance| instance.id == id);
        found.flat_map(|instance| instance.all_holders()).map(ToString::to_string).collect()
    };
    [of(ONE), of(THREE), division.holders.iter().map(ToString::to_string).collect()]
}

fn counts(division: &GpuDivision) -> [usize; 3] {
    told(division).map(|holders| holders.len())
}

#[test]
fn each_place() {
    for (place, expected) in [
        (Place::Compute(ONE, ComputeInstanceId(0)), [1, 0, 0]),
        (Place::Compute(THREE, ComputeInstanceId(5)), [0, 1, 0]),
        (Place::Instance(THREE), [0, 1, 0]),
        (Place::Anywhere, [1, 1, 1]),
        (Place::Gpu, [0, 0, 1]),
        // It was destroyed.
        (Place::Instance(GpuInstanceId(9)), [0, 0, 0]),
    ] {
        let mut division = division();
        for _ in 0..2 {
            holders::add(&mut division, place, &process(5));
        }
        assert_eq!(counts(&division), expected, "{place:?}");
    }
}

#[test]
fn a_process_of_which_the_driver_does_not_say_where_it_is_may_be_anywhere() {
    let mut inside = division();
    inside.holders.push(process(5));
    holders::spread(&mut inside);
    assert_eq!(counts(&inside), [1, 1, 1]);
    let mut outside = division();
    outside.mode.as_mut().unwrap().current = false;
    outside.holders.push(process(5));
    holders::spread(&mut outside);
    assert_eq!(counts(&outside), [0, 0, 1]);
}

#[test]
fn a_pod_is_told_by_its_process() {
    let mut division = division();
    holders::add(&mut division, Place::Compute(ONE, ComputeInstanceId(0)), &process(5));
    assert_eq!(holders::pids(&division), BTreeSet::from([5]));
    let name = Name { program: Some("python3".to_owned()), pod: Some(pod("train-0")) };
    holders::name(&mut division, &BTreeMap::from([(5, name)]));
    holders::add(&mut division, Place::Compute(ONE, ComputeInstanceId(0)), &Holder::Pod(pod("train-0")));
    holders::add(&mut division, Place::Compute(ONE, ComputeInstanceId(0)), &Holder::Pod(pod("train-1")));
    assert_eq!(told(&division)[0], ["process 5 (python3) of Pod ml/train-0", "Pod ml/train-1"]);
}

fn allocated(pod: &str, name: &str) -> Allocated {
    Allocated {
        namespace: "ml".to_owned(),
        pod: pod.to_owned(),
        container: "main".to_owned(),
        resource: "nvidia.com/gpu".to_owned(),
        name: name.to_owned(),
        replica: None,
    }
}

fn held(gpu: u32, part: Option<Part>, pod: &str) -> HeldDevice {
    HeldDevice {
        id: DeviceId { gpu: uuid(gpu), instance: part },
        processes: Vec::new(),
        owners: Vec::new(),
        allocated: vec![allocated(pod, "x")],
    }
}

fn given(joined: &Holders, unnamed: &[Part]) -> [Vec<String>; 3] {
    let mut division = division();
    holders::add_given(&mut division, joined, unnamed);
    told(&division)
}

#[test]
fn pods_are_on_what_they_were_given() {
    let part = |gpu, compute| Some(Part { gpu, compute });
    let devices = vec![
        held(1, part(ONE, Some(ComputeInstanceId(0))), "small"),
        held(1, part(THREE, None), "half"),
        held(1, None, "whole"),
        held(2, None, "other"),
    ];
    let joined = Holders { devices, ..Holders::default() };
    let expected = [
        vec!["Pod ml/whole".to_owned(), "Pod ml/small".to_owned()],
        vec!["Pod ml/half".to_owned(), "Pod ml/whole".to_owned()],
        vec!["Pod ml/whole".to_owned()],
    ];
    assert_eq!(given(&joined, &[]), expected);
}

#[test]
fn what_is_not_found_may_be_what_is_not_known() {
    let lost = |name: &str| Holders {
        unknown: vec![UnknownDevice { allocated: allocated("lost", name), is_news: true }],
        ..Holders::default()
    };
    let counts = |name: &str, unnamed: &[Part]| given(&lost(name), unnamed).map(|holders| holders.len());
    let mig = "MIG-8f6d2c3a-0000-1111-2222-333344445555";
    // Its instance was destroyed.
    assert_eq!(counts(mig, &[]), [0, 0, 0]);
    // It may be the one that tells no UUID.
    let unnamed = Part { gpu: THREE, compute: Some(ComputeInstanceId(0)) };
    assert_eq!(counts(mig, &[unnamed]), [0, 1, 0]);
    // It is another GPU's, or none.
    assert_eq!(counts(uuid(9).as_str(), &[unnamed]), [0, 0, 0]);
    assert_eq!(counts(&format!("MIG-{}/2/3", uuid(1)), &[]), [0, 1, 0]);
    assert_eq!(counts(&format!("MIG-{}/2/3", uuid(9)), &[]), [0, 0, 0]);
    // Who knows.
    assert_eq!(counts("slot-4", &[]), [1, 1, 1]);
}

fn opener(pid: u32, program: &str, opened: &[Opened]) -> Opener {
    Opener {
        pid,
        program: Some(program.to_owned()),
        origin: None,
        opened: opened.iter().copied().collect(),
        is_self: false,
    }
}

fn after(preflight: &Preflight, persistence: Option<bool>, resetless: bool) -> [Vec<String>; 3] {
    let mut division = division();
    let gpu = looked(super::division()).gpu;
    openers::add(&mut Subject { division: &mut division, persistence, resetless }, &gpu, preflight);
    told(&division)
}

#[test]
fn open_files_tell_instances_and_otherwise_the_gpu() {
    let compute = Opened::Compute { gpu: 3, instance: ONE, compute: ComputeInstanceId(0) };
    let access = |instance| Opened::Instance { gpu: 3, instance };
    let openers = vec![
        opener(10, "monitor", &[Opened::Gpu(3), Opened::Other]),
        opener(11, "small", &[Opened::Gpu(3), access(ONE), compute]),
        opener(12, "both", &[Opened::Gpu(3), access(THREE), access(ONE)]),
        opener(13, "elsewhere", &[Opened::Gpu(4), Opened::Instance { gpu: 4, instance: ONE }]),
        Opener { is_self: true, ..opener(14, "gpulet", &[Opened::Gpu(3)]) },
    ];
    let preflight = Preflight { openers, ..Preflight::default() };
    let [one, three, gpu] = after(&preflight, None, true);
    assert_eq!(one, ["process 12", "process 11"]);
    assert_eq!(three, ["process 12"]);
    assert_eq!(gpu, ["process 10"]);
}

#[test]
fn who_lets_go_with_persistence_mode_is_not_in_the_way() {
    let openers = vec![opener(10, "nvidia-persistenced", &[Opened::Gpu(3)])];
    let preflight = Preflight { openers, ..Preflight::default() };
    assert!(after(&preflight, Some(true), false)[2].is_empty());
    assert_eq!(after(&preflight, Some(false), false)[2], ["process 10"]);
}

#[test]
fn a_module_is_in_the_way_of_a_reset() {
    let module = |references| Module { name: "nvidia_drm".to_owned(), references, modeset: true };
    let preflight = |references| Preflight { modules: vec![module(references)], ..Preflight::default() };
    let [one, three, gpu] = after(&preflight(2), None, false);
    assert!(one.is_empty() && three.is_empty());
    assert!(gpu[0].starts_with("kernel module nvidia_drm (") && gpu[0].contains("modprobe -r"), "{gpu:?}");
    // It may hold the GPU; the driver knows.
    assert!(after(&preflight(0), None, false)[2].is_empty());
    // Nothing is reset.
    assert!(after(&preflight(2), None, true)[2].is_empty());
}
