//! GPUs that are lost, and states in which the driver cannot be opened.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use std::time::{Duration, Instant};

use gpulet_inventory::reading::{Answer, Cause, Reading};
use gpulet_inventory::snapshot::{Condition, DownReason, Driver, NodeGpus};
use gpulet_nvml::event::EventKind;
use gpulet_simulator::command::{Command, Load};
use gpulet_simulator::state::Effect;
use support::{Rig, all_up, failures, sample, unsupported, unsupported_calls, value, xid};

fn up_without(gpus: &NodeGpus, lost: usize) -> bool {
    let up =
        |gpu: &gpulet_inventory::snapshot::GpuState| gpu.condition == Condition::Up && gpu.sample.is_some();
    gpus.gpus.iter().enumerate().all(|(at, gpu)| up(gpu) == (at != lost))
}

#[tokio::test]
async fn one_gpu_lost_costs_that_gpu_only() {
    let rig = Rig::new("dgx-h100");
    let mut events = rig.driver.events();
    let before = rig.tick().await;
    rig.command(Command::Lose { gpu: 3 });
    let lost = rig.tick_until(|gpus| xid(&gpus.gpus[3], 79) == Some(1)).await;
    assert_eq!(lost.gpus.len(), 8);
    assert!(up_without(&lost, 3), "{:?}", lost.gpus[3].condition);
    assert!(matches!(lost.gpus[3].condition, Condition::Down(DownReason::Lost(_))));
    assert_eq!(lost.gpus[3].gpu.uuid, before.gpus[3].gpu.uuid);
    assert!(matches!(&lost.driver, Driver::Up(info) if info.epoch == 1), "the driver stays open");
    let event = events.recv().await.unwrap();
    assert_eq!((event.kind, event.gpu_instance), (EventKind::Xid(79), None));
    assert_eq!(event.gpu, before.gpus[3].gpu.uuid);
    // It asks a lost GPU one question a tick, not eighty.
    let again = rig.tick().await;
    assert!(up_without(&again, 3));
    rig.command(Command::Restore { gpu: 3 });
    let back = rig.tick_until(|gpus| all_up(gpus, 8)).await;
    assert_eq!(xid(&back.gpus[3], 79), Some(1), "XIDs are counted on");
}

#[tokio::test]
async fn the_only_gpus_being_lost_does_not_become_a_loop_of_reopening() {
    let rig = Rig::new("l40s-4x");
    let start = Instant::now();
    rig.tick_at(start).await;
    for gpu in 0..4 {
        rig.command(Command::Lose { gpu });
    }
    let mut opens = 0;
    for second in 1..=100 {
        let gpus = rig.tick_at(start + Duration::from_secs(second)).await;
        assert_eq!(gpus.gpus.len(), 4);
        let lost = |gpu: &gpulet_inventory::snapshot::GpuState| gpu.condition.down_reason() == Some("Lost");
        assert!(gpus.gpus.iter().all(lost), "{:?}", gpus.gpus[0].condition);
        opens = gpus.calls.opens;
    }
    // At seconds 1, 3, 7, 15, 31 and 63: 1 s, 2 s, 4 s, 8 s, 16 s, 32 s apart.
    assert!((5..=9).contains(&opens), "opened {opens} times");
    for gpu in 0..4 {
        rig.command(Command::Restore { gpu });
    }
    assert!(all_up(&rig.tick_at(start + Duration::from_secs(400)).await, 4));
}

#[tokio::test]
async fn a_gpu_that_must_be_reset_says_so() {
    let rig = Rig::new("l40s-4x");
    rig.tick().await;
    let fault = rig.command(Command::SetFault { gpu: Some(2), symbol: None, effect: Effect::Return(16) });
    let gpus = rig.tick().await;
    assert!(up_without(&gpus, 2));
    assert!(matches!(gpus.gpus[2].condition, Condition::Down(DownReason::ResetRequired(_))), "{fault:?}");
}

#[tokio::test]
async fn a_gpu_on_which_every_call_fails_is_down() {
    let rig = Rig::new("l40s-4x");
    rig.tick().await;
    rig.command(Command::SetFault { gpu: Some(2), symbol: None, effect: Effect::Return(999) });
    let gpus = rig.tick().await;
    assert!(up_without(&gpus, 2));
    assert!(matches!(gpus.gpus[2].condition, Condition::Down(DownReason::Failed(_))));
}

