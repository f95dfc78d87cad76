//! `gpulet simulate`: a simulated node of its own, and the daemon on it.
//!
//! ```text
//!   gpulet simulate --spawns--> gpulet simulate-node       holds the node's state, serves DIR/sock
//!     (the daemon) --dlopen--> DIR/lib/libnvidia-ml.so.1 --> DIR/state, DIR/sock
//! ```
//! The state lives in a process of its own, as a GPU's does not live in the programs that look at it. That process and its
//! directory go when this one does, however it goes.

mod banner;
mod node;

use std::io;
use std::path::Path;
use std::process::ExitStatus;

use gpulet_simulator::node::{Node, NodeError};
use gpulet_simulator::{ClockMode, SimulatedNode};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::getppid;

use self::node::HeldNode;
use super::{CommandError, exit, print};
use crate::cli::{Daemon, Global};
use crate::config::Source;
use crate::config::publish::Publish;
use crate::daemon::{self, DaemonError};

/// Why there is no simulated node.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SimulateError {
    /// No such node, or its description does not hold together.
    #[error(transparent)]
    Node(NodeError),
    /// It has no place.
    #[error("cannot make a directory for the simulated node; is TMPDIR writable?")]
    Directory(#[source] io::Error),
    /// Its process cannot be started.
    #[error("cannot start the process that holds the simulated node")]
    Start(#[source] io::Error),
    /// Its process ended.
    #[error("the process that holds the simulated node ended ({status}); what it said stands above")]
    Ended {
        /// How.
        status: ExitStatus,
    },
    /// Its process does not answer.
    #[error("the simulated node did not answer within {} s", node::ANSWERS_WITHIN.as_secs())]
    Silent,
    /// The simulator failed.
    #[error("the simulated node failed")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl SimulateError {
    /// The program's exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Node(_) => exit::USAGE,
            _ => exit::FAILED,
        }
    }
}

/// Runs the daemon on a simulated node until a signal says that it is time to end.
pub(super) fn simulate(global: &Global, flags: &Daemon, name: &str) -> Result<(), CommandError> {
    // What is wrong with the command line is said before anything is made.
    let node = Node::load(name).map_err(SimulateError::Node)?;
    let source = source(global, flags);
    source.read().map_err(DaemonError::from)?;
    let runtime = daemon::runtime()?;
    let result = runtime.block_on(run(name, &node, source));
    runtime.shutdown_background();
    result
}

/// A simulated node is for trying out: unless told otherwise, it is served to this machine only.
fn source(global: &Global, flags: &Daemon) -> Source {
    let mut overrides = flags.overrides(global);
    if overrides.listen.is_none() && global.config.is_none() {
        overrides.listen = "127.0.0.1:9410".parse().ok();
    }
    // Nor is it told to the cluster that this may run in.
    overrides.publish.get_or_insert(Publish::Never);
    Source::apart_from_this_machine(global.config.clone(), overrides)
}

async fn run(name: &str, node: &Node, source: Source) -> Result<(), CommandError> {
    let mut held = HeldNode::start(name).await?;
    let places = held.places(banner::sentence(node));
    let directory = held.directory().to_owned();
    let announce = |address| {
        // Nobody may be looking.
        let _ = print(banner::text(node, &directory, address).as_bytes());
    };
    let result = daemon::run(places, source, announce, held.ended()).await;
    let ended = held.stop().await;
    result?;
    match ended {
        Some(status) => Err(SimulateError::Ended { status }.into()),
        None => Ok(()),
    }
}

/// Holds the state of the simulated node `name` in `directory` until told to end, or until the process `parent` is gone; then
/// removes the directory.
pub(super) fn hold(name: &str, directory: &Path, parent: i32) -> Result<(), SimulateError> {
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| SimulateError::Failed(error);
    // Before the parent's end can send one, which would end this process at once; and before the node's threads start, so
    // that none of them takes it.
    let mut ends = SigSet::empty();
    ends.add(Signal::SIGTERM);
    ends.add(Signal::SIGINT);
    ends.thread_block().map_err(|error| failed(error.into()))?;
    prctl::set_pdeathsig(Signal::SIGTERM).map_err(|error| failed(error.into()))?;
    // If the parent was gone before that, no signal comes.
    let orphaned = getppid().as_raw() != parent;
    let result = if orphaned { Ok(()) } else { serve(name, directory, &ends) };
    // The parent made the directory and may be unable to remove it. Whether it is alive cannot be told: while its threads
    // die one after the other it looks as if it were.
    let _ = std::fs::remove_dir_all(directory);
    result
}

fn serve(name: &str, directory: &Path, ends: &SigSet) -> Result<(), SimulateError> {
    let node = SimulatedNode::start(name, directory, ClockMode::Real);
    let _node = node.map_err(|error| SimulateError::Failed(error.into()))?;
    ends.wait().map_err(|error| SimulateError::Failed(error.into()))?;
    Ok(())
}
