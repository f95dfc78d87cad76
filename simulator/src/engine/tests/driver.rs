//! The driver comes and goes, in several versions; MIG.

use super::*;

#[test]
fn a_driver_in_use_stays() {
    let mut engine = idle();
    engine.set_clients(vec![DriverUser { pid: 77, gpus: [0].into() }]);
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
    assert_eq!(engine.state().driver.fields.last, 273);
    let reload = |engine: &mut Engine, version: &str| {
        engine.apply(Command::UnloadDriver { force: true }).unwrap();
        engine.apply(Command::LoadDriver { version: Some(version.to_owned()) }).unwrap();
        engine.state().driver.clone()
    };
    let old = reload(&mut engine, "470.256.02");
    assert_eq!((old.cuda_version, old.nvml_version.as_str()), (11_040, "11.470.256.02"));
    assert!(old.missing_symbols.iter().any(|symbol| symbol == "nvmlDeviceGetMemoryInfo_v2"));
    assert_eq!(old.fields.last, 160);
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
