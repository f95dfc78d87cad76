//! A sample is full, and equals what the hardware knows.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use std::time::{Duration, Instant};

use gpulet_inventory::gpu::{Architecture, Gpu};
use gpulet_inventory::link::RemoteKind;
use gpulet_inventory::process::ProcessKind;
use gpulet_inventory::reading::{Cause, Reading};
use gpulet_inventory::sample::Sample;
use gpulet_inventory::snapshot::{Condition, Driver};
use gpulet_nvml::Classes;
use gpulet_simulator::command::{Command, Counter, Hold, Load};
use gpulet_simulator::state::{self, Effect};
use support::{Rig, all_up, failures, sample, unsupported, unsupported_calls, value};

#[tokio::test]
async fn a_dgx_h100_is_read_in_full() {
    let rig = Rig::new("dgx-h100");
    rig.work();
    for (pid, kind, memory_bytes) in
        [(4242, state::ProcessKind::Graphics, Some(1 << 30)), (4243, state::ProcessKind::Mps, None)]
    {
        let hold =
            Hold { gpu: 2, pid, kind, memory_bytes, instance: None, name: "training".into(), cgroup: None };
        rig.command(Command::Hold(hold));
    }
    for (counter, value) in [
        (Counter::EccVolatileCorrected, 1),
        (Counter::EccVolatileUncorrected, 2),
        (Counter::EccAggregateCorrected, 3),
        (Counter::EccAggregateUncorrected, 4),
        (Counter::RemappedCorrectable, 5),
        (Counter::RemappedUncorrectable, 6),
        (Counter::PcieReplays, 7),
    ] {
        rig.command(Command::SetCounter { gpu: 1, counter, value });
    }
    let gpus = rig.tick().await;
    let truth = rig.node.state();

    let Driver::Up(info) = &gpus.driver else { panic!("{:?}", gpus.driver) };
    assert_eq!((info.driver_version.as_str(), info.epoch), ("580.105.08", 1));
    assert_eq!(info.nvml_version, truth.driver.nvml_version);
    assert_eq!(info.cuda_version.as_deref(), Some("13.0"));
    assert_eq!(info.library, rig.node.library().display().to_string());
    assert!(all_up(&gpus, 8));
    for (state, truth) in gpus.gpus.iter().zip(&truth.gpus) {
        same_identity(&state.gpu, truth);
        same_values(sample(state), truth);
        same_links(sample(state), truth);
        same_processes(sample(state), truth);
        same_mig(sample(state), truth);
    }
    let ecc = &sample(&gpus.gpus[1]).ecc;
    let counts = [&ecc.volatile_corrected, &ecc.volatile_uncorrected, &ecc.aggregate_corrected];
    assert_eq!(counts.map(value), [1, 2, 3]);
    assert_eq!(value(&ecc.aggregate_uncorrected), 4);
}

fn same_identity(gpu: &Gpu, truth: &state::GpuState) {
    let (identity, board) = (&truth.identity, &truth.board);
    assert_eq!(gpu.uuid.as_str(), identity.uuid);
    let address = (gpu.pci.domain, u32::from(gpu.pci.bus), u32::from(gpu.pci.device));
    assert_eq!(address, (identity.pci_domain, identity.pci_bus, identity.pci_device));
    assert_eq!(value(&gpu.minor), identity.minor);
    assert_eq!(value(&gpu.name), board.name);
    assert_eq!(gpu.serial.value(), identity.serial.as_ref());
    assert_eq!(value(&gpu.vbios), board.vbios);
    assert_eq!(value(&gpu.architecture), Architecture::from_number(board.architecture));
    let (major, minor) = value(&gpu.compute_capability);
    assert_eq!((major as i32, minor as i32), board.compute_capability);
    assert_eq!(value(&gpu.pcie_max.generation), board.pcie_max_generation);
    assert_eq!(value(&gpu.pcie_max.width), board.pcie_max_width);
    let clocks = &gpu.max_clock;
    assert_eq!(
        [&clocks.graphics, &clocks.sm, &clocks.memory, &clocks.video].map(value),
        board.max_clocks_mhz
    );
}

