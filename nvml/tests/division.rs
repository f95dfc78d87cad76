//! How a GPU is divided, read past all that was learned of it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use std::time::Duration;

use gpulet_inventory::gpu::GpuUuid;
use gpulet_nvml::{ChangeError, Driver};
use gpulet_partition::observed::{Engines, Holder};
use gpulet_simulator::command::{Command, Load};
use gpulet_simulator::state::{Effect, ProcessKind};
use support::dividing::{hold, place};
use support::{Rig, all_up, is_unresponsive};

const NODE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nodes/mig.yaml");
const PATIENCE: Duration = Duration::from_secs(20);

fn pids(holders: &[Holder]) -> Vec<u32> {
    let pid = |holder: &Holder| match holder {
        Holder::Process { pid, program: None, pod: None } => *pid,
        other => panic!("{other:?}"),
    };
    holders.iter().map(pid).collect()
}

#[tokio::test]
async fn it_is_the_hardwares_and_needs_no_sample() {
    let rig = Rig::new(NODE);
    let divided = rig.division(0).await;
    let truth = rig.node.state().gpus[0].mig.clone().unwrap();
    assert!(divided.mode.is_some_and(|mode| mode.current && mode.pending));
    assert_eq!(divided.instances.len(), 3);
    for instance in &divided.instances {
        let own = truth.instances.iter().find(|own| own.id == instance.id.0).unwrap();
        assert_eq!(instance.profile, truth.profiles[&own.profile].id);
        assert_eq!(instance.placement, place(own.placement.0, own.placement.1));
        let told: Vec<_> =
            instance.computes.iter().map(|own| (own.id.0, own.profile, own.placement)).collect();
        let wanted: Vec<_> = own
            .compute
            .iter()
            .map(|own| (own.id, own.profile, place(own.placement.0, own.placement.1)))
            .collect();
        assert_eq!(told, wanted, "compute instances are known by the number of their kind");
        assert!(!instance.is_busy());
    }
    assert_eq!(divided.profiles.len(), truth.profiles.len());
    for profile in &divided.profiles {
        let own = truth.profiles.values().find(|own| own.id == profile.id).unwrap();
        assert_eq!((&profile.name, profile.slices), (&own.name, own.slices));
        assert_eq!(profile.memory_bytes, own.memory_mib << 20);
        assert_eq!(
            (profile.max_instances, profile.multiprocessors),
            (own.max_instances, own.multiprocessors)
        );
        let [_, decoders, encoders, jpeg, optical_flow] = own.engines;
        assert_eq!(profile.engines, Engines { decoders, encoders, jpeg, optical_flow });
        let places: Vec<_> = own.placements.iter().map(|(start, size)| place(*start, *size)).collect();
        assert_eq!(profile.placements, places);
    }
    // The other GPU is whole, and says what it could be divided into.
    let whole = rig.division(1).await;
    assert!(whole.mode.is_some_and(|mode| !mode.current && !mode.pending));
    assert_eq!((whole.profiles.len(), whole.instances.len()), (divided.profiles.len(), 0));
}

#[tokio::test]
async fn a_gpu_that_cannot_be_divided_says_so_and_who_uses_it() {
    let rig = Rig::new("l40s-4x");
    rig.command(Command::Load { gpu: None, load: Load::Idle });
    rig.command(hold(2, 77, ProcessKind::Graphics, None));
    let whole = rig.division(2).await;
    assert_eq!((whole.mode, whole.profiles.len(), whole.instances.len()), (None, 0, 0));
    assert_eq!(pids(&whole.holders), [77]);
    assert_eq!(rig.division(1).await.holders, []);
}

#[tokio::test]
async fn everyone_is_at_the_instance_that_he_uses() {
    let rig = Rig::new(NODE);
    let truth = rig.node.state().gpus[0].mig.clone().unwrap();
    let two = truth.instances.iter().find(|instance| instance.compute.len() == 2).unwrap();
    rig.command(hold(0, 41, ProcessKind::Compute, Some((two.id, two.compute[1].id))));
    rig.command(hold(1, 42, ProcessKind::Mps, None));
    let divided = rig.division(0).await;
    let busy: Vec<_> = divided.instances.iter().filter(|instance| instance.is_busy()).collect();
    assert_eq!((busy.len(), busy[0].id.0), (1, two.id));
    let computes: Vec<_> = busy[0].computes.iter().map(|own| (own.id.0, pids(&own.holders))).collect();
    assert_eq!(computes, [(two.compute[0].id, vec![]), (two.compute[1].id, vec![41])]);
    assert_eq!((divided.holders.len(), pids(&rig.division(1).await.holders)), (0, vec![42]));
}

#[tokio::test]
async fn drivers_up_to_535_tell_no_profiles_while_the_mode_is_off() {
    let rig = Rig::new(NODE);
    rig.change_driver("535.183.01");
    assert_eq!(rig.division(1).await.profiles, []);
}

#[tokio::test]
async fn a_driver_that_is_not_open_is_told_with_its_remedy() {
    let rig = Rig::new(NODE);
    let gpu = rig.uuid(0);
    rig.driver.quiesce(PATIENCE).await.unwrap();
    let error = rig.driver.division(&gpu).await.unwrap_err();
    assert_eq!(error.reason(), "Quiesced", "{error}");
    assert!(
        error.to_string().contains("gpulet resume") && error.to_string().contains(gpu.as_str()),
        "{error}"
    );
    rig.driver.resume().await;
    rig.driver.division(&gpu).await.unwrap();

    rig.driver.quiesce(PATIENCE).await.unwrap();
    rig.unload();
    let lone = Driver::new(rig.options.clone());
    let error = lone.division(&gpu).await.unwrap_err();
    assert_eq!(error.reason(), "DriverNotLoaded", "{error}");
}

