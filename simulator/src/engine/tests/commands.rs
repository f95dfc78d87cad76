//! What people and processes do to a node.

use super::*;
use crate::command::MAX_XIDS;

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
fn a_gpu_can_be_taken_from_the_driver_and_given_back() {
    let mut engine = engine("dgx-1v");
    let bind = |gpu, bound| Command::Bind { gpu, bound };
    let up = |engine: &Engine| {
        let links = engine.state().gpus.iter().map(|gpu| gpu.nvlinks.iter().filter(|link| link.up).count());
        links.collect::<Vec<_>>()
    };
    let whole = up(&engine);
    load(&mut engine, 3, Load::Training);
    assert_eq!(refusal(&mut engine, bind(3, false)), "InUse");
    load(&mut engine, 3, Load::Idle);
    engine.apply(bind(3, false)).unwrap();
    assert_eq!(refusal(&mut engine, bind(3, false)), "SameBinding");
    assert_eq!(refusal(&mut engine, Command::Load { gpu: Some(3), load: Load::Training }), "GpuNotBound");
    assert!(up(&engine).iter().sum::<usize>() < whole.iter().sum(), "its peers see their links go down");
    engine.apply(bind(3, true)).unwrap();
    assert_eq!(up(&engine), whole);
    // Loading the driver binds what it finds.
    engine.apply(bind(3, false)).unwrap();
    engine.apply(Command::UnloadDriver { force: true }).unwrap();
    assert_eq!(refusal(&mut engine, bind(3, true)), "DriverNotLoaded");
    engine.apply(Command::LoadDriver { version: None }).unwrap();
    assert!(engine.state().gpus[3].bound);
    assert_eq!(up(&engine), whole);
}

#[test]
fn a_load_for_all_leaves_those_alone_that_are_not_there() {
    let mut engine = idle();
    engine.apply(Command::Bind { gpu: 1, bound: false }).unwrap();
    engine.apply(Command::Lose { gpu: 2 }).unwrap();
    engine.apply(Command::Load { gpu: None, load: Load::Training }).unwrap();
    let working = (0..).zip(&engine.state().gpus).filter(|(_, gpu)| !gpu.processes.is_empty());
    assert_eq!(working.map(|(gpu, _)| gpu).collect::<Vec<u32>>(), [0, 3, 4, 5, 6, 7]);
}

#[test]
fn events_are_numbered_and_bounded() {
    let mut engine = idle();
    engine.apply(Command::Xid { gpu: 1, code: 63, times: 3, instance: None }).unwrap();
    engine.apply(Command::Xid { gpu: 2, code: 48, times: MAX_XIDS, instance: None }).unwrap();
    assert_eq!(engine.state().events.len(), 10_003, "no command pushes out its own events");
    engine.apply(Command::Xid { gpu: 2, code: 48, times: MAX_XIDS, instance: None }).unwrap();
    let state = engine.state();
    assert_eq!(state.events.len(), MAX_EVENTS);
    assert_eq!(state.events.last().unwrap().sequence, 20_003);
    assert!(state.events.windows(2).all(|pair| pair[1].sequence == pair[0].sequence + 1));
    assert_eq!(state.gpus[1].count.remapped_rows, (0, 3));
    assert!(state.gpus[1].now.row_remap.0);
    assert_eq!(state.gpus[2].count.ecc, [0, 20_000, 0, 20_000]);
    for (code, times) in [(0, 1), (1000, 1), (31, 0), (31, MAX_XIDS + 1)] {
        assert_eq!(refusal(&mut engine, Command::Xid { gpu: 0, code, times, instance: None }), "OutOfRange");
    }
    let elsewhere = Command::Xid { gpu: 0, code: 31, times: 1, instance: Some((1, 0)) };
    assert_eq!(refusal(&mut engine, elsewhere), "NoSuchInstance");
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
    for wrong in ["getpower", "nvmlDeviceGetNothing", "nvmlErrorString"] {
        assert_eq!(refusal(&mut engine, set(None, wrong, Effect::Block)), "OutOfRange", "{wrong}");
    }
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
