//! Any call of a change may return anything: it is told, and the GPU can be read and changed again afterwards.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use gpulet_partition::apply::Failure;
use gpulet_partition::step::Step;
use gpulet_simulator::state::Effect;
use support::dividing::{at, compute, place};
use support::{Rig, all_up};

const NODE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nodes/mig.yaml");

/// Every symbol that a change may use.
const SYMBOLS: [&str; 14] = [
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetGpuInstanceProfileInfoV",
    "nvmlDeviceGetGpuInstances",
    "nvmlGpuInstanceGetInfo",
    "nvmlGpuInstanceGetComputeInstanceProfileInfo",
    "nvmlGpuInstanceGetComputeInstances",
    "nvmlComputeInstanceGetInfo_v2",
    "nvmlDeviceSetMigMode",
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlGpuInstanceDestroy",
    "nvmlGpuInstanceCreateComputeInstanceWithPlacement",
    "nvmlComputeInstanceDestroy",
];

/// What it may return; 1 and 9 say that there is no driver any more.
const CODES: [u32; 15] = [1, 2, 3, 4, 6, 7, 9, 10, 13, 15, 16, 19, 23, 999, 4711];

#[tokio::test]
async fn whatever_a_call_returns_it_is_told_and_the_other_gpu_is_as_it_was() {
    // All at once: much of the time each waits for a driver that is opened anew.
    let all = CODES.map(every_change_where_calls_return).into_iter().collect::<tokio::task::JoinSet<()>>();
    all.join_all().await;
}

async fn every_change_where_calls_return(code: u32) {
    let rig = Rig::new(NODE);
    rig.tick().await;
    let divided = rig.division(0).await;
    let before = (rig.layout(0), rig.layout(1));
    let within = at(&divided, "3g.40gb", 0);
    let one = compute(0, 2, 1);
    let new = at(&divided, "1g.10gb", 5);
    // Each with what undoes it, where it is done in spite of the fault.
    let create = |profile| Step::CreateCompute { within, profile, placement: Some(place(2, 1)) };
    let steps = [
        (Step::CreateInstance(new), Step::DestroyInstance(new)),
        (Step::DestroyCompute { within, compute: one }, create(0)),
        (Step::SetMode(false), Step::SetMode(true)),
    ];
    for symbol in SYMBOLS {
        let fault = rig.fault(Some(0), symbol, Effect::Return(code));
        let mut outcomes = Vec::new();
        for (step, _) in steps {
            outcomes.push(rig.change(0, step).await);
        }
        rig.clear(fault);
        for (outcome, (step, undo)) in outcomes.into_iter().zip(steps) {
            match outcome {
                // With instances there the mode stays, whatever else fails.
                Ok(_) => rig.done(0, undo).await,
                Err(error) => {
                    let Failure { reason, message } = error.into();
                    let told = message.contains(rig.uuid(0).as_str()) && message.contains(": cannot ");
                    assert!(told && !reason.is_empty(), "{symbol} returns {code}, {step:?}: {message}");
                }
            }
        }
        let divided = rig.division(0).await;
        assert_eq!(divided.instances.len(), 3, "{symbol} returns {code}");
        assert_eq!((rig.layout(0), rig.layout(1)), before, "{symbol} returns {code}");
    }
    let gpus = rig.tick().await;
    assert!(all_up(&gpus, 2) && gpus.calls.stuck_threads == 0, "{gpus:#?}");
    assert_eq!(rig.truth(1).changing_calls, 0);
}

#[tokio::test]
async fn whatever_a_call_returns_a_reading_is_whole_or_refused() {
    let all = CODES.map(every_reading_where_calls_return).into_iter().collect::<tokio::task::JoinSet<()>>();
    all.join_all().await;
}

async fn every_reading_where_calls_return(code: u32) {
    let rig = Rig::new(NODE);
    let whole = rig.division(0).await;
    let reading = SYMBOLS.into_iter().take(9).chain([
        "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
        "nvmlGpuInstanceGetComputeInstancePossiblePlacements",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
        "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    ]);
    for symbol in reading {
        let fault = rig.fault(Some(0), symbol, Effect::Return(code));
        let outcome = rig.driver.division(&rig.uuid(0)).await;
        rig.clear(fault);
        // One that the driver does not have, or an instance that has gone: told as such.
        let gone = matches!(code, 2 | 3 | 6 | 13);
        match outcome {
            Ok(divided) if !gone => assert_eq!(divided, whole, "{symbol} returns {code}"),
            Ok(_) => {}
            Err(error) => assert!(error.to_string().contains(symbol), "{symbol} returns {code}: {error}"),
        }
    }
    // One where there is no driver any more may have it opened anew first.
    assert_eq!(rig.division(0).await, whole);
}
