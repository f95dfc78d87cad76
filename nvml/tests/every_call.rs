//! Any call may return anything.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use std::time::{Duration, Instant};

use gpulet_inventory::snapshot::{Condition, DownReason, NodeGpus};
use gpulet_simulator::command::Command;
use gpulet_simulator::state::Effect;
use support::{Rig, all_up};

const NODE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nodes/mig.yaml");

/// Every symbol that a tick may use.
const SYMBOLS: &[&str] = &[
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetBAR1MemoryInfo",
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetDecoderUtilization",
    "nvmlDeviceGetEccMode",
    "nvmlDeviceGetEncoderUtilization",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
    "nvmlDeviceGetGpuInstanceProfileInfoV",
    "nvmlDeviceGetGpuInstances",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetJpgUtilization",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetMaxClockInfo",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetName",
    "nvmlDeviceGetNvLinkRemoteDeviceType",
    "nvmlDeviceGetNvLinkRemotePciInfo_v2",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetNvLinkVersion",
    "nvmlDeviceGetOfaUtilization",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetPcieReplayCounter",
    "nvmlDeviceGetPerformanceState",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetSerial",
    "nvmlDeviceGetSupportedEventTypes",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetVbiosVersion",
    "nvmlDeviceRegisterEvents",
    "nvmlEventSetCreate",
    "nvmlEventSetWait_v2",
    "nvmlGpuInstanceGetComputeInstanceProfileInfo",
    "nvmlGpuInstanceGetComputeInstances",
    "nvmlGpuInstanceGetInfo",
    "nvmlComputeInstanceGetInfo_v2",
];

/// What it may return: refusals that stay, failures that pass, ends of a GPU or of the driver, sizes that never fit, and
/// a code that no one knows.
const CODES: &[u32] = &[1, 2, 3, 4, 6, 7, 9, 10, 13, 15, 16, 18, 25, 999, 4711];

#[tokio::test]
async fn whatever_a_call_returns_the_other_gpu_is_read() {
    // All at once: most of the time each waits for the thread that waits for events.
    let mut codes = tokio::task::JoinSet::new();
    for code in CODES {
        codes.spawn(every_symbol_returns(*code));
    }
    for outcome in codes.join_all().await {
        assert_eq!(outcome, SYMBOLS.len());
    }
}

async fn every_symbol_returns(code: u32) -> usize {
    let rig = Rig::new(NODE);
    rig.tick().await;
    for symbol in SYMBOLS {
        let fault = rig.fault(Some(0), symbol, Effect::Return(code));
        // As if the driver had just been opened, so that what is read once is read under the fault.
        rig.driver.quiesce(Duration::from_secs(60)).await.unwrap();
        rig.driver.resume().await;
        check(&rig.tick().await, &format!("{symbol} returns {code}"));
        rig.clear(fault);
    }
    assert!(all_up(&rig.tick().await, 2), "after {code}");
    SYMBOLS.len()
}

fn check(gpus: &NodeGpus, what: &str) {
    let listed = |index: u32| gpus.gpus.iter().find(|gpu| gpu.gpu.index == index);
    let (hurt, other) = (listed(0).expect(what), listed(1).expect(what));
    assert!(other.condition == Condition::Up, "{what}: {:?}", other.condition);
    assert!(other.sample.is_some(), "{what}");
    match hurt.condition {
        Condition::Up => assert!(hurt.sample.is_some(), "{what}"),
        Condition::Down(DownReason::Unresponsive { .. } | DownReason::DriverDown) => {
            panic!("{what}: {:?}", hurt.condition)
        }
        Condition::Down(_) => assert!(hurt.sample.is_none(), "{what}"),
    }
}

#[tokio::test]
async fn a_tick_can_be_dropped_wherever_it_waits() {
    let rig = Rig::new(NODE);
    for round in 0..200_u64 {
        match round % 10 {
            3 => {
                rig.command(Command::UnloadDriver { force: true });
                rig.command(Command::LoadDriver { version: None });
            }
            7 => {
                let _ = tokio::time::timeout(
                    Duration::from_micros(round * 37 % 3000),
                    rig.driver.quiesce(Duration::from_secs(20)),
                )
                .await;
                rig.driver.resume().await;
            }
            _ => {}
        }
        let _ = tokio::time::timeout(Duration::from_micros(round * 97 % 5000), rig.tick()).await;
    }
    // An hour later any back-off is over, and so are the threads that were left behind by what was dropped.
    let start = Instant::now();
    loop {
        let gpus = rig.tick_at(Instant::now() + Duration::from_secs(3600)).await;
        if all_up(&gpus, 2) && gpus.calls.stuck_threads == 0 {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{gpus:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