#[tokio::test]
async fn a_gpu_that_knows_no_call_any_more_is_down_and_not_empty() {
    let rig = Rig::new("l40s-4x");
    rig.tick().await;
    let fault = rig.command(Command::SetFault { gpu: Some(2), symbol: None, effect: Effect::Return(2) });
    for _ in 0..3 {
        let gpus = rig.tick().await;
        assert!(up_without(&gpus, 2), "{fault:?}");
        assert!(matches!(gpus.gpus[2].condition, Condition::Down(DownReason::Failed(_))));
    }
    rig.command(Command::ClearFault { id: None });
    assert!(all_up(&rig.tick().await, 4));
}

#[tokio::test]
async fn events_of_the_others_go_on_when_a_gpu_is_lost() {
    let rig = Rig::new("l40s-4x");
    rig.tick().await;
    rig.command(Command::Lose { gpu: 3 });
    rig.tick_until(|gpus| xid(&gpus.gpus[3], 79).is_some()).await;
    for times in 1..=3 {
        rig.command(Command::Xid { gpu: 0, code: 31, times: 1, instance: None });
        rig.tick_until(|gpus| xid(&gpus.gpus[0], 31) == Some(times)).await;
    }
}

#[tokio::test]
async fn events_of_the_others_go_on_when_a_second_gpu_is_lost_right_after_the_first() {
    let rig = Rig::new("l40s-4x");
    rig.tick().await;
    let mut events = rig.driver.events();
    let xid = |gpu, code| rig.command(Command::Xid { gpu, code, times: 1, instance: None });
    for gpu in [3, 2] {
        rig.command(Command::Lose { gpu });
        assert_eq!(events.recv().await.unwrap().kind, EventKind::Xid(79));
        // Only a set that lacks the lost GPU tells of this; it comes before any wait for events has timed out.
        xid(0, 31);
        assert_eq!(events.recv().await.unwrap().kind, EventKind::Xid(31));
    }
    let counted = rig.tick_until(|gpus| support::xid(&gpus.gpus[0], 31) == Some(2)).await;
    let failed = failures(&counted, "nvmlEventSetWait_v2", "GPU_IS_LOST");
    assert!((2..=4).contains(&failed), "one for each GPU and set: {failed}");
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let later = rig.tick().await;
    assert_eq!(failures(&later, "nvmlEventSetWait_v2", "GPU_IS_LOST"), failed, "it waits in peace");
    assert_eq!([3, 2].map(|gpu: usize| support::xid(&later.gpus[gpu], 79)), [Some(1); 2]);
}

#[tokio::test]
async fn a_driver_without_the_newer_wait_tells_of_xids_by_the_older() {
    let rig = Rig::new("dgx-h100");
    rig.change_driver("440.33.01");
    let mut events = rig.driver.events();
    let first = rig.tick().await;
    assert_eq!(first.gpus[0].xids, Reading::Supported([].into()));
    rig.command(Command::Xid { gpu: 0, code: 48, times: 2, instance: None });
    let gpus = rig.tick_until(|gpus| xid(&gpus.gpus[0], 48) == Some(2)).await;
    assert_eq!(unsupported_calls(&gpus, "nvmlEventSetWait_v2", "NO_SYMBOL"), 0);
    let event = events.recv().await.unwrap();
    assert_eq!((event.kind, event.gpu_instance, event.compute_instance), (EventKind::Xid(48), None, None));
}

#[tokio::test]
async fn xids_that_the_driver_does_not_tell_of_are_absent_and_not_none() {
    let rig = Rig::new("l40s-4x");
    let fault = rig.fault(Some(1), "nvmlDeviceRegisterEvents", Effect::Return(3));
    let gpus = rig.tick().await;
    assert!(all_up(&gpus, 4));
    let refused = Answer { call: "nvmlDeviceRegisterEvents", cause: Cause::Code(3) };
    assert_eq!(gpus.gpus[1].xids, Reading::Unsupported(refused));
    assert_eq!(gpus.gpus[0].xids, Reading::Supported([].into()));
    rig.clear(fault);
    // Taken up again with the next opening at the latest.
    rig.driver.quiesce(Duration::from_secs(20)).await.unwrap();
    rig.driver.resume().await;
    assert_eq!(rig.tick().await.gpus[1].xids, Reading::Supported([].into()));
}

#[tokio::test]
async fn a_driver_that_makes_no_set_of_events_has_no_xids_and_still_counts_its_gpus() {
    let rig = Rig::with("l40s-4x", |options| {
        options.host_root = "/nonexistent".into();
        options.deadline = Duration::from_secs(20);
    });
    rig.fault(None, "nvmlEventSetCreate", Effect::Return(3));
    let gpus = rig.tick().await;
    let refused = Answer { call: "nvmlEventSetCreate", cause: Cause::Code(3) };
    assert!(gpus.gpus.iter().all(|gpu| gpu.xids == Reading::Unsupported(refused)), "{:?}", gpus.gpus[0].xids);
    rig.command(Command::Load { gpu: None, load: Load::Idle });
    rig.command(Command::Bind { gpu: 3, bound: false });
    rig.tick_until(|gpus| all_up(gpus, 3)).await;
}

