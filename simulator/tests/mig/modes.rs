//! MIG mode: when it is in force at once, when it waits, and what it does not outlive.

use gpulet_simulator::command::{Command, Observe};
use nvml_wrapper_sys::bindings::*;

use super::driver::call;
use super::*;

const VIRTUAL: &str = "p4d-24xl";

#[test]
fn hopper_changes_at_once_unless_anybody_works_there() {
    let (test, driver) = empty(H100);
    assert_eq!(driver.mode(H100), (1, 1));
    assert_eq!(state(&test, H100).resets, 0);
    let instance = driver.create(H100, 0).unwrap();
    assert_eq!(driver.set_mode(H100, 0), (OK, IN_USE), "there is an instance");
    assert_eq!(driver.mode(H100), (1, 1), "nothing waits for a reset here");
    assert_eq!(driver.destroy(instance), OK);
    assert_eq!(driver.set_mode(H100, 0), (OK, OK));
    hold(&test, H100, 4711, None);
    assert_eq!(driver.set_mode(H100, 1), (OK, IN_USE));
    assert_eq!(driver.mode(H100), (0, 0));
}

#[test]
fn ampere_is_reset_if_nobody_has_it_open() {
    let test = idle();
    let driver = Driver::open(&test);
    assert_eq!(driver.set_mode(A100, 1), (OK, IN_USE), "persistence mode is on");
    assert_eq!(driver.mode(A100), (0, 1));
    assert_eq!(driver.set_mode(A100, 0), (OK, OK), "what waits is given up");
    assert_eq!(driver.mode(A100), (0, 0));
    assert_eq!(driver.set_persistence(A100, 0), OK);

    hold(&test, A100, 4711, None);
    assert_eq!(driver.set_mode(A100, 1), (OK, IN_USE), "a process works there");
    test.node.command(Command::Release { pid: 4711, gpu: None }).unwrap();
    let monitor =
        Observe { gpu: A100, pid: 900, instance: None, name: "nv-hostengine".to_owned(), cgroup: None };
    test.node.command(Command::Observe(monitor)).unwrap();
    assert_eq!(driver.set_mode(A100, 1), (OK, IN_USE), "a monitor has it open");
    test.node.command(Command::Release { pid: 900, gpu: None }).unwrap();
    test.node.command(Command::Modeset { on: true }).unwrap();
    assert_eq!(driver.set_mode(A100, 1), (OK, IN_USE), "nvidia_drm has it open");
    test.node.command(Command::Modeset { on: false }).unwrap();

    assert_eq!(driver.set_mode(A100, 1), (OK, OK), "the caller itself is in nobody's way");
    assert_eq!(driver.mode(A100), (1, 1));
    assert_eq!((state(&test, A100).resets, state(&test, H100).resets), (1, 0));
    driver.create(A100, 9).unwrap();
    assert_eq!(driver.set_mode(A100, 0), (OK, IN_USE), "there is an instance");
    assert_eq!(driver.mode(A100), (1, 0));
}

#[test]
fn what_waits_comes_with_the_reset_and_instances_go() {
    let test = idle();
    let driver = Driver::open(&test);
    assert_eq!(driver.set_mode(A100, 1), (OK, IN_USE));
    let refused = |test: &TestNode| test.node.command(Command::Reset { gpu: A100 }).unwrap_err();
    assert!(refused(&test).to_string().contains(&std::process::id().to_string()), "this client has it open");
    drop(driver);
    assert_eq!(refused(&test).reason(), "Persistent");
    test.node.command(Command::Persistence { gpu: A100, on: false }).unwrap();
    test.node.command(Command::Modeset { on: true }).unwrap();
    assert_eq!(refused(&test).reason(), "ModesetActive");
    test.node.command(Command::Modeset { on: false }).unwrap();
    test.node.command(Command::Reset { gpu: A100 }).unwrap();
    let driver = Driver::open(&test);
    assert_eq!(driver.mode(A100), (1, 1));
    assert_eq!(state(&test, A100).resets, 1);
    driver.create(A100, 0).unwrap();
    drop(driver);
    test.node.command(Command::Reset { gpu: A100 }).unwrap();
    assert_eq!(places(&test, A100), []);
    assert!(!state(&test, A100).now.persistence, "it stays as it was set");
}

