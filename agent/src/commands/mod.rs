//! What each command of the command line does.

mod best;
mod collect;
mod definitions;
mod metrics;
mod nrt;
mod partition;
mod run;
#[cfg(feature = "simulator")]
pub(crate) mod simulate;
mod topo;

use std::io::{self, Write};
use std::time::Duration;

use gpulet_topology::best::BestError;

use crate::cli::{Cli, Command, Global};
use crate::config::duration::Span;
use crate::config::{Overrides, Settings, Source};
use crate::control::client::{self, AskError};
use crate::control::protocol::Request;
use crate::daemon::{self, DaemonError, Places};
use crate::logging;
use crate::node::{Node, NodeError, Seen};
use crate::profile::ProfileError;

pub(crate) use self::partition::Asked;

/// Why a command did not do what it should.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// The daemon did not start.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// The running daemon did not do what was asked.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// Standard output cannot be written to.
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
    /// There is no node to look at.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// Flags that do not go together.
    #[error("{0}")]
    Usage(&'static str),
    /// The object cannot be put into words.
    #[error("cannot write the NodeResourceTopology object as YAML")]
    Yaml(#[source] serde_saphyr::ser::Error),
    /// The expected profile was not saved.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// There is no best set.
    #[error(transparent)]
    Best(#[from] BestError),
    /// Nothing was collected.
    #[error(transparent)]
    Collect(#[from] collect::CollectError),
    /// GPUs were not looked at or not divided.
    #[error(transparent)]
    Partition(#[from] partition::PartitionError),
    /// No simulated node could be made.
    #[cfg(feature = "simulator")]
    #[error(transparent)]
    Simulate(#[from] simulate::SimulateError),
}

/// Exit codes.
pub(crate) mod exit {
    /// Something failed.
    pub(crate) const FAILED: u8 = 1;
    /// There is something to change.
    pub(crate) const CHANGES: u8 = 2;
    /// Not possible on this hardware.
    pub(crate) const INFEASIBLE: u8 = 3;
    /// In use, or not permitted.
    pub(crate) const BLOCKED: u8 = 4;
    /// The command line or the configuration is wrong.
    pub(crate) const USAGE: u8 = 64;
}

impl CommandError {
    /// The program's exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Daemon(DaemonError::Config(_) | DaemonError::Node(_)) | Self::Node(_) | Self::Usage(_) => {
                exit::USAGE
            }
            Self::Best(error) => match error {
                BestError::NoneWanted | BestError::TooManyMust { .. } | BestError::UnknownGpu { .. } => {
                    exit::USAGE
                }
                BestError::NotEnoughFree { .. } | BestError::MustNotFree { .. } => exit::INFEASIBLE,
                BestError::TooManySets { .. } => exit::FAILED,
            },
            Self::Ask(AskError::NotPermitted { .. }) => exit::BLOCKED,
            Self::Ask(AskError::Refused { reason, .. }) if reason == "CallStuck" => exit::BLOCKED,
            Self::Partition(error) => error.exit_code(),
            #[cfg(feature = "simulator")]
            Self::Simulate(error) => error.exit_code(),
            Self::Daemon(_)
            | Self::Ask(_)
            | Self::Output(_)
            | Self::Yaml(_)
            | Self::Profile(_)
            | Self::Collect(_) => exit::FAILED,
        }
    }
}

/// Does what the command line says, and gives the exit code.
pub(crate) fn execute(cli: Cli) -> Result<u8, CommandError> {
    let Cli { global, command } = cli;
    let done = match command {
        Command::Plan { asked, output } => return partition::plan(&global, asked.asked(), output),
        Command::Apply { asked } => return partition::apply(&global, asked.asked()),
        Command::Export => return partition::export(&global),
        Command::Run(flags) => run::run(&global, &flags),
        Command::Topo { output, save, why, name, kubelet } => {
            let overrides = Overrides { node_name: name.node_name, ..kubelet.overrides(&global) };
            let source = Source::new(global.config.clone(), overrides);
            topo::topo(&global, &source, output, save.as_deref(), why)
        }
        Command::Best { gpus, free, must, output } => {
            best::best(&global, gpus, free.as_deref(), must.as_deref(), output)
        }
        Command::Collect { file } => collect::collect(&global, &file),
        Command::Metrics { explain } => metrics::metrics(&global, explain),
        Command::Quiesce { deadline: Span(deadline) } => quiesce(&global, deadline),
        Command::Resume => resume(&global),
        #[cfg(feature = "simulator")]
        Command::Simulate { node, daemon } => simulate::simulate(&global, &daemon, &node),
        #[cfg(feature = "simulator")]
        Command::SimulateNode { node, directory, parent } => Ok(simulate::hold(&node, &directory, parent)?),
        Command::Completions { shell } => definitions::completions(shell),
        Command::Man => definitions::manual(),
    };
    done.map(|()| 0)
}

fn quiesce(global: &Global, deadline: Duration) -> Result<(), CommandError> {
    let deadline_ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
    ask(global, &Request::Quiesce { deadline_ms })?;
    print(
        b"gpulet has let go of the driver and holds none of its files; `gpulet resume` takes it up again.\n",
    )
}

fn resume(global: &Global) -> Result<(), CommandError> {
    ask(global, &Request::Resume)?;
    print(b"gpulet takes the driver up again.\n")
}

fn ask(global: &Global, request: &Request) -> Result<(), CommandError> {
    Ok(daemon::runtime()?.block_on(client::ask(&global.state_dir, request))?)
}

fn places(global: &Global) -> Places {
    Places {
        host_root: global.host_root.clone(),
        state_dir: global.state_dir.clone(),
        library: global.nvml_library.clone(),
        simulated: None,
    }
}

/// Looks at the node once, and gives the settings that it was looked at under.
fn look(global: &Global) -> Result<(Settings, Seen), CommandError> {
    look_under(global, &global.source())
}

/// The same under the settings of `source`.
fn look_under(global: &Global, source: &Source) -> Result<(Settings, Seen), CommandError> {
    let settings = source.read().map_err(DaemonError::from)?;
    logging::start(&settings.log);
    let node = Node::open(&places(global), &settings)?;
    let runtime = daemon::runtime()?;
    let seen = runtime.block_on(node.look());
    // Threads may hang in the driver: not waited for.
    runtime.shutdown_background();
    Ok((settings, seen))
}

/// Writes to standard output. A reader that has seen enough (`| head`) is no error.
fn print(bytes: &[u8]) -> Result<(), CommandError> {
    let mut output = io::stdout().lock();
    match output.write_all(bytes).and_then(|()| output.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CommandError::Output(error)),
        _ => Ok(()),
    }
}