#[tokio::test]
async fn a_driver_whose_events_cannot_be_waited_for_has_no_xids() {
    let rig = Rig::with("l40s-4x", |options| {
        let whole = options.library.take().unwrap();
        let old = whole.with_file_name("libnvidia-ml.so.1.old");
        let mut bytes = std::fs::read(whole).unwrap();
        let symbol = b"\0nvmlEventSetWait";
        let found = bytes.windows(symbol.len()).enumerate().filter(|(_, bytes)| bytes == symbol);
        for at in found.map(|(at, _)| at).collect::<Vec<_>>() {
            bytes[at + 1] = b'-';
        }
        std::fs::write(&old, bytes).unwrap();
        options.library = Some(old);
    });
    for _ in 0..3 {
        let gpus = rig.tick().await;
        assert!(all_up(&gpus, 4));
        let refused = Answer { call: "nvmlEventSetWait_v2", cause: Cause::NoSymbol };
        assert!(gpus.gpus.iter().all(|gpu| gpu.xids == Reading::Unsupported(refused)));
        assert!(unsupported_calls(&gpus, "nvmlEventSetWait_v2", "NO_SYMBOL") <= 1, "not once a tick");
    }
}

#[tokio::test]
async fn nothing_of_a_healthy_node_is_blank_or_impossible() {
    let rig = Rig::new("dgx-h100");
    rig.work();
    let gpus = rig.tick().await;
    assert!(gpus.calls.failed.is_empty(), "{:?}", gpus.calls.failed);
    assert!(!gpus.calls.unsupported.is_empty());
}

fn down(gpus: &NodeGpus) -> (&'static str, String, String) {
    match &gpus.driver {
        Driver::Down(down) => (down.reason, down.message.clone(), down.remedy.clone()),
        Driver::Up(info) => panic!("{info:?}"),
    }
}

#[tokio::test]
async fn a_driver_without_gpus_is_up() {
    let rig = Rig::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nodes/no-gpus.yaml"));
    for _ in 0..2 {
        let gpus = rig.tick().await;
        assert!(matches!(&gpus.driver, Driver::Up(info) if info.epoch == 1), "{:?}", gpus.driver);
        assert!(gpus.gpus.is_empty());
    }
    rig.driver.quiesce(Duration::from_secs(20)).await.unwrap();
    assert_eq!(rig.tick().await.driver.down_reason(), Some("Quiesced"));
}

#[tokio::test]
async fn no_library_is_a_state_that_names_what_was_tried() {
    let rig = Rig::with("l40s-4x", |options| {
        options.library = None;
        options.host_root = "/nonexistent".into();
    });
    let (reason, message, remedy) = down(&rig.tick().await);
    assert_eq!(reason, "LibraryNotFound");
    assert!(message.contains("libnvidia-ml.so.1"), "{message}");
    assert!(message.contains(" places ("), "{message}");
    assert!(remedy.contains("--nvml-library"), "{remedy}");
}

#[tokio::test]
async fn the_library_of_a_driver_container_is_found() {
    let root = support::directory();
    let place = root.path().join("run/nvidia/driver/usr/lib64");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("libnvidia-ml.so.1"), "not a library").unwrap();
    let rig = Rig::with("cpu-only", |options| {
        options.library = None;
        options.host_root = root.path().to_owned();
    });
    let (reason, message, _) = down(&rig.tick().await);
    assert_eq!(reason, "LibraryUnusable");
    assert!(message.contains("run/nvidia/driver/usr/lib64/libnvidia-ml.so.1"), "{message}");
}

#[tokio::test]
async fn a_library_that_is_not_whole_is_not_loaded_and_is_once_it_is() {
    let rig = Rig::with("l40s-4x", |options| {
        let whole = options.library.take().unwrap();
        let part = whole.with_file_name("libnvidia-ml.so.580.105.08");
        std::fs::write(&part, &std::fs::read(whole).unwrap()[..300_000]).unwrap();
        options.library = Some(part);
    });
    let start = Instant::now();
    let (reason, message, remedy) = down(&rig.tick_at(start).await);
    assert_eq!(reason, "LibraryUnusable");
    assert!(message.contains("300000 bytes") && remedy.contains("installation"), "{message}; {remedy}");
    std::fs::copy(rig.node.library(), rig.options.library.as_ref().unwrap()).unwrap();
    assert!(all_up(&rig.tick_at(start + Duration::from_secs(1)).await, 4));
}