fn same_values(sample: &Sample, truth: &state::GpuState) {
    let (now, count, board) = (&truth.now, &truth.count, &truth.board);
    let busy = &sample.utilization;
    let engines = [&busy.gpu, &busy.memory, &busy.encoder, &busy.decoder, &busy.jpeg, &busy.ofa];
    assert_eq!(engines.map(value), now.utilization);
    let memory = value(&sample.memory);
    assert_eq!((memory.total, memory.used), (board.memory_bytes, now.memory_used_bytes));
    assert_eq!(memory.reserved, Some(board.reserved_bytes));
    assert_eq!(memory.free, board.memory_bytes - board.reserved_bytes - now.memory_used_bytes);
    let bar1 = value(&sample.bar1);
    assert_eq!((bar1.total, bar1.used), (board.bar1_bytes, now.bar1_used_bytes));
    let power = &sample.power;
    let milliwatts = [&power.usage, &power.instant, &power.limit].map(value);
    assert_eq!(milliwatts, [now.power_average_mw, now.power_instant_mw, now.power_limit_mw]);
    assert_eq!(value(&power.energy), count.energy_mj);
    assert!(count.energy_mj > 0, "the node has worked");
    assert_eq!(value(&sample.temperature.gpu), now.temperature_c);
    assert_eq!(value(&sample.temperature.memory), now.memory_temperature_c);
    let clock = &sample.clock;
    assert_eq!([&clock.graphics, &clock.sm, &clock.memory, &clock.video].map(value), now.clocks_mhz);
    assert_eq!(value(&clock.event_reasons), now.clocks_event_reasons);
    let held = &clock.held;
    let causes =
        [&held.power_cap, &held.sync_boost, &held.sw_thermal, &held.hw_thermal, &held.hw_power_brake];
    assert_eq!(causes.map(value), count.clocks_held_ns);
    let pcie = &sample.pcie;
    let link = [&pcie.generation, &pcie.width, &pcie.replays].map(value);
    assert_eq!(link, [now.pcie_generation, now.pcie_width, count.pcie_replays]);
    assert_eq!((value(&pcie.transmitted_bytes), value(&pcie.received_bytes)), count.pcie_bytes);
    let ecc = &sample.ecc;
    assert_eq!(value(&ecc.enabled), now.ecc_mode.0);
    let counters = [
        &ecc.volatile_corrected,
        &ecc.volatile_uncorrected,
        &ecc.aggregate_corrected,
        &ecc.aggregate_uncorrected,
    ];
    assert_eq!(counters.map(value), count.ecc);
    let rows = value(&sample.remapped_rows);
    assert_eq!((rows.correctable, rows.uncorrectable), count.remapped_rows);
    assert_eq!((rows.pending, rows.failed), now.row_remap);
    assert_eq!(value(&sample.performance_state), now.performance_state);
    assert_eq!(value(&sample.recovery_action), now.recovery_action);
    let (fabric, expected) = (value(&sample.fabric), truth.fabric.as_ref().unwrap());
    assert_eq!((fabric.state, fabric.status), (expected.state, expected.status));
    assert_eq!(fabric.clique_id, (expected.state == 3).then_some(expected.clique_id));
}

fn same_links(sample: &Sample, truth: &state::GpuState) {
    let links = value(&sample.nvlinks);
    assert_eq!(links.len(), truth.nvlinks.len());
    for (link, truth) in links.iter().zip(&truth.nvlinks) {
        assert_eq!(link.active, truth.up);
        assert_eq!(value(&link.remote_kind), RemoteKind::Switch);
        let remote = value(&link.remote_pci);
        let parts =
            (remote.domain, u32::from(remote.bus), u32::from(remote.device), u32::from(remote.function));
        assert_eq!(parts, truth.remote_pci);
        assert_eq!(value(&link.transmitted_bytes), truth.data_kib.0 * 1024);
        assert_eq!(value(&link.received_bytes), truth.data_kib.1 * 1024);
        assert!(truth.data_kib.0 > 0, "the node has exchanged data");
    }
}

