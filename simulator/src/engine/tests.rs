//! The node's life: physics, commands, determinism.

use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::command::{Applied, Command, Counter, Hold};
use crate::state::{Effect, ProcessKind};

const TICK: Duration = Duration::from_millis(100);

fn engine(node: &str) -> Engine {
    Engine::new(&Node::load(node).unwrap(), 42, 1_700_000_000_000_000).unwrap()
}

/// A DGX H100 on which nothing runs.
fn idle() -> Engine {
    let mut engine = engine("dgx-h100");
    engine.apply(Command::Load { gpu: None, load: Load::Idle }).unwrap();
    engine
}

fn seconds(engine: &mut Engine, seconds: u64) {
    engine.advance(Duration::from_secs(seconds));
}

fn load(engine: &mut Engine, gpu: u32, load: Load) {
    engine.apply(Command::Load { gpu: Some(gpu), load }).unwrap();
}

fn hold(gpu: u32, pid: u32, mib: u64) -> Hold {
    let memory_bytes = Some(mib << 20);
    Hold {
        gpu,
        pid,
        kind: ProcessKind::Compute,
        memory_bytes,
        instance: None,
        name: "/bin/holder".to_owned(),
    }
}

fn refusal(engine: &mut Engine, command: Command) -> &'static str {
    let before = engine.state.clone();
    let reason = engine.apply(command).unwrap_err().reason();
    assert_eq!(engine.state, before, "a refused command changes nothing");
    reason
}

/// One GPU of a board, in MIG mode with these instances.
fn divided(board: &str, instances: &str) -> Engine {
    let text = format!(
        "about: one divided GPU\ndriver: 580.105.08\n\
         cpu: {{model: x, packages: 1, cores-per-package: 2, threads-per-core: 1}}\n\
         numa: [{{id: 0, cpus: 0-1, memory: 8GiB, distances: [10]}}]\n\
         pci: [{{root: 0000:00, numa: 0, devices: [bridge: {{at: 00:01.0, devices: [\
         gpu: {{at: 01:00.0, board: {board}, mig: {{instances: [{instances}]}}}}]}}]}}]\n"
    );
    Engine::new(&Node::parse("divided", "divided.yaml", &text, Path::new(".")).unwrap(), 1, 0).unwrap()
}

#[test]
fn a_fresh_node_is_alive() {
    let mut engine = engine("dgx-h100");
    seconds(&mut engine, 60);
    let gpus = &engine.state().gpus;
    assert_eq!(gpus.len(), 8);
    assert!(gpus[0].now.utilization[0] > 50 && gpus[0].now.power_average_mw > 400_000);
    assert!(gpus[0].nvlinks.iter().all(|link| link.up && link.data_kib.0 > 0 && link.data_kib.1 > 0));
    assert!((15..80).contains(&gpus[4].now.utilization[0]));
    assert_eq!(gpus[7].now.utilization[0], 0);
    assert_eq!(gpus[7].now.clocks_event_reasons, 1);
    assert_eq!(gpus[0].processes.len(), 1);
    assert_eq!(gpus[0].fabric.as_ref().unwrap().state, 3);
    assert_eq!(engine.state().clock_us, 1_700_000_060_000_000);
}

#[test]
fn energy_is_the_integral_of_power() {
    let mut engine = engine("dgx-h100");
    let before: Vec<u64> = engine.state().gpus.iter().map(|gpu| gpu.count.energy_mj).collect();
    let mut millijoules = [0.0; 8];
    for _ in 0..600 {
        engine.advance(TICK);
        for (sum, gpu) in millijoules.iter_mut().zip(&engine.state().gpus) {
            *sum += f64::from(gpu.now.power_instant_mw) * 0.1;
        }
    }
    for ((gpu, before), sum) in engine.state().gpus.iter().zip(before).zip(millijoules) {
        let counted = (gpu.count.energy_mj - before) as f64;
        assert!((counted - sum).abs() <= 1.0, "{counted} and {sum}");
        assert!(counted > 60.0 * 50_000.0);
    }
}

#[test]
fn average_power_is_that_of_one_second() {
    let mut engine = engine("dgx-h100");
    let mut last = Vec::new();
    for _ in 0..100 {
        engine.advance(TICK);
        last.push(u64::from(engine.state().gpus[4].now.power_instant_mw));
    }
    let mean = last[90..].iter().sum::<u64>() / 10;
    assert_eq!(u64::from(engine.state().gpus[4].now.power_average_mw), mean);
}

