//! What a client meets when the driver refuses, hangs, loses a GPU or goes away.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod common;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use common::TestNode;
use gpulet_simulator::command::{Applied, Command, Load};
use gpulet_simulator::state::Effect;
use nvml_wrapper::enums::device::DeviceArchitecture;
use nvml_wrapper::error::NvmlError;

/// Few processors and eight GPUs: made in no time.
const EVERY_BOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nodes/every-board.yaml");

fn set_fault(test: &TestNode, gpu: Option<u32>, symbol: &str, effect: Effect) -> u64 {
    match test.node.command(Command::SetFault { gpu, symbol: Some(symbol.to_owned()), effect }).unwrap() {
        Applied::Fault { id } => id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn any_call_of_any_gpu_returns_any_code_until_the_fault_is_cleared() {
    let test = TestNode::start(EVERY_BOARD);
    let nvml = test.nvml();
    let (two, three) = (nvml.device_by_index(2).unwrap(), nvml.device_by_index(3).unwrap());
    let id = set_fault(&test, Some(3), "nvmlDeviceGetPowerUsage", Effect::Return(999));
    assert!(matches!(three.power_usage(), Err(NvmlError::Unknown)));
    assert!(three.total_energy_consumption().is_ok(), "other calls go on");
    assert!(two.power_usage().is_ok(), "other GPUs go on");
    test.node.command(Command::ClearFault { id: Some(id) }).unwrap();
    assert!(three.power_usage().is_ok());

    set_fault(&test, None, "nvmlDeviceGetCount_v2", Effect::Return(17));
    assert!(matches!(nvml.device_count(), Err(NvmlError::OperatingSystem)));
    set_fault(&test, Some(5), "nvmlDeviceGetHandleByIndex_v2", Effect::Return(4));
    assert!(matches!(nvml.device_by_index(5), Err(NvmlError::NoPermission)));
    assert!(nvml.device_by_index(4).is_ok());
    test.node.command(Command::ClearFault { id: None }).unwrap();
    assert!(nvml.device_count().is_ok() && nvml.device_by_index(5).is_ok());
}

#[test]
fn a_blocked_call_returns_when_it_is_released_and_blocks_nobody_else() {
    let test = TestNode::start(EVERY_BOARD);
    let nvml = Arc::new(test.nvml());
    let id = set_fault(&test, Some(3), "nvmlDeviceGetPowerUsage", Effect::Block);
    let (done, blocked) = std::sync::mpsc::channel();
    let caller = {
        let nvml = Arc::clone(&nvml);
        thread::spawn(move || done.send(nvml.device_by_index(3).unwrap().power_usage()).unwrap())
    };
    for index in (0..8).filter(|index| *index != 3) {
        nvml.device_by_index(index).unwrap().power_usage().unwrap();
    }
    assert!(nvml.device_by_index(3).unwrap().name().is_ok(), "other calls to the GPU go on");
    assert!(blocked.recv_timeout(Duration::from_millis(300)).is_err(), "it must not return by itself");
    test.node.command(Command::ClearFault { id: Some(id) }).unwrap();
    assert!(blocked.recv_timeout(Duration::from_secs(20)).unwrap().is_ok());
    caller.join().unwrap();
}

#[test]
fn a_blocked_call_ends_with_its_server() {
    let test = TestNode::start(EVERY_BOARD);
    let nvml = test.nvml();
    set_fault(&test, None, "nvmlDeviceGetCount_v2", Effect::Block);
    let caller = thread::spawn(move || nvml.device_count());
    drop(test);
    assert!(matches!(caller.join().unwrap(), Err(NvmlError::DriverNotLoaded)));
}

#[test]
fn a_lost_gpu_fails_every_call_and_the_others_go_on() {
    let test = TestNode::start(EVERY_BOARD);
    let nvml = test.nvml();
    let devices: Vec<_> = (0..8).map(|index| nvml.device_by_index(index).unwrap()).collect();
    test.node.command(Command::Lose { gpu: 3 }).unwrap();
    for (index, device) in devices.iter().enumerate() {
        let answers = [
            device.name().err(),
            device.power_usage().err(),
            device.memory_info().err(),
            device.uuid().err(),
        ];
        for answer in answers {
            assert_eq!(matches!(answer, Some(NvmlError::GpuLost)), index == 3, "GPU {index}: {answer:?}");
        }
    }
    assert!(matches!(nvml.device_by_index(3), Err(NvmlError::GpuLost)));
    assert_eq!(nvml.device_count().unwrap(), 8);
    test.node.command(Command::Restore { gpu: 3 }).unwrap();
    assert!(devices[3].name().is_ok());
}

#[test]
fn a_driver_in_use_is_not_unloaded_and_old_handles_are_worthless_after_a_reload() {
    let test = TestNode::start(EVERY_BOARD);
    let own = std::process::id();
    let nvml = test.nvml();
    let again = test.nvml();
    let old = nvml.device_by_index(0).unwrap();
    let refused = test.node.command(Command::UnloadDriver { force: false }).unwrap_err();
    assert_eq!(refused.reason(), "InUse");
    assert!(refused.to_string().contains(&own.to_string()), "{refused}");

    test.node.command(Command::UnloadDriver { force: true }).unwrap();
    assert!(matches!(old.name(), Err(NvmlError::DriverNotLoaded)));
    assert!(matches!(test.try_nvml(), Err(NvmlError::DriverNotLoaded)));
    test.node.command(Command::LoadDriver { version: None }).unwrap();
    assert!(matches!(old.name(), Err(NvmlError::Uninitialized)), "the session belongs to the old driver");
    let fresh = test.nvml();
    assert!(matches!(old.name(), Err(NvmlError::InvalidArg)), "the handle belongs to the old driver");
    assert!(fresh.device_by_index(0).unwrap().name().is_ok());

    drop((nvml, again, fresh));
    assert_eq!(test.node.driver_users(), [] as [u32; 0], "the last shutdown closes the driver");
    release_all(&test);
    test.node.command(Command::UnloadDriver { force: false }).unwrap();
}

fn release_all(test: &TestNode) {
    let pids: Vec<u32> =
        test.node.state().gpus.iter().flat_map(|gpu| &gpu.processes).map(|p| p.pid).collect();
    for pid in pids {
        // One process may hold several GPUs: the first release frees them all.
        let _held = test.node.command(Command::Release { pid, gpu: None });
    }
}

#[test]
fn the_last_shutdown_closes_every_device_file() {
    let test = TestNode::start(EVERY_BOARD);
    let dev = test.node.dir().join("host/dev");
    let open = || {
        let fds = std::fs::read_dir("/proc/self/fd").unwrap();
        fds.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok())
            .filter(|path| path.starts_with(&dev))
            .count()
    };
    let (first, second) = (test.nvml(), test.nvml());
    assert_eq!(open(), 1, "the control device");
    for index in 0..8 {
        first.device_by_index(index).unwrap();
        second.device_by_index(index).unwrap();
    }
    assert_eq!(open(), 9);
    assert_eq!(test.node.driver_users(), [std::process::id()]);
    drop(first);
    assert_eq!(open(), 9);
    drop(second);
    assert_eq!(open(), 0);
    assert!(test.node.driver_users().is_empty());
}

#[test]
fn an_older_driver_lacks_symbols() {
    let test = TestNode::start(EVERY_BOARD);
    {
        let nvml = test.nvml();
        nvml.device_by_index(0).unwrap().memory_info().unwrap();
    }
    test.node.command(Command::UnloadDriver { force: true }).unwrap();
    test.node.command(Command::LoadDriver { version: Some("470.57.02".to_owned()) }).unwrap();
    // The loader keeps a library that it has loaded under this path; a copy elsewhere is opened anew.
    let missing = test.node.state().driver.missing_symbols;
    assert!(missing.iter().any(|symbol| symbol == "nvmlDeviceGetMemoryInfo_v2"), "{missing:?}");
    let fresh = test.node.dir().join("lib/copy.so");
    std::fs::copy(test.node.library(), &fresh).unwrap();
    let nvml = nvml_wrapper::Nvml::builder().lib_path(fresh.as_os_str()).init().unwrap();
    let device = nvml.device_by_index(1).unwrap();
    assert!(matches!(device.memory_info(), Err(NvmlError::FailedToLoadSymbol(_))));
    assert_eq!(device.architecture().unwrap(), DeviceArchitecture::Hopper);
}

#[test]
fn what_could_not_be_shown_is_shown_as_soon_as_it_can() {
    let test = TestNode::start(EVERY_BOARD);
    let (host, lib) = (test.node.host_root(), test.node.dir().join("lib"));
    let away = |path: &std::path::Path| path.with_extension("away");
    let device = host.join("dev/nvidia0");
    let older = |library: &std::path::Path| {
        let bytes = std::fs::read(library).unwrap();
        bytes.windows(26).any(|window| window == b"-vmlDeviceGetMemoryInfo_v2")
    };

    // A file stands where the host's directory should be.
    std::fs::rename(&host, away(&host)).unwrap();
    std::fs::write(&host, "").unwrap();
    let failed = test.node.command(Command::UnloadDriver { force: true }).unwrap_err();
    assert_eq!(failed.reason(), "HostTree");
    std::fs::remove_file(&host).unwrap();
    std::fs::rename(away(&host), &host).unwrap();
    assert!(device.exists());
    test.node.step(Duration::ZERO).unwrap();
    assert!(!device.exists());
    assert!(matches!(test.try_nvml(), Err(NvmlError::DriverNotLoaded)));

    std::fs::rename(&lib, away(&lib)).unwrap();
    std::fs::write(&lib, "").unwrap();
    let load = Command::LoadDriver { version: Some("470.57.02".to_owned()) };
    assert_eq!(test.node.command(load).unwrap_err().reason(), "LibraryNotCopied");
    std::fs::remove_file(&lib).unwrap();
    std::fs::rename(away(&lib), &lib).unwrap();
    assert!(!older(&test.node.library()));
    test.node.step(Duration::ZERO).unwrap();
    assert!(older(&test.node.library()) && device.exists());
}

#[test]
fn without_permission_the_driver_does_not_let_in() {
    let test = TestNode::start(EVERY_BOARD);
    let nvml = test.nvml();
    test.node.command(Command::Permission { denied: true }).unwrap();
    assert!(nvml.device_by_index(0).is_err_and(|error| matches!(error, NvmlError::NoPermission)));
    drop(nvml);
    assert!(matches!(test.try_nvml(), Err(NvmlError::NoPermission)));
    test.node.command(Command::Permission { denied: false }).unwrap();
    assert!(test.try_nvml().is_ok());
}

#[test]
fn a_node_without_driver_has_no_library() {
    let test = TestNode::start("cpu-only");
    assert!(!test.node.library().exists());
    assert!(matches!(test.try_nvml(), Err(NvmlError::LibloadingError(_))));
}

#[test]
fn a_gpu_that_is_not_bound_is_none_of_the_drivers() {
    let test = TestNode::start("l40s-4x");
    let nvml = test.nvml();
    let uuids: Vec<String> =
        (0..4).map(|index| nvml.device_by_index(index).unwrap().uuid().unwrap()).collect();
    let second = nvml.device_by_index(1).unwrap();
    let third = nvml.device_by_index(2).unwrap();
    let bound = test.node.host_root().join("proc/driver/nvidia/gpus");
    assert_eq!(std::fs::read_dir(&bound).unwrap().count(), 4);
    test.node.command(Command::Load { gpu: None, load: Load::Idle }).unwrap();
    test.node.command(Command::Bind { gpu: 1, bound: false }).unwrap();
    assert_eq!(std::fs::read_dir(&bound).unwrap().count(), 3);

    assert_eq!(nvml.device_count().unwrap(), 3);
    let left = |index: u32| nvml.device_by_index(index).unwrap().uuid().unwrap();
    assert_eq!([left(0), left(1), left(2)], [&uuids[0], &uuids[2], &uuids[3]].map(Clone::clone));
    assert!(nvml.device_by_index(3).is_err());
    assert!(matches!(nvml.device_by_uuid(uuids[1].as_str()), Err(NvmlError::NotFound)));
    assert!(matches!(second.power_usage(), Err(NvmlError::GpuLost)));
    assert_eq!(third.index().unwrap(), 1);

    test.node.command(Command::Bind { gpu: 1, bound: true }).unwrap();
    assert_eq!(nvml.device_count().unwrap(), 4);
    assert_eq!((second.index().unwrap(), third.index().unwrap()), (1, 2));
}
