//! The process that holds the simulated node.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use gpulet_simulator::client::Client;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::SimulateError;
use crate::daemon::Places;

/// How long the node may take until it answers: it has a file tree to write first.
pub(super) const ANSWERS_WITHIN: Duration = Duration::from_secs(60);
/// How long its process may take to end before it is killed.
const ENDS_WITHIN: Duration = Duration::from_millis(300);
/// How often it is looked whether the node answers.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A simulated node in a directory of its own, held by a process of its own. Both are gone when this is dropped.
pub(super) struct HeldNode {
    // Before the directory, so that it is killed before that is removed.
    process: Child,
    directory: TempDir,
}

impl HeldNode {
    /// Makes the node `name` and waits until it answers.
    pub(super) async fn start(name: &str) -> Result<Self, SimulateError> {
        let directory =
            tempfile::Builder::new().prefix("gpulet-").tempdir().map_err(SimulateError::Directory)?;
        let program = std::env::current_exe().map_err(SimulateError::Start)?;
        let process = Command::new(program)
            .args(["simulate-node", name])
            .arg(directory.path())
            .arg(std::process::id().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // Ctrl-C on the terminal is for the daemon; the node must outlive it.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(SimulateError::Start)?;
        let mut held = Self { process, directory };
        held.answers().await?;
        Ok(held)
    }

    async fn answers(&mut self) -> Result<(), SimulateError> {
        let patience = Instant::now() + ANSWERS_WITHIN;
        while Instant::now() < patience {
            let directory = self.directory.path().to_owned();
            let asked = tokio::task::spawn_blocking(move || Client::connect(&directory)?.state());
            if matches!(asked.await, Ok(Ok(_))) {
                return Ok(());
            }
            if let Some(status) = self.process.try_wait().map_err(SimulateError::Start)? {
                return Err(SimulateError::Ended { status });
            }
            sleep(LOOK_AGAIN).await;
        }
        Err(SimulateError::Silent)
    }

    /// The node's directory.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Where the daemon finds the node; `simulated` says in a sentence what it simulates.
    pub(super) fn places(&self, simulated: String) -> Places {
        let directory = self.directory.path();
        Places {
            host_root: directory.join("host"),
            state_dir: directory.join("gpulet"),
            library: Some(directory.join("lib/libnvidia-ml.so.1")),
            simulated: Some(simulated),
        }
    }

    /// Resolves if the process ends by itself.
    pub(super) async fn ended(&mut self) {
        let _ = self.process.wait().await;
    }

    /// Ends the process and removes the directory. Tells how the process ended if it had already.
    pub(super) async fn stop(mut self) -> Option<ExitStatus> {
        if let Ok(Some(status)) = self.process.try_wait() {
            return Some(status);
        }
        if let Some(pid) = self.process.id().and_then(|pid| i32::try_from(pid).ok()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        if timeout(ENDS_WITHIN, self.process.wait()).await.is_err() {
            let _ = self.process.kill().await;
        }
        None
    }
}
