//! Memory and CPU of the release binary on a simulated DGX H100, sampling once a second and scraped once a second: alone,
//! and with a kubelet, an API server and 110 Pods.
//!
//! Not a criterion benchmark: it watches another process from outside. Build the programs first:
//! `cargo build --release --workspace && cargo bench -p gpulet-benches --bench footprint`. The API server is a real one, as
//! the tests have it: where its programs are not there yet, they are built, which takes Go and minutes. With `-- --alone`
//! there is none.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    unused_crate_dependencies
)]

mod kubernetes;
mod process;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use process::{Running, built, peak, run_agent, scrape, serve_node, usage};

fn main() {
    let asked = |word: &str| std::env::args().any(|argument| argument == word);
    // `cargo bench -- --test` asks for a quick look only.
    let seconds = if asked("--test") { 3 } else { 60 };
    let directory = tempfile::tempdir().unwrap();
    let node = serve_node(directory.path());
    let (agent, address) = run_agent(directory.path(), &["--publish", "never"]);
    println!("alone: {}", watch(&agent, address, seconds));
    drop((agent, node));
    if !asked("--alone") {
        println!("with Kubernetes and {} Pods: {}", kubernetes::PODS, kubernetes::measure(seconds));
    }
    let binary = std::fs::metadata(built("gpulet")).unwrap().len() as f64 / f64::from(1 << 20);
    println!("binary {binary:.1} MiB");
}

/// Scrapes it once a second for so long, and says what it used meanwhile.
fn watch(agent: &Running, address: SocketAddr, seconds: u32) -> String {
    let pid = agent.pid();
    std::thread::sleep(Duration::from_secs(2));
    let (cpu_before, _) = usage(pid);
    let started = Instant::now();
    let mut series = 0;
    for _ in 0..seconds {
        std::thread::sleep(Duration::from_secs(1));
        series = scrape(address).lines().filter(|line| line.starts_with("gpulet_")).count();
    }
    let (cpu, resident) = usage(pid);
    let share = (cpu - cpu_before) / started.elapsed().as_secs_f64() * 100.0;
    let peak = peak(pid);
    format!(
        "{series} series, resident memory {resident:.1} MiB (at most {peak:.1}), CPU {share:.2} % of a core"
    )
}
