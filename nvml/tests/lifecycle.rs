//! Letting go of the driver and taking it up again, on request and when it is reloaded.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use std::time::{Duration, Instant};

use gpulet_inventory::snapshot::{Driver, NodeGpus};
use gpulet_nvml::QuiesceError;
use gpulet_simulator::command::{Command, Load};
use gpulet_simulator::state::Effect;
use support::{Rig, all_up, is_unresponsive, open_files_below, sample, value};

const PATIENCE: Duration = Duration::from_secs(20);

fn all_driver_down(gpus: &NodeGpus, count: usize) -> bool {
    gpus.gpus.len() == count
        && gpus
            .gpus
            .iter()
            .all(|gpu| gpu.condition.down_reason() == Some("DriverDown") && gpu.sample.is_none())
}

fn version(gpus: &NodeGpus) -> (&str, u64) {
    match &gpus.driver {
        Driver::Up(info) => (&info.driver_version, info.epoch),
        Driver::Down(down) => panic!("{down:?}"),
    }
}

#[tokio::test]
async fn a_driver_that_is_reloaded_is_opened_anew() {
    let rig = Rig::new("l40s-4x");
    let before = rig.tick().await;
    assert_eq!(version(&before), ("580.105.08", 1));
    rig.command(Command::UnloadDriver { force: true });
    let start = Instant::now();
    let gone = rig.tick_at(start).await;
    assert_eq!(gone.driver.down_reason(), Some("DriverNotLoaded"));
    assert!(all_driver_down(&gone, 4));
    assert_eq!(gone.gpus[0].gpu.uuid, before.gpus[0].gpu.uuid);

    rig.command(Command::LoadDriver { version: None });
    let back = rig.tick_at(start + Duration::from_secs(1)).await;
    assert!(all_up(&back, 4), "{:?}", back.driver);
    assert_eq!(version(&back), ("580.105.08", 2));
    assert_eq!(back.calls.stuck_threads, 0);
}

#[tokio::test]
async fn a_reload_between_two_ticks_is_noticed() {
    let rig = Rig::new("l40s-4x");
    rig.tick().await;
    rig.command(Command::UnloadDriver { force: true });
    rig.command(Command::LoadDriver { version: None });
    let gpus = rig.tick().await;
    assert!(all_up(&gpus, 4), "{:?}", gpus.driver);
    assert_eq!(version(&gpus).1, 2);
}

#[tokio::test]
async fn an_upgrade_brings_the_new_versions_library_and_forgets_what_was_refused() {
    let rig = Rig::new("dgx-h100");
    rig.change_driver("470.256.02");
    let old = rig.tick().await;
    assert_eq!(value(&sample(&old.gpus[0]).memory).reserved, None);
    rig.command(Command::UnloadDriver { force: true });
    rig.command(Command::LoadDriver { version: Some("580.105.08".into()) });
    let new = rig.tick().await;
    assert_eq!(version(&new), ("580.105.08", 2));
    assert!(all_up(&new, 8));
    assert!(value(&sample(&new.gpus[0]).memory).reserved.is_some());
}

#[tokio::test]
async fn quiesce_lets_go_of_every_file_and_resume_comes_back() {
    let rig = Rig::new("l40s-4x");
    let dev = rig.node.host_root().join("dev");
    rig.tick().await;
    assert!(open_files_below(&dev).len() >= 5, "nvidiactl and four GPUs: {:?}", open_files_below(&dev));
    assert!(!rig.node.driver_users().is_empty());

    rig.driver.quiesce(PATIENCE).await.unwrap();
    assert_eq!(open_files_below(&dev), Vec::<std::path::PathBuf>::new());
    assert!(rig.node.driver_users().is_empty());
    let quiet = rig.tick().await;
    assert_eq!(quiet.driver.down_reason(), Some("Quiesced"));
    assert!(all_driver_down(&quiet, 4));
    // Now the driver can be unloaded without force, and loaded again.
    rig.unload();
    rig.command(Command::LoadDriver { version: None });
    let still = rig.tick_at(Instant::now() + Duration::from_secs(3600)).await;
    assert_eq!(still.driver.down_reason(), Some("Quiesced"), "it stays so until it is resumed");
    assert_eq!(open_files_below(&dev), Vec::<std::path::PathBuf>::new());

    rig.driver.resume().await;
    assert!(all_up(&rig.tick().await, 4));
}

