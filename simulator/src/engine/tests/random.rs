//! Whatever is asked in whatever order.

use proptest::prelude::*;

use super::*;

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
        (gpu.clone(), any::<bool>()).prop_map(|(gpu, bound)| Command::Bind { gpu, bound }),
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
        (some_gpu, "nvml(Init_v2|Shutdown|ErrorString|DeviceGetName|[A-Za-z]{0,9})")
            .prop_map(|(gpu, symbol)| Command::SetFault { gpu, symbol: Some(symbol), effect: Effect::Block }),
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

#[test]
fn every_state_survives_the_wire() {
    let divided = divided("h100-sxm-80gb", "{profile: 3g.40gb, start: 4, compute: [1, 2]}");
    for mut engine in [engine("dgx-h100"), engine("l40s-4x"), engine("cpu-only"), divided] {
        seconds(&mut engine, 3);
        let bytes = postcard::to_stdvec(engine.state()).unwrap();
        assert_eq!(&postcard::from_bytes::<NodeState>(&bytes).unwrap(), engine.state());
    }
}
