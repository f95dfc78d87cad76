//! The command line of `gpulet-sim`.

mod act;
mod device_plugin;
mod exec;
mod fault;
mod host;
mod kubelet;
mod load;
mod serve;
mod show;
mod values;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Parser, Subcommand};
use gpulet_simulator::client::{Client, ClientError};
use gpulet_simulator::server::ServeError;

use crate::USAGE;

/// Simulated GPU nodes: a libnvidia-ml.so, the files of a host, and a program to drive them.
#[derive(Debug, Parser)]
#[command(name = "gpulet-sim", version)]
pub(crate) struct Cli {
    /// The directory in which the node is served
    // An empty one is as good as none; the parser for paths would refuse it.
    #[arg(
        long,
        global = true,
        env = "GPULET_SIM_DIR",
        value_name = "DIR",
        value_parser = OsStringValueParser::new().map(PathBuf::from)
    )]
    dir: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves a simulated node until it is stopped, and says how to use it
    Serve(serve::Serve),
    /// Runs a command on a simulated node of its own, and returns its exit code
    Exec(exec::Exec),
    /// Lets GPUs work
    Load(load::Load),
    /// Lets things go wrong, and right again
    #[command(subcommand)]
    Fault(fault::Fault),
    /// Lets a process take a GPU
    Hold(act::Hold),
    /// Lets a program open a GPU without working on it, as monitors do
    Observe(act::Observe),
    /// Lets a process give its GPUs back
    Release(act::Release),
    /// Sets a counter, a limit, a mode or the ambient temperature
    #[command(subcommand)]
    Set(act::Set),
    /// Stops the clock, lets it run, moves it
    #[command(subcommand)]
    Clock(act::Clock),
    /// Resets a GPU, as nvidia-smi --gpu-reset does; refused while anybody has it open
    Reset(act::Reset),
    /// Starts the machine anew
    Reboot,
    /// Shows the hardware's truth
    State(show::State),
    /// Pods of the simulated kubelet (`serve --kubelet`)
    #[command(subcommand)]
    Pod(kubelet::PodCommand),
    /// The simulated kubelet itself
    #[command(subcommand)]
    Kubelet(kubelet::KubeletCommand),
    /// What the programs in a node's usr/bin do
    #[command(hide = true)]
    Host(host::Host),
    /// Offers a node's GPUs to a kubelet, a real one, until it is stopped
    DevicePlugin(device_plugin::DevicePlugin),
}

/// Why the program ends without success, and its exit code.
pub(crate) struct Failure {
    pub(crate) error: anyhow::Error,
    pub(crate) code: u8,
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        // A node that does not exist or makes no sense is asked for wrongly; all else went wrong.
        let wrong = matches!(error.downcast_ref(), Some(ServeError::Node(_) | ServeError::Loads(_)));
        Self { code: if wrong { USAGE } else { 1 }, error }
    }
}

/// How a command ends.
type Outcome = Result<ExitCode, Failure>;

/// Does what was asked for.
pub(crate) fn run(cli: Cli) -> Outcome {
    let dir = cli.dir.filter(|dir| !dir.as_os_str().is_empty());
    match cli.command {
        Command::Serve(serve) => serve::run(&serve, dir),
        Command::Exec(exec) => exec::run(&exec),
        Command::Load(load) => act::send(dir, load.command()),
        Command::Fault(fault) => fault::run(fault, dir),
        Command::Hold(hold) => act::send(dir, hold.command()),
        Command::Observe(observe) => act::send(dir, observe.command()),
        Command::Release(release) => act::send(dir, release.command()),
        Command::Set(set) => act::send(dir, set.command()),
        Command::Reset(reset) => act::send(dir, reset.command()),
        Command::Reboot => act::send(dir, gpulet_simulator::command::Command::Reboot),
        Command::Clock(clock) => act::send(dir, clock.command()),
        Command::Pod(pod) => kubelet::pod(pod, dir),
        Command::Kubelet(command) => kubelet::kubelet(command, dir),
        Command::Host(host) => host::run(&host, dir),
        Command::DevicePlugin(plugin) => device_plugin::run(&plugin, dir),
        Command::State(state) => show::run(&state, &mut client(dir)?),
    }
}

/// A connection to the node in `--dir`.
fn client(dir: Option<PathBuf>) -> Result<Client, Failure> {
    let Some(dir) = dir else {
        let error = anyhow::anyhow!("which node? name its directory with --dir DIR or GPULET_SIM_DIR");
        return Err(Failure { error, code: USAGE });
    };
    Client::connect(&dir).map_err(|error: ClientError| error.into())
}