#[test]
fn a_power_cap_holds_clocks_down_and_is_counted() {
    let mut engine = idle();
    load(&mut engine, 0, Load::Steady { percent: 100 });
    engine.apply(Command::PowerLimit { gpu: 0, milliwatts: 300_000 }).unwrap();
    load(&mut engine, 1, Load::Steady { percent: 30 });
    let before = engine.state().gpus[0].count.clocks_held_ns[0];
    seconds(&mut engine, 10);
    let [capped, free] = &engine.state().gpus[..2] else { panic!("eight GPUs") };
    assert!(capped.now.power_instant_mw <= 300_000 && capped.now.power_instant_mw > 290_000);
    assert_eq!(capped.now.clocks_event_reasons & 0x4, 0x4);
    assert_eq!(capped.count.clocks_held_ns[0] - before, 10_000_000_000);
    assert!(capped.now.clocks_mhz[0] < capped.board.max_clocks_mhz[0] * 3 / 4);
    assert_eq!(free.now.clocks_event_reasons, 0);
    assert_eq!(free.now.clocks_mhz[0], free.board.max_clocks_mhz[0]);
    assert_eq!(free.count.clocks_held_ns, [0; 5]);
    assert_eq!(refusal(&mut engine, Command::PowerLimit { gpu: 0, milliwatts: 1_000 }), "OutOfRange");
}

#[test]
fn temperature_follows_power_slowly() {
    let mut engine = idle();
    seconds(&mut engine, 300);
    let cold = engine.state().gpus[0].now.temperature_c;
    load(&mut engine, 0, Load::Steady { percent: 100 });
    seconds(&mut engine, 5);
    let soon = engine.state().gpus[0].now.temperature_c;
    seconds(&mut engine, 300);
    let hot = engine.state().gpus[0].now.temperature_c;
    assert!(cold < soon && soon < hot - 10, "{cold} {soon} {hot}");
    assert!((66..=69).contains(&hot), "{hot}");
    load(&mut engine, 0, Load::Idle);
    seconds(&mut engine, 300);
    assert!(engine.state().gpus[0].now.temperature_c <= cold + 1);
}

#[test]
fn heat_slows_down() {
    let mut engine = idle();
    load(&mut engine, 2, Load::Steady { percent: 80 });
    engine.apply(Command::Ambient { gpu: Some(2), celsius: 80 }).unwrap();
    seconds(&mut engine, 300);
    let hot = &engine.state().gpus[2];
    assert_eq!(hot.now.clocks_event_reasons & 0x20, 0x20);
    assert!(hot.count.clocks_held_ns[2] > 0);
    assert!(hot.now.clocks_mhz[0] <= hot.board.max_clocks_mhz[0] / 2);
}

#[test]
fn a_gpu_at_rest_lowers_its_link_and_state() {
    let mut engine = engine("l40s-4x");
    load(&mut engine, 2, Load::Steady { percent: 50 });
    seconds(&mut engine, 1);
    let busy = engine.state().gpus[2].now.clone();
    assert_eq!((busy.pcie_generation, busy.performance_state), (4, 0));
    load(&mut engine, 2, Load::Idle);
    seconds(&mut engine, 4);
    assert_eq!(engine.state().gpus[2].now.pcie_generation, 4, "not at once");
    seconds(&mut engine, 4);
    let rests = &engine.state().gpus[2].now;
    assert_eq!((rests.pcie_generation, rests.performance_state, rests.clocks_event_reasons), (1, 8, 1));
    assert_eq!(rests.clocks_mhz, [210, 210, 405, 1185]);
}

#[test]
fn what_one_gpu_sends_another_receives() {
    let mut engine = engine("dgx-h100");
    engine.apply(Command::Link { gpu: 1, link: 4, up: false }).unwrap();
    let sums = |engine: &Engine| {
        let links = engine.state().gpus.iter().flat_map(|gpu| &gpu.nvlinks);
        links.fold((0_u64, 0_u64), |sum, link| (sum.0 + link.data_kib.0, sum.1 + link.data_kib.1))
    };
    let dark = engine.state().gpus[1].nvlinks[4].data_kib;
    seconds(&mut engine, 30);
    let (sent, received) = sums(&engine);
    assert!(sent > 1 << 30);
    assert_eq!(sent, received);
    assert_eq!(engine.state().gpus[1].nvlinks[4].data_kib, dark, "nothing goes over a link that is down");
    engine.apply(Command::Link { gpu: 1, link: 4, up: true }).unwrap();
    seconds(&mut engine, 1);
    assert!(engine.state().gpus[1].nvlinks[4].data_kib.0 > dark.0);
}

