//! A simulated node, served by its own program.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::program::{gpulet_sim, wait_until};

/// A running `gpulet-sim serve`; stops when dropped.
#[derive(Debug)]
pub struct Node {
    directory: TempDir,
    server: Child,
}

impl Node {
    /// Serves the shipped node `name` and waits until it answers.
    pub fn serve(name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut command = gpulet_sim();
        command.args(["serve", name, "--dir"]).arg(directory.path()).stdout(Stdio::null());
        let node = Self { server: command.spawn().unwrap(), directory };
        wait_until("the simulated node answers", || {
            let state = node.client(&["state"]).output().unwrap();
            state.status.success().then_some(())
        });
        node
    }

    /// The simulator's directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Where a program on this node sees `/dev`, `/proc` and `/sys`.
    pub fn host_root(&self) -> PathBuf {
        self.directory.path().join("host")
    }

    /// Acts on the node: `gpulet-sim ARGUMENTS --dir …`. Panics when that fails.
    pub fn sim(&self, arguments: &[&str]) -> Output {
        let output = self.client(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "gpulet-sim {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output
    }

    /// The hardware's truth.
    pub fn state(&self) -> serde_json::Value {
        serde_json::from_slice(&self.sim(&["state", "-o", "json"]).stdout).unwrap()
    }

    /// Ends its program as a crash would.
    pub fn kill_server(&self) {
        let pid = Pid::from_raw(self.server.id().try_into().unwrap());
        kill(pid, Signal::SIGKILL).unwrap();
    }

    /// Makes `command` run on this node.
    pub fn environment(&self, command: &mut Command) {
        command.env("GPULET_HOST_ROOT", self.host_root());
        command.env("GPULET_NVML_LIBRARY", self.directory().join("lib/libnvidia-ml.so.1"));
        command.env("GPULET_STATE_DIR", self.directory().join("gpulet"));
    }

    fn client(&self, arguments: &[&str]) -> Command {
        let mut command = gpulet_sim();
        command.args(arguments).env("GPULET_SIM_DIR", self.directory());
        command
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