#[tokio::test]
async fn a_gpu_that_is_not_there_is_told_as_such() {
    let rig = Rig::new(NODE);
    let gpu: GpuUuid = "GPU-00000000-0000-0000-0000-00000000dead".parse().unwrap();
    let error = rig.driver.division(&gpu).await.unwrap_err();
    assert!(matches!(error, ChangeError::NoSuchGpu { .. }), "{error}");
    assert!(error.is_unchanged() && error.to_string().contains("nvidia-smi -L"), "{error}");
}

#[tokio::test]
async fn a_call_that_is_refused_is_named() {
    let rig = Rig::new(NODE);
    let gpu = rig.uuid(0);
    rig.tick().await;
    let refused = [
        ("nvmlDeviceGetMigMode", 999, "DriverError"),
        ("nvmlDeviceGetGpuInstanceProfileInfoV", 15, "GpuLost"),
        ("nvmlDeviceGetGpuInstancePossiblePlacements_v2", 4, "NoPermission"),
        ("nvmlDeviceGetGpuInstances", 29, "InvalidState"),
        ("nvmlGpuInstanceGetInfo", 16, "ResetRequired"),
        ("nvmlGpuInstanceGetComputeInstanceProfileInfo", 10, "DriverTimeout"),
        ("nvmlGpuInstanceGetComputeInstances", 999, "DriverError"),
        ("nvmlComputeInstanceGetInfo_v2", 999, "DriverError"),
        ("nvmlGpuInstanceGetComputeInstancePossiblePlacements", 999, "DriverError"),
        ("nvmlDeviceGetComputeRunningProcesses_v3", 4, "NoPermission"),
    ];
    for (call, code, reason) in refused {
        let fault = rig.fault(Some(0), call, Effect::Return(code));
        let error = rig.driver.division(&gpu).await.unwrap_err();
        assert_eq!(error.reason(), reason, "{call}: {error}");
        let text = error.to_string();
        assert!(text.contains(call) && text.contains(gpu.as_str()) && text.contains("; "), "{text}");
        rig.clear(fault);
    }
    rig.driver.division(&gpu).await.unwrap();
}

#[tokio::test]
async fn where_processes_are_not_listed_anyone_may_use_any() {
    let rig = Rig::new(NODE);
    for kind in ["Compute", "Graphics", "MPSCompute"] {
        for form in ["v3", "v2"] {
            rig.fault(Some(0), &format!("nvmlDeviceGet{kind}RunningProcesses_{form}"), Effect::Return(3));
        }
    }
    let divided = rig.division(0).await;
    assert!(matches!(divided.holders.as_slice(), [Holder::Unknown { .. }]), "{:?}", divided.holders);
    assert!(divided.instances.iter().all(|instance| instance.is_busy()));
}

#[tokio::test]
async fn a_call_that_hangs_costs_that_gpu_only_and_is_named() {
    let rig = Rig::with(NODE, |options| {
        options.deadline = Duration::from_secs(1);
        options.change_deadline = Duration::from_secs(1);
    });
    rig.tick_until(|gpus| all_up(gpus, 2)).await;
    let (hurt, other) = (rig.uuid(0), rig.uuid(1));
    let call = "nvmlGpuInstanceGetInfo";
    let fault = rig.fault(Some(0), call, Effect::Block);
    let error = rig.driver.division(&hurt).await.unwrap_err();
    assert!(matches!(&error, ChangeError::TimedOut { call: stuck, .. } if *stuck == call), "{error}");
    let error = rig.driver.division(&hurt).await.unwrap_err();
    assert!(matches!(&error, ChangeError::Busy { call: stuck, .. } if *stuck == call), "{error}");
    assert_eq!((error.reason(), error.is_unchanged()), ("Unresponsive", true));
    rig.driver.division(&other).await.unwrap();
    let gpus = rig.tick().await;
    assert!(is_unresponsive(&gpus.gpus[0], call), "{:?}", gpus.gpus[0].condition);
    assert_eq!((gpus.gpus[1].condition.down_reason(), gpus.calls.stuck_threads), (None, 1));
    rig.clear(fault);
    rig.tick_until(|gpus| all_up(gpus, 2) && gpus.calls.stuck_threads == 0).await;
    rig.driver.division(&hurt).await.unwrap();
}

#[tokio::test]
async fn a_reloaded_driver_is_opened_anew_for_it() {
    let rig = Rig::new(NODE);
    let gpu = rig.uuid(1);
    rig.driver.division(&gpu).await.unwrap();
    rig.command(Command::UnloadDriver { force: true });
    rig.command(Command::LoadDriver { version: None });
    // The handles that it has are of the driver before.
    let error = rig.driver.division(&gpu).await.unwrap_err();
    assert_eq!(error.reason(), "DriverNotLoaded", "{error}");
    rig.driver.division(&gpu).await.unwrap();
}

/// A GPU that was reset and that nobody has open takes seconds over the first call.
#[tokio::test]
async fn a_gpu_that_takes_long_over_the_first_call_is_waited_for() {
    let rig = Rig::with_deadline(NODE, Duration::from_millis(100));
    let fault = rig.fault(Some(0), "nvmlDeviceGetHandleByIndex_v2", Effect::Delay(400));
    rig.driver.division(&rig.uuid(0)).await.unwrap();
    rig.clear(fault);
}
