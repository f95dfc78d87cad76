//! The programs, watched from outside.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use gpulet_simulator::client::Client;

/// A program that is killed when dropped.
pub(crate) struct Running(Child);

impl Running {
    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The release program of this name.
pub(crate) fn built(name: &str) -> PathBuf {
    let bench = std::env::current_exe().unwrap();
    let program = bench.parent().unwrap().parent().unwrap().join(name);
    assert!(program.exists(), "{} is missing: cargo build --release --workspace", program.display());
    program
}

/// CPU seconds that `pid` has used, and its resident memory in MiB.
pub(crate) fn usage(pid: u32) -> (f64, f64) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // Fields 14 and 15, counted behind the command's closing bracket.
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: f64 = fields.iter().skip(11).take(2).map(|field| field.parse::<f64>().unwrap()).sum();
    (ticks / 100.0, status(pid, "VmRSS:") / 1024.0)
}

/// The most that it had resident so far, MiB.
pub(crate) fn peak(pid: u32) -> f64 {
    status(pid, "VmHWM:") / 1024.0
}

/// A line of `/proc/PID/status` in KiB.
fn status(pid: u32, line: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let value = status.lines().find_map(|found| found.strip_prefix(line)).unwrap();
    value.trim().trim_end_matches(" kB").parse().unwrap()
}

/// What `/metrics` answers.
pub(crate) fn scrape(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: gpulet\r\nAccept: text/plain\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

/// A simulated DGX H100 in `directory`.
pub(crate) fn serve_node(directory: &Path) -> Running {
    let mut command = Command::new(built("gpulet-sim"));
    command.args(["serve", "dgx-h100", "--dir"]).arg(directory).stdout(Stdio::null());
    let node = Running(command.spawn().unwrap());
    while Client::connect(directory).and_then(|mut client| client.state()).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    node
}

/// The daemon on it, and where it listens.
pub(crate) fn run_agent(directory: &Path, arguments: &[&str]) -> (Running, SocketAddr) {
    let mut command = Command::new(built("gpulet"));
    command.env("GPULET_HOST_ROOT", directory.join("host"));
    command.env("GPULET_NVML_LIBRARY", directory.join("lib/libnvidia-ml.so.1"));
    command.env("GPULET_STATE_DIR", directory.join("gpulet"));
    command.args(["run", "--listen", "127.0.0.1:0", "--log-format", "json"]).args(arguments);
    let mut agent = Running(command.stderr(Stdio::piped()).spawn().unwrap());
    let mut log = BufReader::new(agent.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    let address = log.find_map(|line| {
        let (_, rest) = line.split_once("\"address\":\"")?;
        rest.split('"').next()?.parse().ok()
    });
    // It goes on writing, and must not find its log closed.
    std::thread::spawn(move || log.for_each(drop));
    (agent, address.expect("the daemon says where it listens"))
}
