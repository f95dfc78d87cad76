//! Memory and CPU of the release binary on a simulated DGX H100, sampling once a second and scraped once a second.
//!
//! Not a criterion benchmark: it watches another process from outside. Build the programs first:
//! `cargo build --release --workspace && cargo bench -p gpulet-benches --bench footprint`

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unused_crate_dependencies)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gpulet_simulator::client::Client;

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn built(name: &str) -> PathBuf {
    let bench = std::env::current_exe().unwrap();
    let program = bench.parent().unwrap().parent().unwrap().join(name);
    assert!(program.exists(), "{} is missing: cargo build --release --workspace", program.display());
    program
}

/// CPU seconds that `pid` has used, and its resident memory in MiB.
fn usage(pid: u32) -> (f64, f64) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // Fields 14 and 15, counted behind the command's closing bracket.
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: f64 = fields.iter().skip(11).take(2).map(|field| field.parse::<f64>().unwrap()).sum();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: f64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
    (ticks / 100.0, kib / 1024.0)
}

fn scrape(address: SocketAddr) -> usize {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: gpulet\r\nAccept: text/plain\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response.lines().filter(|line| line.starts_with("gpulet_")).count()
}

fn serve_node(directory: &std::path::Path) -> Running {
    let mut command = Command::new(built("gpulet-sim"));
    command.args(["serve", "dgx-h100", "--dir"]).arg(directory).stdout(Stdio::null());
    let node = Running(command.spawn().unwrap());
    while Client::connect(directory).and_then(|mut client| client.state()).is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
    node
}

fn run_agent(directory: &std::path::Path) -> (Running, SocketAddr) {
    let mut command = Command::new(built("gpulet"));
    command.env("GPULET_HOST_ROOT", directory.join("host"));
    command.env("GPULET_NVML_LIBRARY", directory.join("lib/libnvidia-ml.so.1"));
    command.env("GPULET_STATE_DIR", directory.join("gpulet"));
    command.args(["run", "--listen", "127.0.0.1:0", "--log-format", "json"]);
    let mut agent = Running(command.stderr(Stdio::piped()).spawn().unwrap());
    let log = BufReader::new(agent.0.stderr.take().unwrap());
    let address = log.lines().map_while(Result::ok).find_map(|line| {
        let (_, rest) = line.split_once("\"address\":\"")?;
        rest.split('"').next()?.parse().ok()
    });
    (agent, address.expect("the daemon says where it listens"))
}

fn main() {
    // `cargo bench -- --test` asks for a quick look only.
    let seconds: u32 = if std::env::args().any(|argument| argument == "--test") { 3 } else { 60 };
    let directory = tempfile::tempdir().unwrap();
    let _node = serve_node(directory.path());
    let (agent, address) = run_agent(directory.path());
    let pid = agent.0.id();

    std::thread::sleep(Duration::from_secs(2));
    let (cpu_before, _) = usage(pid);
    let started = Instant::now();
    let mut series = 0;
    for _ in 0..seconds {
        std::thread::sleep(Duration::from_secs(1));
        series = scrape(address);
    }
    let (cpu, resident) = usage(pid);
    let share = (cpu - cpu_before) / started.elapsed().as_secs_f64() * 100.0;
    let binary = std::fs::metadata(built("gpulet")).unwrap().len() as f64 / f64::from(1 << 20);
    println!(
        "series {series}, resident memory {resident:.1} MiB, CPU {share:.2} % of a core, binary {binary:.1} MiB"
    );
}
