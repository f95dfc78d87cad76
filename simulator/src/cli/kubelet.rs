//! `gpulet-sim serve --kubelet`, `pod`, `kubelet`: a simulated kubelet beside the node, and what it is told.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use gpulet_simulator::SimulatedNode;
use gpulet_simulator::client::Client;
use gpulet_simulator::device_plugin::{Naming, Offer, offer};
use gpulet_simulator::kubelet::{Allocator, Fault, Machine, Pod, Rejection, Settings, SimulatedKubelet};
use gpulet_simulator::node::Node;
use serde::{Deserialize, Serialize};

use super::device_plugin::Mig;
use super::{Failure, Outcome};

/// Name of the socket in a simulation directory.
const SOCKET_NAME: &str = "kubelet-sock";
/// Longest request: far above any manifest.
const MAX_REQUEST_BYTES: u64 = 1 << 20;
/// How often the node's devices are looked at.
const ROUND: Duration = Duration::from_millis(200);

#[derive(Debug, Subcommand)]
pub(super) enum PodCommand {
    /// Lets the kubelet decide on a Pod; exit code 1 if it refuses
    Add {
        /// Its manifest, YAML or JSON; - is standard input
        file: PathBuf,
    },
    /// Deletes a Pod
    Remove(Named),
    /// Lets a Pod end by itself
    End(Named),
}

#[derive(Debug, Args)]
pub(super) struct Named {
    /// The Pod's name
    name: String,
    /// Its namespace
    #[arg(short, long, default_value = "default")]
    namespace: String,
}

#[derive(Debug, Subcommand)]
pub(super) enum KubeletCommand {
    /// Kills the kubelet
    Stop,
    /// Starts it again
    Start {
        /// Device plugins do not register again yet
        #[arg(long)]
        without_plugins: bool,
    },
    /// Lets its PodResources service go wrong, and right again
    Fault {
        /// How
        #[arg(value_enum)]
        kind: FaultKind,
        /// With `large`: bytes of the answer
        #[arg(long, default_value_t = 6 << 20)]
        bytes: usize,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum FaultKind {
    /// As it should be
    None,
    /// Calls are not answered
    Hang,
    /// Bytes that mean nothing
    Garbage,
    /// A long answer
    Large,
    /// Every call is one too many
    Exhausted,
    /// Every call ends with an error
    Broken,
}

/// What goes over the socket, one JSON object a line, each answered by one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Request {
    Admit { manifest: String },
    Remove { namespace: String, name: String },
    End { namespace: String, name: String },
    Stop,
    Start { plugins: bool },
    Fault(Option<Fault>),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Reply {
    Done,
    Refused(String),
}

/// The settings for a node's kubelet: of a file, else the strictest; that it would start with them.
pub(super) fn settings(node: &str, file: Option<&Path>) -> Result<Settings, Failure> {
    let wrong = |error| Failure { error, code: crate::USAGE };
    let machine = Machine::of(&Node::load(node).map_err(|error| wrong(error.into()))?);
    let settings = match file {
        Some(file) => Settings::load(file).map_err(|error| wrong(error.into()))?,
        None => Settings::strict(&machine),
    };
    Allocator::new(&machine, &settings).map_err(|error| wrong(error.into()))?;
    Ok(settings)
}

/// Starts a kubelet beside a node that is served; it lives as long as the process.
pub(super) fn start(node: &SimulatedNode, settings: Settings, mig: Mig) -> anyhow::Result<()> {
    let naming = Naming { mig: mig.strategy(), ..Naming::default() };
    let machine = Machine::of(&node.description());
    let kubelet = Arc::new(SimulatedKubelet::start(machine, settings, &node.host_root())?);
    let (dir, host_root) = (node.dir().to_owned(), node.host_root());
    let mut told = Offer::new();
    tell(&kubelet, offer(&node.state(), &host_root, &naming)?, &mut told);
    let socket = dir.join(SOCKET_NAME);
    match std::fs::remove_file(&socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", socket.display()));
        }
        _ => {}
    }
    let listener =
        UnixListener::bind(&socket).with_context(|| format!("cannot listen on {}", socket.display()))?;
    let plugin = Arc::clone(&kubelet);
    thread::Builder::new().name("sim-plugin".to_owned()).spawn(move || {
        // The node is served by this process: without it there is nothing to tell.
        while let Ok(state) = Client::connect(&dir).and_then(|mut client| client.state()) {
            if let Ok(offered) = offer(&state, &host_root, &naming) {
                tell(&plugin, offered, &mut told);
            }
            thread::sleep(ROUND);
        }
    })?;
    thread::Builder::new().name("sim-kubelet".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            // Whoever hangs up in the midst of a request gets no answer.
            let _unheard = attend(&kubelet, stream);
        }
    })?;
    Ok(())
}

