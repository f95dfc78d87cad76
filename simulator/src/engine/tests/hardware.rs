//! What the hardware does by itself: load, clocks, power, heat, traffic.

use super::*;

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
fn a_pulled_link_stays_down_whoever_goes_and_comes() {
    let mut engine = engine("dgx-1v");
    let ups = |engine: &Engine| -> Vec<Vec<bool>> {
        let gpus = engine.state().gpus.iter();
        gpus.map(|gpu| gpu.nvlinks.iter().map(|link| link.up).collect()).collect()
    };
    let whole = ups(&engine);
    engine.apply(Command::Link { gpu: 0, link: 0, up: false }).unwrap();
    let pulled = ups(&engine);
    let (peer, _) = engine.wiring.peer(0, 0).unwrap();
    let peer = u32::try_from(peer).unwrap();
    for orders in [[0, peer, 0, peer], [0, peer, peer, 0], [peer, 0, peer, 0], [peer, 0, 0, peer]] {
        let [first, second, third, fourth] = orders;
        engine.apply(Command::Lose { gpu: first }).unwrap();
        engine.apply(Command::Lose { gpu: second }).unwrap();
        engine.apply(Command::Restore { gpu: third }).unwrap();
        engine.apply(Command::Restore { gpu: fourth }).unwrap();
        assert_eq!(ups(&engine), pulled, "{orders:?}");
    }
    // Plugged in while the other end is away it comes up with it.
    engine.apply(Command::Lose { gpu: peer }).unwrap();
    engine.apply(Command::Link { gpu: 0, link: 0, up: true }).unwrap();
    assert!(!engine.state().gpus[0].nvlinks[0].up);
    engine.apply(Command::Restore { gpu: peer }).unwrap();
    assert_eq!(ups(&engine), whole);
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
