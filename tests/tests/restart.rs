//! What a killed daemon leaves, and what the next one finds.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::time::{Duration, Instant};

use gpulet_tests::{Agent, Node, Scrape};
use nix::sys::signal::Signal;

#[test]
fn a_killed_daemon_comes_back_to_the_same_node() {
    let node = Node::serve("dgx-h100");
    let energy = |scrape: &Scrape| scrape.value("gpulet_gpu_energy_joules_total", &[("gpu", "0")]).unwrap();
    let mut last = 0.0;
    for _ in 0..5 {
        let mut agent = Agent::run(&node, &[]);
        assert!(energy(&agent.scrape()) >= last, "counters of the hardware go on");
        last = energy(&agent.scrape_until("they grow", |scrape| energy(scrape) > last));
        agent.signal(Signal::SIGKILL);
        agent.ended();
    }
    let agent = Agent::run(&node, &[]);
    assert_eq!(agent.scrape().gpus("gpulet_gpu_power_watts"), 8, "the simulator still serves");
    let users = node.state()["clients"].as_array().map(Vec::len);
    assert!(users.is_none_or(|users| users == 1), "killed daemons do not hold the driver: {users:?}");
}

#[test]
fn sigterm_ends_it_cleanly_also_while_a_gpu_hangs() {
    let node = Node::serve("dgx-h100");
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut agent = Agent::run(&node, &[]);
        node.sim(&["fault", "call", "--gpu", "3", "--block"]);
        agent.scrape_until("GPU 3 hangs", |scrape| {
            scrape.label("gpulet_gpu_up", &[("gpu", "3")], "reason").as_deref() == Some("Unresponsive")
        });
        let asked = Instant::now();
        agent.signal(signal);
        let status = agent.ended();
        // Generous beside the deadline of two seconds: the machine may be busy. A hang would take for ever.
        assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
        assert_eq!(status.code(), Some(0), "{:?}", agent.log());
        node.sim(&["fault", "clear"]);
    }
}
