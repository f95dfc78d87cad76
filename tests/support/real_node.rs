//! A node of a control plane that is real: a kubelet, containerd and runc on two NUMA nodes, in the emulated machine of
//! `tests/node`. Its GPUs are simulated.

mod answers;
mod payload;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

pub use answers::{Answers, Device, Holding, Memory};

use crate::control_plane::ControlPlane;
use crate::control_plane::process::{Process, free_port};
use crate::program::wait_within;

/// How long the machine may take to start, other tries included, and anything in it.
const PATIENCE: Duration = Duration::from_secs(300);
/// The guest's port that takes commands.
const COMMANDS: u16 = 2222;

/// A running node; ended when dropped. A test that panics gets its logs shown.
#[derive(Debug)]
pub struct RealNode {
    machine: Process,
    commands: u16,
    directory: TempDir,
}

/// What a command in the node came to.
#[derive(Debug)]
pub struct Ran {
    /// What it printed, standard error included.
    pub output: String,
    /// Its exit status.
    pub status: i32,
}

impl RealNode {
    /// Its name, as its Node has it.
    pub const NAME: &'static str = "node-a";

    /// Boots it with the built programs and the files of `bring` (name, path), and waits until its Node is ready and says
    /// how many GPUs it has. They are at `/payload` there.
    pub fn boot(plane: &ControlPlane, bring: &[(&str, &Path)]) -> Self {
        let directory = tempfile::Builder::new().prefix("node-").tempdir().unwrap();
        let payload = directory.path().join("payload");
        payload::make(&payload, plane, bring);
        let commands = free_port();
        let mut boot = Command::new(scripts().join("boot"));
        boot.arg(&payload).arg(directory.path()).arg(format!("{commands}:{COMMANDS}"));
        let machine = Process::start(boot, directory.path().join("boot"));
        println!("the node takes commands at port {commands}: tests/node/run {commands} SCRIPT");
        let node = Self { machine, commands, directory };
        node.wait_for("the node is ready and has GPUs", || {
            let node = plane.admin().get(&format!("/api/v1/nodes/{}", Self::NAME)).body;
            let gpus = node["status"]["allocatable"]["nvidia.com/gpu"].as_str().is_some_and(|n| n != "0");
            (gpus && is_ready(&node)).then_some(())
        });
        node
    }

    /// Waits until `condition` gives something; panics when the machine ends before.
    pub fn wait_for<T>(&self, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
        wait_within(PATIENCE, what, || {
            self.machine.assert_runs();
            condition()
        })
    }

    /// Runs `script` with bash, and gives what it printed; panics when it fails.
    pub fn run(&self, script: &str) -> String {
        let ran = self.try_run(script).expect("the node takes commands");
        assert_eq!(ran.status, 0, "in the node: {script}\n{}", ran.output);
        ran.output
    }

    /// Runs `script` with bash; nothing when the node did not take it, or broke off.
    pub fn try_run(&self, script: &str) -> Option<Ran> {
        let mut text = String::new();
        self.connect(script)?.read_to_string(&mut text).ok()?;
        let (output, status) = text.rsplit_once("\nexit status ")?;
        Some(Ran { output: output.to_owned(), status: status.trim().parse().ok()? })
    }

    /// Runs `script` with bash, and gives what it prints as it prints it, line by line, until the reader is dropped.
    pub fn follow(&self, script: &str) -> impl Iterator<Item = String> + Send + use<> {
        let connection = self.connect(script).expect("the node takes commands");
        BufReader::new(connection).lines().map_while(Result::ok)
    }

    /// What the kubelet's PodResources service says now, by the kubelet's own client.
    pub fn pod_resources(&self) -> Answers {
        Answers::parse(self.run("podresources").trim())
    }

    /// What unit `unit` has logged.
    pub fn journal(&self, unit: &str) -> String {
        self.run(&format!("journalctl --no-pager --output=cat --unit={unit}"))
    }

    fn connect(&self, script: &str) -> Option<TcpStream> {
        let mut connection = TcpStream::connect(("127.0.0.1", self.commands)).ok()?;
        connection.set_read_timeout(Some(PATIENCE)).ok()?;
        connection.write_all(script.as_bytes()).ok()?;
        connection.shutdown(Shutdown::Write).ok()?;
        Some(connection)
    }
}

impl Drop for RealNode {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for file in ["boot", "console", "started"] {
            let text = std::fs::read_to_string(self.directory.path().join(file)).unwrap_or_default();
            eprintln!("== {file}\n{}", end_of(&text));
        }
        let logs = "grep '^[EWF]' /var/log/kubelet.log | tail -n 30; journalctl --no-pager --lines=60 --unit=gpulet \
                    --unit=device-plugin --unit=simulated-gpus; journalctl --no-pager --lines=20 --priority=warning";
        if let Some(ran) = self.try_run(logs) {
            eprintln!("== the node's logs\n{}", ran.output);
        }
    }
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("node")
}

fn end_of(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

fn is_ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    conditions.is_some_and(|all| all.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"))
}