#[test]
fn direct_links_have_two_ends() {
    let text = "about: two GPUs\ndriver: 535.183.01\n\
         cpu: {model: x, packages: 1, cores-per-package: 2, threads-per-core: 1}\n\
         numa: [{id: 0, cpus: 0-1, memory: 8GiB, distances: [10]}]\n\
         pci: [{root: 0000:00, numa: 0, devices: [\
         bridge: {at: 00:01.0, devices: [gpu: {at: 01:00.0, board: a100-sxm4-40gb}]},\
         bridge: {at: 00:02.0, devices: [gpu: {at: 02:00.0, board: a100-sxm4-40gb}]}]}]\n\
         nvlink: {direct: [{gpus: [0, 1], links: 4}]}\nloads: [{gpus: 0-1, load: training}]\n";
    let mut engine = Engine::new(&Node::parse("pair", "pair", text, Path::new(".")).unwrap(), 1, 0).unwrap();
    assert_eq!(engine.state().gpus[0].nvlinks.iter().filter(|link| link.up).count(), 4);
    assert_eq!(engine.state().gpus[0].nvlinks[0].remote_pci, (0, 2, 0, 0));
    engine.apply(Command::Link { gpu: 0, link: 3, up: false }).unwrap();
    assert!(!engine.state().gpus[1].nvlinks[3].up);
    seconds(&mut engine, 5);
    let [a, b] = &engine.state().gpus[..] else { panic!("two GPUs") };
    for (one, other) in a.nvlinks.iter().zip(&b.nvlinks).take(3) {
        assert!(one.data_kib.0 > 0);
        assert_eq!((one.data_kib.0, one.data_kib.1), (other.data_kib.1, other.data_kib.0));
    }
    engine.apply(Command::Lose { gpu: 1 }).unwrap();
    assert!(engine.state().gpus[0].nvlinks.iter().all(|link| !link.up), "no one is at the other end");
    engine.apply(Command::Restore { gpu: 1 }).unwrap();
    assert!(engine.state().gpus[0].nvlinks[0].up);
}

#[test]
fn memory_is_what_the_processes_hold() {
    let mut engine = idle();
    let total = engine.state().gpus[0].board.memory_bytes - engine.state().gpus[0].board.reserved_bytes;
    let context = engine.state().gpus[0].now.memory_used_bytes;
    assert_eq!(context, 4 << 20);
    engine.apply(Command::Hold(hold(0, 100, 1000))).unwrap();
    engine.apply(Command::Hold(Hold { memory_bytes: None, ..hold(0, 101, 0) })).unwrap();
    load(&mut engine, 0, Load::Training);
    let gpu = &engine.state().gpus[0];
    let held: u64 = gpu.processes.iter().filter_map(|process| process.memory_bytes).sum();
    assert_eq!(gpu.now.memory_used_bytes, held + context);
    assert_eq!(refusal(&mut engine, Command::Hold(hold(0, 102, total >> 20))), "OutOfMemory");
    assert_eq!(refusal(&mut engine, Command::Hold(hold(0, 100, 1))), "AlreadyHeld");
    assert_eq!(refusal(&mut engine, Command::Hold(hold(0, 0, 1))), "OutOfRange");
    engine.apply(Command::Release { pid: 100, gpu: None }).unwrap();
    engine.apply(Command::Release { pid: 101, gpu: Some(0) }).unwrap();
    assert_eq!(refusal(&mut engine, Command::Release { pid: 100, gpu: None }), "NotHeld");
    load(&mut engine, 0, Load::Idle);
    assert_eq!(engine.state().gpus[0].now.memory_used_bytes, context);
}