/// Registers what is offered otherwise than before.
fn tell(kubelet: &SimulatedKubelet, mut offered: Offer, told: &mut Offer) {
    // A kubelet forgets no resource: of one that is gone there is nothing.
    for resource in told.keys() {
        offered.entry(resource.clone()).or_default();
    }
    for (resource, devices) in &offered {
        if told.get(resource) != Some(devices) {
            kubelet.register(resource, devices.clone());
        }
    }
    *told = offered;
}

fn attend(kubelet: &SimulatedKubelet, mut stream: UnixStream) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new(&stream).take(MAX_REQUEST_BYTES).read_line(&mut line)?;
    let reply = match serde_json::from_str(&line) {
        Ok(request) => answer(kubelet, request),
        Err(error) => Reply::Refused(error.to_string()),
    };
    stream.write_all(serde_json::to_string(&reply)?.as_bytes())
}

fn answer(kubelet: &SimulatedKubelet, request: Request) -> Reply {
    let known = |done: bool| match done {
        true => Reply::Done,
        false => Reply::Refused("there is no such Pod".to_owned()),
    };
    match request {
        Request::Admit { manifest } => match serde_saphyr::from_str::<Pod>(&manifest) {
            Err(error) => Reply::Refused(format!("no manifest of a Pod: {error}")),
            Ok(pod) => match kubelet.admit(pod) {
                Ok(()) => Reply::Done,
                Err(Rejection { reason, message }) => Reply::Refused(format!("{reason}: {message}")),
            },
        },
        Request::Remove { namespace, name } => known(kubelet.remove(&namespace, &name)),
        Request::End { namespace, name } => known(kubelet.end(&namespace, &name)),
        Request::Stop => {
            kubelet.stop();
            Reply::Done
        }
        Request::Start { plugins } => match kubelet.resume() {
            Ok(()) => {
                if plugins {
                    kubelet.plugins_return();
                }
                Reply::Done
            }
            Err(error) => Reply::Refused(error.to_string()),
        },
        Request::Fault(fault) => {
            kubelet.fault(fault);
            Reply::Done
        }
    }
}

pub(super) fn pod(command: PodCommand, dir: Option<PathBuf>) -> Outcome {
    let request = match command {
        PodCommand::Add { file } => {
            let text = if file == Path::new("-") {
                io::read_to_string(io::stdin())
            } else {
                std::fs::read_to_string(&file)
            };
            Request::Admit { manifest: text.with_context(|| format!("cannot read {}", file.display()))? }
        }
        PodCommand::Remove(Named { name, namespace }) => Request::Remove { namespace, name },
        PodCommand::End(Named { name, namespace }) => Request::End { namespace, name },
    };
    send(dir, &request)
}

pub(super) fn kubelet(command: KubeletCommand, dir: Option<PathBuf>) -> Outcome {
    let request = match command {
        KubeletCommand::Stop => Request::Stop,
        KubeletCommand::Start { without_plugins } => Request::Start { plugins: !without_plugins },
        KubeletCommand::Fault { kind, bytes } => Request::Fault(match kind {
            FaultKind::None => None,
            FaultKind::Hang => Some(Fault::Hang),
            FaultKind::Garbage => Some(Fault::Garbage),
            FaultKind::Large => Some(Fault::Large { bytes }),
            FaultKind::Exhausted => Some(Fault::Exhausted),
            FaultKind::Broken => Some(Fault::Broken),
        }),
    };
    send(dir, &request)
}

fn send(dir: Option<PathBuf>, request: &Request) -> Outcome {
    let Some(dir) = dir else {
        let error = anyhow::anyhow!("which node? name its directory with --dir DIR or GPULET_SIM_DIR");
        return Err(Failure { error, code: crate::USAGE });
    };
    let socket = dir.join(SOCKET_NAME);
    let absent = || format!("no kubelet is beside a node in {}: serve it with --kubelet", dir.display());
    let mut stream = UnixStream::connect(&socket).with_context(absent)?;
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    stream.write_all(line.as_bytes())?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    match serde_json::from_str(&reply).context("the kubelet did not answer")? {
        Reply::Done => Ok(ExitCode::SUCCESS),
        Reply::Refused(why) => Err(anyhow::anyhow!(why).into()),
    }
}