#[test]
fn a_reload_keeps_amperes_mode_only() {
    let test = idle();
    let driver = Driver::open(&test);
    driver.set_persistence(A100, 0);
    assert_eq!((driver.set_mode(A100, 1), driver.set_mode(H100, 1)), ((OK, OK), (OK, OK)));
    driver.create(A100, 0).unwrap();
    driver.create(H100, 0).unwrap();
    drop(driver);
    test.node.command(Command::UnloadDriver { force: false }).unwrap();
    test.node.command(Command::LoadDriver { version: None }).unwrap();
    let driver = Driver::open(&test);
    assert_eq!((driver.mode(A100), driver.mode(H100)), ((1, 1), (0, 0)));
    assert_eq!((places(&test, A100), places(&test, H100)), (vec![], vec![]));
}

#[test]
fn a_virtual_machine_has_to_be_started_anew() {
    let test = TestNode::start(VIRTUAL);
    test.node.command(Command::Load { gpu: None, load: gpulet_simulator::command::Load::Idle }).unwrap();
    let driver = Driver::open(&test);
    driver.set_persistence(0, 0);
    assert_eq!(driver.set_mode(0, 1), (OK, RESET_REQUIRED));
    assert_eq!(driver.mode(0), (0, 1));
    drop(driver);
    assert_eq!(test.node.command(Command::Reset { gpu: 0 }).unwrap_err().reason(), "ResetNotPossible");
    let boot = || std::fs::read(test.node.host_root().join("proc/sys/kernel/random/boot_id")).unwrap();
    let (before, lock) = (boot(), test.node.host_root().join("run/gpulet/partition.lock"));
    std::fs::create_dir_all(lock.parent().unwrap()).unwrap();
    std::fs::write(&lock, "").unwrap();
    test.node.command(Command::Reboot).unwrap();
    assert_ne!(boot(), before);
    assert!(!lock.exists(), "/run is empty");
    assert_eq!(Driver::open(&test).mode(0), (1, 1));
}

#[test]
fn modes_are_refused_where_there_are_none() {
    let test = idle();
    let driver = Driver::open(&test);
    assert_eq!(driver.set_mode(L40S, 1).0, NOT_SUPPORTED);
    assert_eq!(driver.set_mode(H100, 2).0, INVALID_ARGUMENT);
    assert_eq!(
        call!(driver, nvmlDeviceSetMigMode(driver.gpu(H100), 1, std::ptr::null_mut())),
        INVALID_ARGUMENT
    );
    assert_eq!(driver.set_persistence(H100, 2), INVALID_ARGUMENT);
    let device: nvmlDevice_t = driver.gpu(H100);
    test.node.command(Command::Permission { denied: true }).unwrap();
    let mut activation = 0;
    assert_eq!(call!(driver, nvmlDeviceSetMigMode(device, 1, &raw mut activation)), NO_PERMISSION);
    test.node.command(Command::Permission { denied: false }).unwrap();
    test.node.command(Command::Lose { gpu: H100 }).unwrap();
    assert_eq!(call!(driver, nvmlDeviceSetMigMode(device, 1, &raw mut activation)), GPU_IS_LOST);
}

#[test]
fn persistence_mode_is_set_for_one_gpu() {
    let test = idle();
    let driver = Driver::open(&test);
    assert_eq!(driver.set_persistence(A100, 0), OK);
    assert!(!state(&test, A100).now.persistence && state(&test, H100).now.persistence);
    assert_eq!(driver.set_persistence(A100, 1), OK);
    assert!(state(&test, A100).now.persistence);
}
