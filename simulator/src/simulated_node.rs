//! A running node as a value: for tests, benchmarks and `gpulet simulate`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::command::{Applied, Command};
use crate::library;
use crate::node::Node;
use crate::server::{ClockMode, CommandError, ServeError, Server};
use crate::state::NodeState;

/// A simulated node that this process serves from threads of its own, until it is dropped.
///
/// Clients in this and other processes load [`SimulatedNode::library`] and read below [`SimulatedNode::host_root`].
pub struct SimulatedNode {
    server: Server,
}

impl SimulatedNode {
    /// Starts a node (a shipped one by name, or one from a YAML file by path) in a directory, which is made if it is
    /// not there. Returns when clients can use it.
    ///
    /// # Errors
    /// When there is no such node, another is served in the directory, or the directory cannot be used.
    pub fn start(node: &str, dir: &Path, clock: ClockMode) -> Result<Self, ServeError> {
        Server::start(node, dir, clock).map(|server| Self { server })
    }

    /// The driver's library. On a node without a driver there is no such file.
    pub fn library(&self) -> PathBuf {
        library::path(self.dir())
    }

    /// What stands for `/`: below it are `sys`, `proc`, `dev`.
    pub fn host_root(&self) -> PathBuf {
        self.dir().join("host")
    }

    /// A place for gpulet's own state.
    pub fn state_dir(&self) -> PathBuf {
        self.dir().join("gpulet")
    }

    /// The simulation directory.
    pub fn dir(&self) -> &Path {
        self.server.dir()
    }

    /// What a program's environment must have to run on this node. `LD_LIBRARY_PATH` goes before what is there, so that
    /// NVML clients of others find the simulated library, too.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        environment(self.dir())
    }

    /// Lets something happen to the node. When it returns, clients see it.
    ///
    /// # Errors
    /// When the node refuses (nothing has changed then), or its files cannot be written.
    pub fn command(&self, command: Command) -> Result<Applied, CommandError> {
        self.server.command(command)
    }

    /// Moves the clock. When it returns, clients see it.
    ///
    /// # Errors
    /// When the node's files cannot be written.
    pub fn step(&self, by: Duration) -> Result<(), ServeError> {
        self.server.step(by)
    }

    /// The node that is served, as described.
    pub fn description(&self) -> Node {
        self.server.node()
    }

    /// The hardware's truth.
    pub fn state(&self) -> NodeState {
        self.server.state()
    }

    /// Processes that have the driver open.
    pub fn driver_users(&self) -> Vec<u32> {
        self.server.driver_users()
    }
}

/// The environment of a node in a directory.
pub(crate) fn environment(dir: &Path) -> Vec<(&'static str, String)> {
    let path = |place: PathBuf| place.display().to_string();
    let lib = path(dir.join("lib"));
    let search = match std::env::var("LD_LIBRARY_PATH") {
        Ok(others) if !others.is_empty() => format!("{lib}:{others}"),
        _ => lib,
    };
    vec![
        ("GPULET_HOST_ROOT", path(dir.join("host"))),
        ("GPULET_NVML_LIBRARY", path(library::path(dir))),
        ("GPULET_STATE_DIR", path(dir.join("gpulet"))),
        ("GPULET_SIM_DIR", path(dir.to_owned())),
        ("LD_LIBRARY_PATH", search),
    ]
}