#[tokio::test]
async fn a_library_that_is_another_is_unusable() {
    let libc = std::fs::read_to_string("/proc/self/maps")
        .unwrap()
        .lines()
        .find_map(|line| {
            line.split_once('/').map(|(_, path)| format!("/{path}")).filter(|p| p.contains("libc.so"))
        })
        .unwrap();
    let rig = Rig::with("cpu-only", |options| options.library = Some(libc.clone().into()));
    let (reason, message, _) = down(&rig.tick().await);
    assert_eq!(reason, "LibraryUnusable");
    assert!(message.contains(&libc) && message.contains("nvmlInit"), "{message}");
}

#[tokio::test]
async fn states_of_the_driver_are_told_apart_and_left_again() {
    let rig = Rig::new("l40s-4x");
    let start = Instant::now();
    rig.unload();
    let (reason, message, remedy) = down(&rig.tick_at(start).await);
    assert_eq!(reason, "DriverNotLoaded");
    assert!(message.contains("libnvidia-ml.so.1") && remedy.contains("modprobe"), "{message}; {remedy}");

    rig.command(Command::LoadDriver { version: None });
    rig.command(Command::Permission { denied: true });
    // Not tried again before its time.
    let early = rig.tick_at(start + Duration::from_millis(999)).await;
    assert_eq!(down(&early).0, "DriverNotLoaded");
    let denied = rig.tick_at(start + Duration::from_secs(1)).await;
    assert_eq!(down(&denied).0, "NoPermission");
    assert_eq!(failures(&denied, "nvmlInitWithFlags", "NO_PERMISSION"), 1);

    rig.command(Command::Permission { denied: false });
    let mismatch = rig.fault(None, "nvmlInitWithFlags", Effect::Return(18));
    assert_eq!(down(&rig.tick_at(start + Duration::from_secs(3)).await).0, "VersionMismatch");
    rig.clear(mismatch);
    let unknown = rig.fault(None, "nvmlInitWithFlags", Effect::Return(999));
    assert_eq!(down(&rig.tick_at(start + Duration::from_secs(7)).await).0, "Unknown");
    rig.clear(unknown);
    let open = rig.tick_at(start + Duration::from_secs(15)).await;
    assert!(all_up(&open, 4), "{:?}", open.driver);
    assert_eq!(open.calls.opens, 1);
}

#[tokio::test]
async fn held_clocks_are_read_under_the_drivers_numbers() {
    for (version, known) in [("570.133.20", false), ("575.57.08", true), ("580.105.08", true)] {
        let rig = Rig::new("l40s-4x");
        rig.change_driver(version);
        let gpus = rig.tick().await;
        let held = &sample(&gpus.gpus[0]).clock.held;
        let readings = [&held.sw_thermal, &held.hw_thermal, &held.hw_power_brake];
        assert!(readings.iter().all(|reading| reading.value().is_some() == known), "{version}: {held:?}");
    }
}

#[tokio::test]
async fn an_older_driver_is_read_by_older_calls_and_not_asked_for_what_it_lacks() {
    let rig = Rig::new("dgx-h100");
    rig.change_driver("470.256.02");
    rig.work();
    let first = rig.tick().await;
    assert!(all_up(&first, 8));
    let truth = rig.node.state();
    let (state, now) = (sample(&first.gpus[0]), &truth.gpus[0].now);
    let memory = value(&state.memory);
    assert_eq!(memory.reserved, None);
    assert_eq!(
        memory.used,
        now.memory_used_bytes + truth.gpus[0].board.reserved_bytes,
        "reserved counts as used"
    );
    assert_eq!(value(&state.clock.event_reasons), now.clocks_event_reasons);
    assert_eq!(unsupported(&state.clock.held.hw_thermal).1, Cause::Code(2), "it has no such field");
    assert_eq!(value(&state.processes).len(), truth.gpus[0].processes.len());
    assert_eq!(unsupported_calls(&first, "nvmlDeviceGetMemoryInfo_v2", "NO_SYMBOL"), 8);
    assert_eq!(unsupported_calls(&first, "nvmlDeviceGetJpgUtilization", "NO_SYMBOL"), 8);
    let mut last = rig.tick().await;
    for _ in 0..3 {
        last = rig.tick().await;
    }
    assert_eq!(last.calls.unsupported, first.calls.unsupported, "a missing symbol was looked for again");
}
