//! A change that does not return, or takes long: it costs its GPU only, and no one else waits for it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use std::time::{Duration, Instant};

use gpulet_nvml::{Change, ChangeError, Changed, Options, QuiesceError};
use gpulet_partition::step::Step;
use gpulet_simulator::state::Effect;
use support::dividing::at;
use support::{Rig, all_up, is_unresponsive};

const NODE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nodes/mig.yaml");
const CREATE: &str = "nvmlDeviceCreateGpuInstanceWithPlacement";

/// A change may take a second; a sample, as long as it likes here.
fn rig() -> Rig {
    Rig::with(NODE, |options: &mut Options| {
        options.deadline = Duration::from_secs(20);
        options.change_deadline = Duration::from_secs(1);
        options.mode_deadline = Duration::from_secs(1);
    })
}

async fn new(rig: &Rig) -> Step {
    // Reading is a task, too, and may take long here.
    let patient =
        gpulet_nvml::Driver::new(Options { change_deadline: Duration::from_secs(20), ..rig.options.clone() });
    let divided = patient.division(&rig.uuid(0)).await.unwrap();
    Step::CreateInstance(at(&divided, "1g.10gb", 5))
}

#[tokio::test]
async fn a_change_that_hangs_is_given_up_and_costs_that_gpu_only() {
    let rig = rig();
    rig.tick_until(|gpus| all_up(gpus, 2)).await;
    let step = new(&rig).await;
    let fault = rig.fault(Some(0), CREATE, Effect::Block);
    let error = rig.change(0, step).await.unwrap_err();
    assert!(matches!(&error, ChangeError::TimedOut { call, .. } if *call == CREATE), "{error}");
    assert_eq!((error.reason(), error.is_unchanged()), ("TimedOut", false));
    assert!(error.to_string().contains("the GPU instance of profile 19 at 5:1"), "{error}");
    // Nothing else is asked of it before.
    let error = rig.change(0, step).await.unwrap_err();
    assert!(matches!(&error, ChangeError::Busy { call, .. } if *call == CREATE), "{error}");
    assert!(error.is_unchanged());
    let gpus = rig.tick().await;
    assert!(is_unresponsive(&gpus.gpus[0], CREATE), "{:?}", gpus.gpus[0].condition);
    assert_eq!((gpus.gpus[1].condition.down_reason(), gpus.calls.stuck_threads), (None, 1));
    rig.driver.change(&rig.uuid(1), Change::Persistence(false)).await.unwrap();
    // It cannot be let go of under it, and that is told.
    let QuiesceError::Stuck { calls } = rig.driver.quiesce(Duration::from_millis(50)).await.unwrap_err();
    assert_eq!((calls.len(), calls[0].call), (1, CREATE));
    rig.clear(fault);
    rig.tick_until(|gpus| all_up(gpus, 2) && gpus.calls.stuck_threads == 0).await;
    // It was done in the end, and once.
    assert_eq!((rig.layout(0).len(), rig.truth(0).changing_calls), (4, 1));
}

#[tokio::test]
async fn samples_do_not_wait_for_a_change_that_takes_long() {
    let rig = Rig::new(NODE);
    let before = rig.tick().await;
    let step = new(&rig).await;
    let fault = rig.fault(Some(0), CREATE, Effect::Block);
    let (driver, gpu) = (rig.driver.clone(), rig.uuid(0));
    let changing = tokio::spawn(async move { driver.change(&gpu, Change::Step(step)).await });
    tokio::task::yield_now().await;
    let start = Instant::now();
    let mut seen = Vec::new();
    for _ in 0..20 {
        seen.push(rig.tick().await);
    }
    // Well below the deadline of 20 s that each would wait for a GPU that is sampled and hangs.
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(!changing.is_finished());
    let last = seen.last().unwrap();
    assert!(all_up(last, 2), "{last:#?}");
    assert_eq!(last.calls.stuck_threads, 0);
    assert_eq!(last.gpus[0].sample, before.gpus[0].sample, "values of the last time");
    rig.clear(fault);
    assert_eq!(changing.await.unwrap().unwrap(), Changed::default());
    assert!(all_up(&rig.tick().await, 2));
}

/// A change behind a call that hangs is not made years later, when that returns.
#[tokio::test]
async fn a_change_that_was_given_up_before_its_turn_is_never_made() {
    let rig = Rig::with_deadline(NODE, Duration::from_secs(1));
    rig.tick_until(|gpus| all_up(gpus, 2)).await;
    let step = new(&rig).await;
    let call = "nvmlDeviceGetPowerUsage";
    let fault = rig.fault(Some(0), call, Effect::Block);
    rig.tick_until(|gpus| is_unresponsive(&gpus.gpus[0], call)).await;
    let error = rig.change(0, step).await.unwrap_err();
    assert!(matches!(&error, ChangeError::Busy { call: stuck, .. } if *stuck == call), "{error}");
    assert!(error.is_unchanged());
    rig.clear(fault);
    rig.tick_until(|gpus| all_up(gpus, 2)).await;
    rig.tick().await;
    assert_eq!((rig.truth(0).changing_calls, rig.layout(0).len()), (0, 3));
    rig.change(0, step).await.unwrap();
    assert_eq!(rig.layout(0).len(), 4);
}

/// Dropped while it goes on, a change goes on; what is asked next waits for it.
#[tokio::test]
async fn a_change_that_is_dropped_goes_on_and_the_next_waits() {
    let rig = Rig::new(NODE);
    let step = new(&rig).await;
    let fault = rig.fault(Some(0), CREATE, Effect::Delay(300));
    rig.division(0).await;
    let dropped = tokio::time::timeout(Duration::from_millis(150), rig.change(0, step)).await;
    assert!(dropped.is_err(), "{dropped:?}");
    let divided = rig.division(0).await;
    rig.clear(fault);
    assert_eq!((divided.instances.len(), rig.truth(0).changing_calls), (4, 1));
}

#[tokio::test]
async fn letting_go_of_the_driver_waits_for_a_change() {
    let rig = Rig::new(NODE);
    let step = new(&rig).await;
    rig.division(0).await;
    let fault = rig.fault(Some(0), CREATE, Effect::Block);
    let (driver, gpu) = (rig.driver.clone(), rig.uuid(0));
    let changing = tokio::spawn(async move { driver.change(&gpu, Change::Step(step)).await });
    tokio::task::yield_now().await;
    let driver = rig.driver.clone();
    let quiesce = tokio::spawn(async move { driver.quiesce(Duration::from_secs(20)).await });
    rig.tick_until(|gpus| gpus.driver.down_reason() == Some("Quiescing")).await;
    let error = rig.driver.division(&rig.uuid(1)).await.unwrap_err();
    assert_eq!(error.reason(), "Quiescing", "{error}");
    assert!(!quiesce.is_finished());
    rig.clear(fault);
    assert_eq!(changing.await.unwrap().unwrap(), Changed::default());
    quiesce.await.unwrap().unwrap();
    assert_eq!(rig.tick().await.driver.down_reason(), Some("Quiesced"));
}
