//! Instances: where they come to lie, what they are refused for, what becomes of them.

use std::collections::BTreeSet;
use std::ptr::{null, null_mut};

use gpulet_simulator::command::{Command, Observe};
use nvml_wrapper_sys::bindings::*;

use super::driver::call;
use super::*;

// Ids on boards of seven slices.
const G1: u32 = 19;
const G1_MEDIA: u32 = 20;
const G2: u32 = 14;
const G3: u32 = 9;
const G4: u32 = 5;
const G7: u32 = 0;

#[test]
fn the_driver_places_otherwise_than_from_the_left() {
    let (test, driver) = empty(H100);
    for profile in [G2, G1, G1, G1, G1, G1] {
        driver.create(H100, profile).unwrap();
    }
    let starts: Vec<u32> = places(&test, H100).iter().map(|(_, (start, _))| *start).collect();
    assert_eq!(starts, [4, 6, 0, 1, 2, 3]);
    assert_eq!(driver.create(H100, G1), Err(INSUFFICIENT_RESOURCES));

    let (_test, driver) = empty(H100);
    for profile in [G1, G1, G2] {
        driver.create(H100, profile).unwrap();
    }
    assert_eq!(driver.create(H100, G3), Err(INSUFFICIENT_RESOURCES), "3g must be first");
    let (_test, driver) = empty(H100);
    for profile in [G3, G1, G2, G1] {
        driver.create(H100, profile).unwrap();
    }
}

#[test]
fn an_instance_lies_where_it_is_told_to_or_not_at_all() {
    let (test, driver) = empty(H100);
    let three = driver.create_at(H100, G3, (4, 4)).unwrap();
    let info = driver.info(three).unwrap();
    assert_eq!((info.id, info.profileId, info.placement.start, info.placement.size), (2, G3, 4, 4));
    assert_eq!(driver.create_at(H100, G1, (5, 1)), Err(INSUFFICIENT_RESOURCES), "it is taken");
    assert_eq!(driver.create_at(H100, G1, (7, 1)), Err(INVALID_ARGUMENT), "there is no such place");
    assert_eq!(driver.create_at(H100, G3, (0, 3)), Err(INVALID_ARGUMENT), "nor one of that size");
    assert_eq!(driver.create(H100, 77), Err(INVALID_ARGUMENT), "nor such a profile");
    assert_eq!(driver.create_at(H100, G4, (0, 4)).map(drop), Ok(()));
    assert_eq!(places(&test, H100), [(2, (4, 4)), (1, (0, 4))]);
    let device = driver.gpu(H100);
    let mut created = null_mut();
    let nowhere =
        call!(driver, nvmlDeviceCreateGpuInstanceWithPlacement(device, G1, null(), &raw mut created));
    assert_eq!(nowhere, INVALID_ARGUMENT);
    assert_eq!(call!(driver, nvmlDeviceCreateGpuInstance(device, G1, null_mut())), INVALID_ARGUMENT);
}

#[test]
fn capacity_is_what_is_left() {
    let (_test, driver) = empty(H100);
    let left = |driver: &Driver| [G1, G1_MEDIA, G2, G3, G4, G7].map(|id| driver.capacity(H100, id).unwrap());
    assert_eq!(left(&driver), [7, 1, 3, 2, 1, 1]);
    let media = driver.create_at(H100, G1_MEDIA, (6, 1)).unwrap();
    assert_eq!(left(&driver), [6, 0, 3, 1, 1, 0]);
    assert_eq!(
        driver.create_at(H100, G1_MEDIA, (5, 1)),
        Err(INSUFFICIENT_RESOURCES),
        "one has the media engines"
    );
    assert_eq!(driver.destroy(media), OK);
    driver.create_at(H100, G3, (0, 4)).unwrap();
    driver.create_at(H100, G3, (4, 4)).unwrap();
    assert_eq!(left(&driver), [0; 6], "a slice is idle, and there is no place for it");
    assert_eq!(driver.capacity(H100_MIG, 77), Err(INVALID_ARGUMENT));
    assert_eq!(driver.capacity(A100, G1), Err(NOT_SUPPORTED), "it is not in MIG mode");
    assert_eq!(driver.create(A100, G1), Err(NOT_SUPPORTED));
}

#[test]
fn all_media_engines_exclude_all_but_those_that_have_none() {
    let (_test, driver) = empty(RTX);
    const ALL: u32 = 65;
    const NONE: u32 = 67;
    const PLAIN: u32 = 14;
    driver.create_at(RTX, ALL, (3, 3)).unwrap();
    assert_eq!(driver.create_at(RTX, PLAIN, (0, 3)), Err(INSUFFICIENT_RESOURCES));
    assert_eq!(driver.capacity(RTX, PLAIN), Ok(0));
    driver.create_at(RTX, NONE, (0, 3)).unwrap();
    assert_eq!(driver.capacity(RTX, NONE), Ok(2));
}