#[tokio::test]
async fn quiesce_before_the_first_sample_keeps_it_closed() {
    let rig = Rig::new("l40s-4x");
    rig.driver.quiesce(PATIENCE).await.unwrap();
    assert_eq!(rig.tick().await.driver.down_reason(), Some("Quiesced"));
    rig.driver.resume().await;
    assert!(all_up(&rig.tick().await, 4));
}

#[tokio::test]
async fn quiesce_refuses_while_a_call_is_stuck_and_names_it() {
    let rig = Rig::with_deadline("l40s-4x", Duration::from_secs(1));
    rig.tick_until(|gpus| all_up(gpus, 4)).await;
    let fault = rig.fault(Some(1), "nvmlDeviceGetPowerUsage", Effect::Block);
    let stuck = rig.tick_until(|gpus| is_unresponsive(&gpus.gpus[1], "nvmlDeviceGetPowerUsage")).await;
    let error = rig.driver.quiesce(Duration::from_millis(100)).await.unwrap_err();
    let QuiesceError::Stuck { calls } = &error;
    assert_eq!(calls.len(), 1, "{error}");
    assert_eq!(
        (calls[0].call, calls[0].gpu.as_ref()),
        ("nvmlDeviceGetPowerUsage", Some(&stuck.gpus[1].gpu.uuid))
    );
    assert!(error.to_string().contains(stuck.gpus[1].gpu.uuid.as_str()), "{error}");
    // Nothing was let go of: the others go on.
    let gpus = rig.tick().await;
    assert_eq!((gpus.gpus[0].condition.down_reason(), gpus.calls.opens), (None, 1));
    rig.clear(fault);
    rig.tick_until(|gpus| all_up(gpus, 4)).await;
    rig.driver.quiesce(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn samples_do_not_wait_for_quiesce_and_say_that_it_goes_on() {
    let rig = Rig::with_deadline("l40s-4x", Duration::from_secs(1));
    rig.tick_until(|gpus| all_up(gpus, 4)).await;
    let fault = rig.fault(Some(1), "nvmlDeviceGetPowerUsage", Effect::Block);
    rig.tick_until(|gpus| is_unresponsive(&gpus.gpus[1], "nvmlDeviceGetPowerUsage")).await;
    let driver = rig.driver.clone();
    let quiesce = tokio::spawn(async move { driver.quiesce(PATIENCE).await });
    rig.tick_until(|gpus| gpus.driver.down_reason() == Some("Quiescing")).await;
    let start = Instant::now();
    for _ in 0..10 {
        let gpus = rig.tick().await;
        assert_eq!(gpus.driver.down_reason(), Some("Quiescing"));
        assert!(all_driver_down(&gpus, 4));
        assert_eq!(rig.driver.locality().await.gpus.len(), 0);
    }
    assert!(start.elapsed() < PATIENCE / 4, "{:?}", start.elapsed());
    assert_eq!(rig.driver.stuck_threads().await, 1);
    assert!(!quiesce.is_finished());
    rig.clear(fault);
    quiesce.await.unwrap().unwrap();
    assert_eq!(rig.tick().await.driver.down_reason(), Some("Quiesced"));
    assert_eq!(rig.driver.stuck_threads().await, 0);
    rig.driver.resume().await;
    assert!(all_up(&rig.tick().await, 4));
}

#[tokio::test]
async fn a_quiesce_that_is_dropped_while_it_waits_changes_nothing() {
    let rig = Rig::with_deadline("l40s-4x", Duration::from_secs(1));
    rig.tick_until(|gpus| all_up(gpus, 4)).await;
    let fault = rig.fault(Some(1), "nvmlDeviceGetPowerUsage", Effect::Block);
    rig.tick_until(|gpus| is_unresponsive(&gpus.gpus[1], "nvmlDeviceGetPowerUsage")).await;
    let begun = tokio::time::timeout(Duration::from_millis(50), rig.driver.quiesce(PATIENCE)).await;
    assert!(begun.is_err(), "it waits: {begun:?}");
    let gpus = rig.tick().await;
    assert_eq!((version(&gpus).1, gpus.gpus[0].condition.down_reason()), (1, None));
    rig.clear(fault);
    rig.tick_until(|gpus| all_up(gpus, 4)).await;
}

#[tokio::test]
async fn quiesce_waits_for_a_call_of_another_opening_and_for_a_shutdown_that_hangs() {
    let rig = Rig::with_deadline("l40s-4x", Duration::from_secs(1));
    rig.tick_until(|gpus| all_up(gpus, 4)).await;
    let fault = rig.fault(None, "nvmlShutdown", Effect::Block);
    let error = rig.driver.quiesce(Duration::from_millis(300)).await.unwrap_err();
    let QuiesceError::Stuck { calls } = &error;
    assert_eq!((calls.len(), calls[0].call, &calls[0].gpu), (1, "nvmlShutdown", &None), "{error}");
    assert_eq!(rig.driver.stuck_threads().await, 1);
    // It was let go of, and is opened again.
    let again = rig.tick_until(|gpus| all_up(gpus, 4)).await;
    assert_eq!(version(&again).1, 2);
    let driver = rig.driver.clone();
    let quiesce = tokio::spawn(async move { driver.quiesce(PATIENCE).await });
    rig.tick_until(|gpus| gpus.driver.down_reason() == Some("Quiescing")).await;
    rig.clear(fault);
    quiesce.await.unwrap().unwrap();
    assert_eq!(open_files_below(&rig.node.host_root().join("dev")), Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn opening_that_hangs_is_told_and_ends_by_itself() {
    let rig = Rig::with_deadline("l40s-4x", Duration::from_millis(500));
    let fault = rig.fault(None, "nvmlInitWithFlags", Effect::Block);
    for _ in 0..3 {
        let start = Instant::now();
        let gpus = rig.tick().await;
        assert!(start.elapsed() < Duration::from_secs(5));
        assert_eq!(gpus.driver.down_reason(), Some("Unresponsive"));
        let Driver::Down(down) = &gpus.driver else { panic!() };
        assert!(down.message.contains("nvmlInitWithFlags"), "{}", down.message);
        assert_eq!(gpus.calls.stuck_threads, 1, "one thread opens, however often it is asked for");
    }
    assert!(rig.driver.quiesce(Duration::from_millis(50)).await.is_err());
    rig.clear(fault);
    rig.tick_until(|gpus| all_up(gpus, 4)).await;
}

#[tokio::test]
async fn too_many_stuck_threads_end_reopening_until_they_return() {
    let rig = Rig::with("l40s-4x", |options| {
        options.deadline = Duration::from_secs(1);
        options.max_stuck_threads = 1;
    });
    rig.tick_until(|gpus| all_up(gpus, 4)).await;
    let fault = rig.fault(Some(1), "nvmlDeviceGetPowerUsage", Effect::Block);
    rig.tick_until(|gpus| is_unresponsive(&gpus.gpus[1], "nvmlDeviceGetPowerUsage")).await;
    // The rest of the driver goes away under it; the thread that hangs stays behind.
    for gpu in [0, 2, 3] {
        rig.command(Command::SetFault { gpu: Some(gpu), symbol: None, effect: Effect::Return(1) });
    }
    let refused = rig.tick_until(|gpus| gpus.driver.down_reason() == Some("TooManyStuckThreads")).await;
    assert!(all_driver_down(&refused, 4));
    assert_eq!(refused.calls.stuck_threads, 1);
    rig.command(Command::ClearFault { id: None });
    let _ = fault;
    let start = Instant::now();
    let back = rig.tick_until(|gpus| all_up(gpus, 4)).await;
    assert_eq!(back.calls.stuck_threads, 0, "after {:?}", start.elapsed());
}

#[tokio::test]
async fn a_dropped_driver_lets_go_of_its_files() {
    let rig = Rig::new("l40s-4x");
    rig.tick().await;
    let dev = rig.node.host_root().join("dev");
    assert!(!open_files_below(&dev).is_empty());
    let Rig { driver, node, .. } = rig;
    drop(driver);
    let start = Instant::now();
    while !open_files_below(&dev).is_empty() {
        assert!(start.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drop(node);
}

/// Numbers and identities of the GPUs.
fn gpus(node: &NodeGpus) -> Vec<(u32, String)> {
    node.gpus.iter().map(|state| (state.gpu.index, state.gpu.uuid.to_string())).collect()
}

#[tokio::test]
async fn a_gpu_that_the_kernel_takes_away_or_gives_is_noticed_with_the_slow_values() {
    let rig = Rig::new("l40s-4x");
    let whole = rig.tick().await;
    assert_eq!(version(&whole).1, 1);
    rig.command(Command::Load { gpu: None, load: Load::Idle });
    rig.command(Command::Bind { gpu: 1, bound: false });
    let fewer = rig.tick().await;
    assert_eq!(version(&fewer).1, 2);
    assert!(all_up(&fewer, 3), "{:?}", fewer.driver);
    let uuid = |at: usize| whole.gpus[at].gpu.uuid.to_string();
    assert_eq!(gpus(&fewer), [(0, uuid(0)), (1, uuid(2)), (2, uuid(3))]);
    assert_eq!(version(&rig.tick().await).1, 2, "once");

    rig.command(Command::Bind { gpu: 1, bound: true });
    let back = rig.tick().await;
    assert_eq!(version(&back).1, 3);
    assert!(all_up(&back, 4), "{:?}", back.driver);
    assert_eq!(gpus(&back), gpus(&whole));
    assert_eq!(back.calls.stuck_threads, 0);
}

#[tokio::test]
async fn where_the_kernel_does_not_tell_the_drivers_own_count_does() {
    let rig = Rig::with("l40s-4x", |options| {
        options.host_root = "/nonexistent".into();
        options.deadline = PATIENCE;
    });
    assert!(all_up(&rig.tick().await, 4));
    rig.command(Command::Load { gpu: None, load: Load::Idle });
    rig.command(Command::Bind { gpu: 3, bound: false });
    let fewer = rig.tick_until(|gpus| all_up(gpus, 3)).await;
    assert_eq!(version(&fewer).1, 2);
    rig.command(Command::Bind { gpu: 3, bound: true });
    let back = rig.tick_until(|gpus| all_up(gpus, 4)).await;
    assert_eq!(version(&back).1, 3);
    for _ in 0..5 {
        assert_eq!(version(&rig.tick().await).1, 3);
    }
}

#[tokio::test]
async fn a_count_that_hangs_costs_no_gpu() {
    let rig = Rig::with_deadline("l40s-4x", Duration::from_secs(1));
    rig.tick_until(|gpus| all_up(gpus, 4)).await;
    let fault = rig.fault(None, "nvmlDeviceGetCount_v2", Effect::Block);
    let stuck = rig.tick_until(|gpus| gpus.calls.stuck_threads == 1).await;
    assert!(all_up(&stuck, 4));
    rig.clear(fault);
    rig.tick_until(|gpus| all_up(gpus, 4) && gpus.calls.stuck_threads == 0).await;
}