#[test]
fn a_scripted_load_ends_with_its_process() {
    let mut engine = engine("dgx-h100");
    engine.apply(Command::Release { pid: SCRIPTED_PID, gpu: None }).unwrap();
    seconds(&mut engine, 1);
    assert_eq!(engine.state().gpus[0].now.utilization[0], 0);
    assert!(engine.state().gpus[1].now.utilization[0] > 0);
}

#[test]
fn compute_modes_keep_processes_out() {
    let mut engine = idle();
    engine.apply(Command::ComputeMode { gpu: 0, mode: 3 }).unwrap();
    engine.apply(Command::Hold(hold(0, 100, 1))).unwrap();
    assert_eq!(refusal(&mut engine, Command::Hold(hold(0, 101, 1))), "ComputeMode");
    assert_eq!(refusal(&mut engine, Command::Load { gpu: Some(0), load: Load::Training }), "ComputeMode");
    engine.apply(Command::ComputeMode { gpu: 1, mode: 2 }).unwrap();
    assert_eq!(refusal(&mut engine, Command::Hold(hold(1, 100, 1))), "ComputeMode");
    assert_eq!(refusal(&mut engine, Command::ComputeMode { gpu: 1, mode: 1 }), "OutOfRange");
    assert_eq!(refusal(&mut engine, Command::Load { gpu: None, load: Load::Training }), "ComputeMode");
}

#[test]
fn a_lost_gpu_says_so_and_comes_back_reset() {
    let mut engine = engine("dgx-h100");
    seconds(&mut engine, 10);
    engine.apply(Command::Lose { gpu: 3 }).unwrap();
    let state = engine.state();
    assert!(state.gpus[3].lost && state.gpus[3].processes.is_empty());
    let event = state.events.last().unwrap();
    assert_eq!((event.gpu, event.kind, event.data, event.gpu_instance), (3, 8, 79, u32::MAX));
    let frozen = state.gpus[3].clone();
    seconds(&mut engine, 10);
    assert_eq!(engine.state().gpus[3], frozen);
    for command in [
        Command::Lose { gpu: 3 },
        Command::Hold(hold(3, 1, 1)),
        Command::Load { gpu: Some(3), load: Load::Training },
        Command::Xid { gpu: 3, code: 31, times: 1, instance: None },
        Command::SetCounter { gpu: 3, counter: Counter::Energy, value: 0 },
    ] {
        assert_eq!(refusal(&mut engine, command), "GpuLost");
    }
    engine.apply(Command::Load { gpu: None, load: Load::Inference }).unwrap();
    engine.apply(Command::Restore { gpu: 3 }).unwrap();
    assert_eq!(engine.state().gpus[3].count.energy_mj, 0);
    assert_eq!(refusal(&mut engine, Command::Restore { gpu: 3 }), "GpuNotLost");
    load(&mut engine, 3, Load::Inference);
    seconds(&mut engine, 1);
    assert!(engine.state().gpus[3].count.energy_mj > 0);
}

#[test]
fn events_are_numbered_and_bounded() {
    let mut engine = idle();
    engine.apply(Command::Xid { gpu: 1, code: 63, times: 3, instance: None }).unwrap();
    engine.apply(Command::Xid { gpu: 2, code: 48, times: 5000, instance: None }).unwrap();
    let state = engine.state();
    assert_eq!(state.events.len(), MAX_EVENTS);
    assert_eq!(state.events.last().unwrap().sequence, 5003);
    assert!(state.events.windows(2).all(|pair| pair[1].sequence == pair[0].sequence + 1));
    assert_eq!(state.gpus[1].count.remapped_rows, (0, 3));
    assert!(state.gpus[1].now.row_remap.0);
    assert_eq!(state.gpus[2].count.ecc, [0, 5000, 0, 5000]);
    for (code, times) in [(0, 1), (1000, 1), (31, 0), (31, 100_001)] {
        assert_eq!(refusal(&mut engine, Command::Xid { gpu: 0, code, times, instance: None }), "OutOfRange");
    }
    let elsewhere = Command::Xid { gpu: 0, code: 31, times: 1, instance: Some((1, 0)) };
    assert_eq!(refusal(&mut engine, elsewhere), "NoSuchInstance");
}