#[test]
fn compute_instances_share_a_gpu_instance() {
    let (_test, driver) = empty(H100);
    let three = driver.create_at(H100, G3, (0, 4)).unwrap();
    // The ids of compute profiles are the simulator's own.
    let (one, two, whole) = (0, 1, 2);
    assert_eq!(driver.compute_capacity(three, one), 3);
    let second = driver.create_compute_at(three, one, (1, 1)).unwrap();
    let first = driver.create_compute(three, one).unwrap();
    let info = driver.compute_info(first).unwrap();
    assert_eq!((info.id, info.profileId, info.placement.start, info.placement.size), (1, one, 0, 1));
    assert_eq!(info.gpuInstance, three);
    assert_eq!(driver.create_compute_at(three, one, (1, 1)), Err(INSUFFICIENT_RESOURCES));
    assert_eq!(driver.create_compute_at(three, one, (3, 1)), Err(INVALID_ARGUMENT));
    assert_eq!(driver.create_compute(three, whole), Err(INSUFFICIENT_RESOURCES));
    assert_eq!(driver.create_compute(three, 3), Err(INVALID_ARGUMENT), "a 4c does not go into a 3g");
    assert_eq!((driver.compute_capacity(three, one), driver.compute_capacity(three, two)), (1, 0));
    assert_eq!(driver.destroy_compute(second), OK);
    assert_eq!(driver.compute_info(second).err(), Some(INVALID_ARGUMENT), "what is gone has no handle");
    assert_eq!(driver.destroy(three), IN_USE, "one is left");
    assert_eq!(driver.destroy_compute(first), OK);
    assert_eq!(driver.destroy(three), OK);
    assert_eq!(driver.info(three).err(), Some(INVALID_ARGUMENT));
    let mut found = null_mut();
    assert_eq!(call!(driver, nvmlDeviceGetGpuInstanceById(driver.gpu(H100), 1, &raw mut found)), NOT_FOUND);
}

#[test]
fn numbers_come_back_and_uuids_never() {
    let (test, driver) = empty(H100);
    let (mut uuids, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..3 {
        let instance = driver.create_at(H100, G2, (2, 2)).unwrap();
        let compute = driver.create_compute(instance, 1).unwrap();
        uuids.insert(driver.uuid(compute));
        numbers.insert((places(&test, H100)[0].0, driver.compute_info(compute).unwrap().id));
        assert_eq!((driver.destroy_compute(compute), driver.destroy(instance)), (OK, OK));
    }
    assert_eq!((uuids.len(), numbers.len()), (3, 1));
    assert!(uuids.iter().all(|uuid| uuid.starts_with("MIG-")));
}

#[test]
fn what_is_in_use_stays() {
    let (test, driver) = empty(H100);
    let instance = driver.create_at(H100, G2, (0, 2)).unwrap();
    let compute = driver.create_compute(instance, 1).unwrap();
    hold(&test, H100, 4711, Some((3, 0)));
    assert_eq!(driver.destroy_compute(compute), IN_USE);
    test.node.command(Command::Release { pid: 4711, gpu: None }).unwrap();

    let observe =
        |instance| Observe { gpu: H100, pid: 900, instance, name: "nv-hostengine".to_owned(), cgroup: None };
    test.node.command(Command::Observe(observe(Some((3, None))))).unwrap();
    assert_eq!(driver.destroy_compute(compute), OK, "the client has the GPU instance open only");
    assert_eq!(driver.destroy(instance), IN_USE, "and that stays, without a compute instance");
    assert_eq!(state(&test, H100).mig.unwrap().instances[0].compute, []);
    test.node.command(Command::Release { pid: 900, gpu: None }).unwrap();
    test.node.command(Command::Observe(observe(None))).unwrap();
    assert_eq!(driver.destroy(instance), OK, "a monitor of the GPU is in nobody's way");
    let missing = test.node.command(Command::Observe(observe(Some((3, Some(0)))))).unwrap_err();
    assert_eq!(missing.reason(), "NoSuchInstance");
}

#[test]
fn each_change_is_an_event_and_is_counted() {
    let (test, driver) = empty(H100);
    let mut set = null_mut();
    assert_eq!(call!(driver, nvmlEventSetCreate(&raw mut set)), OK);
    let kind = u64::from(nvmlEventMigConfigChange);
    assert_eq!(call!(driver, nvmlDeviceRegisterEvents(driver.gpu(H100), kind, set)), OK);
    let before = state(&test, H100).changing_calls;
    let instance = driver.create(H100, G7).unwrap();
    driver.create_compute(instance, 4).unwrap();
    assert_eq!(driver.create(H100, G7), Err(INSUFFICIENT_RESOURCES), "nothing happens");
    let mut data = driver::zeroed!(nvmlEventData_t);
    for _ in 0..2 {
        assert_eq!(call!(driver, nvmlEventSetWait_v2(set, &raw mut data, 0)), OK);
        assert_eq!((data.eventType, data.gpuInstanceId), (kind, u32::MAX));
    }
    assert_eq!(call!(driver, nvmlEventSetWait_v2(set, &raw mut data, 0)), 10, "TIMEOUT");
    assert_eq!(call!(driver, nvmlEventSetFree(set)), OK);
    assert_eq!(state(&test, H100).changing_calls - before, 3);
    assert_eq!(state(&test, A100).changing_calls, 0);
}
