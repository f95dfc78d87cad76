//! A simulated node to run the program on.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use gpulet_simulator::command::{Command as Happening, Load};
use gpulet_simulator::kubelet::{Machine, Settings, SimulatedKubelet};
use gpulet_simulator::{ClockMode, SimulatedNode};
use tempfile::TempDir;

use super::{Daemon, gpulet};

/// A simulated node and a place for files beside it.
pub struct Node {
    pub simulated: SimulatedNode,
    directory: TempDir,
}

impl Node {
    /// The built-in node `name`.
    pub fn start(name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("node");
        let node =
            Self { simulated: SimulatedNode::start(name, &path, ClockMode::Stepped).unwrap(), directory };
        node.configure("");
        node
    }

    /// A path beside it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Configures programs on this node, with a quick pace and without an API server.
    pub fn configure(&self, text: &str) {
        let usual = "sampling: {interval: 100ms, slow-interval: 200ms}\nkubelet: {interval: 1s}\n";
        let publish = if text.contains("kubernetes:") { "" } else { "kubernetes: {publish: never}\n" };
        fs::write(self.file("config.yaml"), format!("{usual}{publish}{text}")).unwrap();
    }

    /// Ends all work on the GPUs, so that no process holds them.
    pub fn idle(&self) {
        self.simulated.command(Happening::Load { gpu: None, load: Load::Idle }).unwrap();
        self.simulated.step(Duration::from_secs(1)).unwrap();
    }

    /// The program on this node.
    pub fn gpulet(&self) -> Command {
        let mut command = gpulet();
        command.envs(self.simulated.environment()).arg("--config").arg(self.file("config.yaml"));
        command
    }

    /// Runs it to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.gpulet().args(arguments).output().unwrap()
    }

    /// A daemon that is ready.
    pub fn daemon(&self) -> Daemon {
        let mut command = self.gpulet();
        command.args(["run", "--listen", "127.0.0.1:0", "--node-name", "gpu-1"]);
        let daemon = Daemon::start(command);
        daemon.ready();
        daemon
    }

    /// A strict kubelet without devices, for the machine of the built-in node `name`.
    pub fn kubelet(&self, name: &str) -> SimulatedKubelet {
        let machine = Machine::of(&gpulet_simulator::node::Node::load(name).unwrap());
        let settings = Settings::strict(&machine);
        SimulatedKubelet::start(machine, settings, &self.simulated.host_root()).unwrap()
    }
}