#[test]
fn a_driver_in_use_stays() {
    let mut engine = idle();
    engine.set_clients(vec![77]);
    engine.apply(Command::Hold(hold(5, 99, 1))).unwrap();
    let error = engine.apply(Command::UnloadDriver { force: false }).unwrap_err();
    assert_eq!(error, Refusal::InUse { pids: vec![77, 99] });
    assert!(error.to_string().contains("77, 99"));
    engine.apply(Command::UnloadDriver { force: true }).unwrap();
    assert!(engine.state().gpus[5].processes.is_empty());
}

#[test]
fn a_reload_resets_what_is_volatile() {
    let mut engine = engine("dgx-h100");
    seconds(&mut engine, 5);
    for (counter, value) in [
        (Counter::PcieReplays, 7),
        (Counter::EccVolatileCorrected, 1),
        (Counter::EccAggregateCorrected, 2),
        (Counter::EccVolatileUncorrected, 3),
        (Counter::EccAggregateUncorrected, 4),
        (Counter::RemappedUncorrectable, 5),
        (Counter::NvlinkReplays(3), 6),
    ] {
        engine.apply(Command::SetCounter { gpu: 0, counter, value }).unwrap();
    }
    engine.apply(Command::Xid { gpu: 0, code: 63, times: 1, instance: None }).unwrap();
    assert_eq!(refusal(&mut engine, Command::LoadDriver { version: None }), "DriverLoaded");
    engine.apply(Command::UnloadDriver { force: true }).unwrap();
    let unloaded = engine.state().gpus.clone();
    seconds(&mut engine, 5);
    assert_eq!(engine.state().gpus, unloaded, "without a driver nothing is measured");
    assert_eq!(refusal(&mut engine, Command::UnloadDriver { force: false }), "DriverNotLoaded");
    assert_eq!(refusal(&mut engine, Command::Hold(hold(0, 1, 1))), "DriverNotLoaded");
    let nonsense = Command::LoadDriver { version: Some("newest".to_owned()) };
    assert_eq!(refusal(&mut engine, nonsense), "InvalidVersion");
    engine.apply(Command::LoadDriver { version: None }).unwrap();
    let state = engine.state();
    assert_eq!((state.driver.load, state.driver.loaded), (2, true));
    let gpu = &state.gpus[0];
    assert_eq!((gpu.count.energy_mj, gpu.count.pcie_replays, gpu.count.pcie_bytes), (0, 0, (0, 0)));
    assert_eq!(gpu.count.ecc, [0, 0, 2, 4]);
    assert_eq!(gpu.count.remapped_rows, (0, 6));
    assert!(!gpu.now.row_remap.0, "the pending row is remapped");
    assert!(gpu.nvlinks.iter().all(|link| link.up && link.data_kib == (0, 0) && link.errors == [0; 4]));
    seconds(&mut engine, 1);
    assert!(engine.state().gpus[0].count.energy_mj > 0);
}

#[test]
fn an_older_driver_is_poorer() {
    let mut engine = engine("l40s-4x");
    assert!(engine.state().driver.field_ids_from_580_82);
    let reload = |engine: &mut Engine, version: &str| {
        engine.apply(Command::UnloadDriver { force: true }).unwrap();
        engine.apply(Command::LoadDriver { version: Some(version.to_owned()) }).unwrap();
        engine.state().driver.clone()
    };
    let old = reload(&mut engine, "470.256.02");
    assert_eq!((old.cuda_version, old.nvml_version.as_str()), (11_040, "11.470.256.02"));
    assert!(old.missing_symbols.iter().any(|symbol| symbol == "nvmlDeviceGetMemoryInfo_v2"));
    assert!(!old.field_ids_from_580_82);
    let newer = reload(&mut engine, "550.54.15");
    assert!(newer.missing_symbols.len() < old.missing_symbols.len());
    assert_eq!(newer.load, 3);
    engine.apply(Command::UnloadDriver { force: true }).unwrap();
    engine.apply(Command::LoadDriver { version: None }).unwrap();
    assert_eq!(engine.state().driver.version, "550.54.15", "the last version stays installed");
}

#[test]
fn a_node_without_a_driver_cannot_load_one() {
    let mut engine = engine("cpu-only");
    assert!(!engine.state().driver.loaded);
    assert_eq!(refusal(&mut engine, Command::LoadDriver { version: None }), "NoDriver");
    let error = engine.apply(Command::Lose { gpu: 0 }).unwrap_err();
    assert_eq!(error, Refusal::NoSuchGpu { gpu: 0, count: 0 });
}

