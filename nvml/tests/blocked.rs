//! A call that never returns. One test: it counts this process's threads.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use std::time::{Duration, Instant};

use gpulet_inventory::snapshot::Condition;
use gpulet_simulator::state::Effect;
use support::{Rig, all_up, is_unresponsive};

const DEADLINE: Duration = Duration::from_secs(2);
const HANGS: &str = "nvmlDeviceGetPowerUsage";

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

#[tokio::test]
async fn a_call_that_never_returns_costs_one_gpu_and_one_thread() {
    let rig = Rig::with_deadline("dgx-h100", DEADLINE);
    rig.tick_until(|gpus| all_up(gpus, 8)).await;
    let before = threads();

    let fault = rig.fault(Some(3), HANGS, Effect::Block);
    let start = Instant::now();
    let stuck = rig.tick_until(|gpus| is_unresponsive(&gpus.gpus[3], HANGS)).await;
    assert!(start.elapsed() < 2 * DEADLINE, "{:?}", start.elapsed());
    assert_eq!(stuck.calls.stuck_threads, 1);
    assert!(stuck.gpus[3].sample.is_none());

    let start = Instant::now();
    for _ in 0..100 {
        let gpus = rig.tick().await;
        assert!(is_unresponsive(&gpus.gpus[3], HANGS), "{:?}", gpus.gpus[3].condition);
        let others = gpus.gpus.iter().enumerate().filter(|(at, _)| *at != 3);
        assert!(others.clone().all(|(_, gpu)| gpu.condition == Condition::Up && gpu.sample.is_some()));
        assert_eq!(gpus.calls.stuck_threads, 1);
        assert!(threads() <= before, "{} threads, {before} before", threads());
    }
    assert!(start.elapsed() < 100 * DEADLINE / 4, "a GPU that hangs must not be waited for each tick");

    rig.clear(fault);
    let back = rig.tick_until(|gpus| all_up(gpus, 8)).await;
    assert_eq!(back.calls.stuck_threads, 0);
    assert_eq!(back.calls.opens, 1, "it recovered by itself");
}