fn same_processes(sample: &Sample, truth: &state::GpuState) {
    let kind = |kind| match kind {
        state::ProcessKind::Compute => ProcessKind::Compute,
        state::ProcessKind::Graphics => ProcessKind::Graphics,
        state::ProcessKind::Mps => ProcessKind::Mps,
    };
    let mut found: Vec<_> = value(&sample.processes)
        .iter()
        .map(|process| (process.pid, process.kind, process.memory_bytes))
        .collect();
    let mut expected: Vec<_> = truth
        .processes
        .iter()
        .map(|process| (process.pid, kind(process.kind), process.memory_bytes))
        .collect();
    found.sort_by_key(|process| process.0);
    expected.sort_by_key(|process| process.0);
    assert_eq!(found, expected);
    let instances = value(&sample.processes);
    assert!(instances.iter().all(|p| p.gpu_instance.is_none() && p.compute_instance.is_none()));
}

fn same_mig(sample: &Sample, truth: &state::GpuState) {
    let (mig, truth) = (value(&sample.mig), truth.mig.as_ref().unwrap());
    assert_eq!((mig.mode.current, mig.mode.pending), truth.mode);
    let profiles = value(&mig.profiles);
    assert_eq!(profiles.len(), truth.profiles.len());
    for (profile, truth) in profiles.iter().zip(truth.profiles.values()) {
        assert_eq!((profile.id, profile.name.as_deref()), (truth.id, Some(truth.name.as_str())));
        assert_eq!((profile.slices, profile.multiprocessors), (truth.slices, truth.multiprocessors));
        assert_eq!(
            (profile.memory_bytes, profile.max_instances),
            (truth.memory_mib << 20, truth.max_instances)
        );
        let placements = value(&profile.placements);
        let places: Vec<_> = placements.iter().map(|placement| (placement.start, placement.size)).collect();
        assert_eq!(places, truth.placements);
    }
    assert_eq!(value(&mig.instances).len(), truth.instances.len());
}

#[tokio::test]
async fn an_l40s_has_no_nvlink_and_no_mig_and_is_not_asked_again() {
    let rig = Rig::new("l40s-4x");
    let first = rig.tick().await;
    assert!(all_up(&first, 4));
    let readings = sample(&first.gpus[0]);
    assert_eq!(unsupported(&readings.nvlinks), ("nvmlDeviceGetNvLinkState", Cause::Code(3)));
    assert_eq!(unsupported(&readings.mig), ("nvmlDeviceGetMigMode", Cause::Code(3)));
    let temperature = "nvmlDeviceGetFieldValues[NVML_FI_DEV_MEMORY_TEMP]";
    assert_eq!(unsupported(&readings.temperature.memory).0, temperature, "no HBM");
    assert_eq!(unsupported(&readings.fabric).0, "nvmlDeviceGetGpuFabricInfoV");
    let mut last = first.clone();
    for _ in 0..5 {
        last = rig.tick().await;
    }
    assert_eq!(last.calls.unsupported, first.calls.unsupported, "what is unsupported was asked for again");
    assert_eq!(unsupported_calls(&last, "nvmlDeviceGetMigMode", "NOT_SUPPORTED"), 4, "once for each GPU");
    assert!(last.calls.made > first.calls.made);
    // After ten minutes each is asked once more.
    let later = rig.tick_at(Instant::now() + Duration::from_secs(601)).await;
    assert_eq!(unsupported_calls(&later, "nvmlDeviceGetMigMode", "NOT_SUPPORTED"), 8);
}

#[tokio::test]
async fn a_class_that_is_not_asked_for_keeps_its_values() {
    let rig = Rig::new("dgx-h100");
    let before = rig.tick().await;
    rig.work();
    rig.command(Command::SetCounter { gpu: 0, counter: Counter::EccVolatileCorrected, value: 9 });
    let fast = rig.driver.sample(Classes { fast: true, slow: false }, Instant::now()).await;
    let (old, new) = (sample(&before.gpus[0]), sample(&fast.gpus[0]));
    assert_ne!(old.power.energy, new.power.energy);
    assert_eq!((&old.ecc, &old.nvlinks), (&new.ecc, &new.nvlinks));
    let slow = rig.driver.sample(Classes { fast: false, slow: true }, Instant::now()).await;
    assert_eq!(value(&sample(&slow.gpus[0]).ecc.volatile_corrected), 9);
    assert_eq!(sample(&slow.gpus[0]).power, new.power);
}