#[test]
fn instances_are_as_described() {
    let engine = divided(
        "h100-sxm-80gb",
        "{profile: 3g.40gb, start: 4, compute: [1, 2]}, {profile: 1g.10gb, start: 3}",
    );
    let mig = engine.state().gpus[0].mig.as_ref().unwrap();
    assert_eq!(mig.mode, (true, true));
    let found: Vec<_> = mig.instances.iter().map(|gi| (gi.id, gi.profile, gi.placement)).collect();
    assert_eq!(found, [(2, 2, (4, 4)), (10, 0, (3, 1))]);
    let compute: Vec<_> =
        mig.instances[0].compute.iter().map(|ci| (ci.id, ci.profile, ci.placement)).collect();
    assert_eq!(compute, [(0, 0, (2, 1)), (1, 1, (0, 2))]);
    assert!(mig.instances[0].compute[0].uuid.starts_with("MIG-"));
    assert_ne!(mig.instances[0].compute[0].uuid, mig.instances[0].compute[1].uuid);
}

#[test]
fn in_mig_mode_work_runs_in_instances() {
    let mut engine =
        divided("h100-sxm-80gb", "{profile: 1g.10gb, start: 0}, {profile: 2g.20gb, start: 2, compute: []}");
    assert_eq!(refusal(&mut engine, Command::Hold(hold(0, 100, 1))), "InstanceNeeded");
    let inside = |gi: u32, mib: u64| Hold { instance: Some((gi, 0)), ..hold(0, 100, mib) };
    assert_eq!(refusal(&mut engine, Command::Hold(inside(4, 1))), "NoSuchInstance");
    assert_eq!(refusal(&mut engine, Command::Hold(inside(7, 9985))), "OutOfMemory");
    let graphics = Hold { kind: ProcessKind::Graphics, ..inside(7, 1) };
    assert_eq!(refusal(&mut engine, Command::Hold(graphics)), "NoGraphics");
    engine.apply(Command::Hold(inside(7, 1000))).unwrap();
    load(&mut engine, 0, Load::Inference);
    let gpu = &engine.state().gpus[0];
    let gi = &gpu.mig.as_ref().unwrap().instances[0];
    assert_eq!(gi.memory_used_bytes + (4 << 20), gpu.now.memory_used_bytes);
    assert_eq!(gpu.processes[1].instance, Some((7, 0)));
    engine.apply(Command::Xid { gpu: 0, code: 31, times: 1, instance: Some((7, 0)) }).unwrap();
    assert_eq!(engine.state().events[0].gpu_instance, 7);

    let mut whole = idle();
    assert_eq!(refusal(&mut whole, Command::Hold(inside(0, 1))), "NoSuchInstance");
}

#[test]
fn mig_mode_outlives_the_driver_before_hopper_only() {
    for (board, stays) in [("h100-sxm-80gb", false), ("a100-sxm4-40gb", true)] {
        let mut engine = divided(board, "");
        engine.apply(Command::UnloadDriver { force: false }).unwrap();
        engine.apply(Command::LoadDriver { version: None }).unwrap();
        let mig = engine.state().gpus[0].mig.as_ref().unwrap();
        assert_eq!(mig.mode, (stays, stays), "{board}");
    }
    let mut engine = divided("a100-sxm4-40gb", "{profile: 7g.40gb, start: 0}");
    engine.apply(Command::UnloadDriver { force: false }).unwrap();
    engine.apply(Command::LoadDriver { version: Some("470.256.02".to_owned()) }).unwrap();
    let mig = engine.state().gpus[0].mig.as_ref().unwrap();
    assert!(mig.instances.is_empty());
    assert_eq!(mig.profiles.len(), 6, "1g.10gb came later");
}