#[tokio::test]
async fn one_call_that_fails_costs_one_value_and_is_made_again() {
    let rig = Rig::new("l40s-4x");
    let fault = rig.fault(Some(1), "nvmlDeviceGetPowerUsage", Effect::Return(999));
    for times in 1..=2 {
        let gpus = rig.tick().await;
        assert!(all_up(&gpus, 4));
        let failed = &sample(&gpus.gpus[1]).power;
        assert!(matches!(failed.usage, Reading::Failed(answer) if answer.cause == Cause::Code(999)));
        assert!(failed.energy.value().is_some());
        assert!(sample(&gpus.gpus[0]).power.usage.value().is_some());
        assert_eq!(failures(&gpus, "nvmlDeviceGetPowerUsage", "UNKNOWN"), times);
    }
    rig.clear(fault);
    assert!(sample(&rig.tick().await.gpus[1]).power.usage.value().is_some());
}

#[tokio::test]
async fn a_name_that_could_not_be_read_at_first_is_read_later() {
    let rig = Rig::new("l40s-4x");
    let fault = rig.fault(Some(0), "nvmlDeviceGetName", Effect::Return(999));
    let gpus = rig.tick().await;
    assert!(all_up(&gpus, 4));
    assert!(gpus.gpus[0].gpu.name.value().is_none());
    rig.clear(fault);
    assert_eq!(value(&rig.tick().await.gpus[0].gpu.name), "NVIDIA L40S");
}

#[tokio::test]
async fn a_link_that_is_pulled_is_told_and_comes_back() {
    let rig = Rig::new("dgx-h100");
    rig.tick().await;
    rig.command(Command::Link { gpu: 0, link: 3, up: false });
    let pulled = rig.tick().await;
    let links = value(&sample(&pulled.gpus[0]).nvlinks);
    assert_eq!(links.len(), 18);
    assert_eq!(links.iter().filter(|link| !link.active).map(|link| link.link).collect::<Vec<_>>(), [3]);
    rig.command(Command::Link { gpu: 0, link: 3, up: true });
    rig.work();
    let back = rig.tick().await;
    same_links(sample(&back.gpus[0]), &rig.node.state().gpus[0]);
}

#[tokio::test]
async fn what_is_static_is_not_read_each_tick() {
    let rig = Rig::new("dgx-h100");
    rig.tick().await;
    let symbols = [
        "nvmlDeviceGetHandleByIndex_v2",
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetName",
        "nvmlDeviceGetPciInfo_v3",
        "nvmlDeviceGetMaxClockInfo",
        "nvmlDeviceGetNvLinkRemotePciInfo_v2",
        "nvmlDeviceGetNvLinkVersion",
        "nvmlDeviceGetGpuInstanceProfileInfoV",
        "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
    ];
    for symbol in symbols {
        rig.fault(None, symbol, Effect::Return(999));
    }
    let gpus = rig.tick().await;
    assert!(all_up(&gpus, 8));
    assert!(symbols.iter().all(|symbol| failures(&gpus, symbol, "UNKNOWN") == 0), "{:?}", gpus.calls.failed);
    assert_eq!(value(&sample(&gpus.gpus[0]).nvlinks).len(), 18);
    assert_eq!(value(&gpus.gpus[0].gpu.name), "NVIDIA H100 80GB HBM3");
}

#[tokio::test]
async fn a_node_without_gpus_is_not_an_error_of_a_gpu() {
    let rig = Rig::new("cpu-only");
    let gpus = rig.tick().await;
    assert_eq!(gpus.driver.down_reason(), Some("LibraryNotFound"));
    assert!(gpus.gpus.is_empty());
}

#[tokio::test]
async fn idle_gpus_are_up() {
    let rig = Rig::new("l40s-4x");
    rig.command(Command::Load { gpu: None, load: Load::Idle });
    let gpus = rig.tick().await;
    assert!(gpus.gpus.iter().all(|gpu| gpu.condition == Condition::Up));
    assert_eq!(gpus.calls.stuck_threads, 0);
}