#[test]
fn counters_can_be_brought_to_wrap() {
    let mut engine = engine("dgx-h100");
    for (counter, value) in [
        (Counter::PcieReplays, u64::from(u32::MAX)),
        (Counter::PcieTransmitted, u64::MAX),
        (Counter::NvlinkTransmitted(0), u64::MAX),
        (Counter::Energy, u64::MAX),
    ] {
        engine.apply(Command::SetCounter { gpu: 0, counter, value }).unwrap();
    }
    assert_eq!(engine.state().gpus[0].count.energy_mj, u64::MAX);
    seconds(&mut engine, 1);
    let gpu = &engine.state().gpus[0];
    assert!(
        gpu.count.energy_mj < 1 << 40
            && gpu.count.pcie_bytes.0 < 1 << 40
            && gpu.nvlinks[0].data_kib.0 < 1 << 40
    );
    let wide = Command::SetCounter { gpu: 0, counter: Counter::PcieReplays, value: 1 << 32 };
    assert_eq!(refusal(&mut engine, wide), "OutOfRange");
    let nowhere = Command::SetCounter { gpu: 0, counter: Counter::NvlinkCrc(18), value: 1 };
    assert_eq!(refusal(&mut engine, nowhere), "NoSuchLink");
}

#[test]
fn faults_are_set_and_cleared_by_number() {
    let mut engine = idle();
    let set = |gpu: Option<u32>, symbol: &str, effect: Effect| Command::SetFault {
        gpu,
        symbol: Some(symbol.to_owned()),
        effect,
    };
    let power = "nvmlDeviceGetPowerUsage";
    assert_eq!(engine.apply(set(Some(1), power, Effect::Return(999))), Ok(Applied::Fault { id: 1 }));
    assert_eq!(engine.apply(set(None, power, Effect::Block)), Ok(Applied::Fault { id: 2 }));
    assert_eq!(refusal(&mut engine, set(Some(8), power, Effect::Block)), "NoSuchGpu");
    assert_eq!(refusal(&mut engine, set(None, "getpower", Effect::Block)), "OutOfRange");
    assert_eq!(refusal(&mut engine, set(None, power, Effect::Return(0))), "OutOfRange");
    assert_eq!(engine.apply(Command::ClearFault { id: Some(1) }), Ok(Applied::Cleared { count: 1 }));
    assert_eq!(refusal(&mut engine, Command::ClearFault { id: Some(1) }), "NoSuchFault");
    assert_eq!(engine.apply(Command::ClearFault { id: None }), Ok(Applied::Cleared { count: 1 }));
    assert_eq!(engine.apply(Command::ClearFault { id: None }), Ok(Applied::Cleared { count: 0 }));
}

#[test]
fn the_clock_is_paused_run_and_stepped() {
    let mut engine = idle();
    assert_eq!(engine.pace(), 1.0);
    engine.apply(Command::Pause).unwrap();
    assert_eq!(engine.pace(), 0.0);
    let before = engine.state().clock_us;
    let clock_us = before + 1_500_000;
    assert_eq!(
        engine.apply(Command::Step { by: Duration::from_millis(1500) }),
        Ok(Applied::Clock { clock_us })
    );
    engine.apply(Command::Run { factor: 10.0 }).unwrap();
    assert_eq!(engine.pace(), 10.0);
    for factor in [0.0, -1.0, 1001.0, f64::NAN, f64::INFINITY] {
        assert!(engine.apply(Command::Run { factor }).is_err());
    }
    assert_eq!(refusal(&mut engine, Command::Step { by: Duration::from_secs(86_401) }), "OutOfRange");
    engine.apply(Command::Permission { denied: true }).unwrap();
    assert!(engine.state().driver.no_permission);
}

#[test]
fn the_seed_decides() {
    let run = |seed: u64| {
        let mut engine = Engine::new(&Node::load("dgx-h100").unwrap(), seed, 0).unwrap();
        seconds(&mut engine, 10);
        engine.state().clone()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

fn any_load() -> impl Strategy<Value = Load> {
    prop_oneof![
        Just(Load::Idle),
        Just(Load::Training),
        Just(Load::Inference),
        (0..=110_u32).prop_map(|percent| Load::Steady { percent }),
        (0..=110_u32, 0..=100_u32, 0..20_u32).prop_map(|(from, to, seconds)| Load::Ramp {
            from,
            to,
            seconds
        }),
    ]
}

fn any_counter() -> impl Strategy<Value = Counter> {
    prop_oneof![
        Just(Counter::Energy),
        Just(Counter::PcieReplays),
        Just(Counter::EccVolatileUncorrected),
        (0..20_u32).prop_map(Counter::NvlinkReceived),
    ]
}

fn any_command() -> impl Strategy<Value = Command> {
    let gpu = 0..6_u32;
    let some_gpu = proptest::option::of(0..6_u32);
    prop_oneof![
        (some_gpu.clone(), any_load()).prop_map(|(gpu, load)| Command::Load { gpu, load }),
        gpu.clone().prop_map(|gpu| Command::Lose { gpu }),
        gpu.clone().prop_map(|gpu| Command::Restore { gpu }),
        (gpu.clone(), 0..100_u64, 0..2000_u32).prop_map(|(gpu, code, times)| Command::Xid {
            gpu,
            code,
            times,
            instance: None
        }),
        (gpu.clone(), 0..20_u32, any::<bool>()).prop_map(|(gpu, link, up)| Command::Link { gpu, link, up }),
        any::<bool>().prop_map(|force| Command::UnloadDriver { force }),
        proptest::option::of("[0-9]{3}\\.[0-9]{1,5}").prop_map(|version| Command::LoadDriver { version }),
        (gpu.clone(), 0..5_u32, any::<u64>()).prop_map(|(gpu, pid, mib)| Command::Hold(hold(
            gpu,
            pid,
            mib >> 24
        ))),
        (0..5_u32, some_gpu.clone()).prop_map(|(pid, gpu)| Command::Release { pid, gpu }),
        (gpu.clone(), any_counter(), any::<u64>()).prop_map(|(gpu, counter, value)| Command::SetCounter {
            gpu,
            counter,
            value
        }),
        (gpu.clone(), 0..900_000_u32).prop_map(|(gpu, milliwatts)| Command::PowerLimit { gpu, milliwatts }),
        (gpu, 0..5_u32).prop_map(|(gpu, mode)| Command::ComputeMode { gpu, mode }),
        (some_gpu.clone(), -40..120_i32).prop_map(|(gpu, celsius)| Command::Ambient { gpu, celsius }),
        (some_gpu, "(nvml)?[A-Za-z]{0,9}").prop_map(|(gpu, symbol)| Command::SetFault {
            gpu,
            symbol: Some(symbol),
            effect: Effect::Block
        }),
        (0..5000_u64).prop_map(|ms| Command::Step { by: Duration::from_millis(ms) }),
    ]
}

/// What holds at every moment.
fn check(state: &NodeState) {
    for gpu in &state.gpus {
        let (now, board) = (&gpu.now, &gpu.board);
        assert!(now.utilization.iter().all(|percent| *percent <= 100));
        assert!(now.power_instant_mw <= board.power_limit_range_mw.1);
        assert!(now.memory_used_bytes <= board.memory_bytes - board.reserved_bytes);
        assert!(now.bar1_used_bytes <= board.bar1_bytes);
        assert!(
            now.clocks_mhz.iter().zip(board.max_clocks_mhz).all(|(clock, max)| *clock <= max && *clock > 0)
        );
        assert!((1..=board.pcie_max_generation).contains(&now.pcie_generation));
        let held: u64 = gpu.processes.iter().filter_map(|process| process.memory_bytes).sum();
        assert_eq!(now.memory_used_bytes, held + (4 << 20));
        assert!(!gpu.lost || gpu.processes.is_empty());
    }
    assert!(state.events.len() <= MAX_EVENTS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn however_time_is_cut_the_states_are_the_same(cuts in proptest::collection::vec(0..700_u64, 1..20)) {
        let mut whole = engine("l40s-4x");
        let mut cut = whole.clone();
        cuts.iter().for_each(|ms| cut.advance(Duration::from_millis(*ms)));
        whole.advance(Duration::from_millis(cuts.iter().sum()));
        prop_assert_eq!(whole.state(), cut.state());
    }

    #[test]
    fn no_commands_break_it(commands in proptest::collection::vec(any_command(), 0..40)) {
        let mut engine = engine("l40s-4x");
        for command in commands {
            let before = engine.state().clone();
            if engine.apply(command).is_err() {
                prop_assert_eq!(engine.state(), &before);
            }
            check(engine.state());
        }
        let bytes = postcard::to_stdvec(engine.state()).unwrap();
        prop_assert_eq!(&postcard::from_bytes::<NodeState>(&bytes).unwrap(), engine.state());
    }

    #[test]
    fn commands_survive_json(command in any_command()) {
        let text = serde_json::to_string(&command).unwrap();
        prop_assert_eq!(serde_json::from_str::<Command>(&text).unwrap(), command);
    }
}
