//! `gpulet-sim device-plugin`

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use gpulet_simulator::client::Client;
use gpulet_simulator::device_plugin::{self, MigStrategy, Naming};
use gpulet_simulator::{ClockMode, SimulatedNode};

use super::{Failure, Outcome, client};

/// How often the node and the kubelet's socket are looked at.
const ROUND: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
pub(super) struct DevicePlugin {
    /// A simulated node of its own, by name or path, in place of the one in --dir
    #[arg(long)]
    node: Option<String>,
    /// The kubelet's directory
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet")]
    kubelet_root: PathBuf,
    /// Also says which devices it would rather give away
    #[arg(long)]
    prefer: bool,
    /// Looks at the devices when it starts and at no other time, as NVIDIA's plugin does
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    naming: NamingArgs,
}

/// How devices are offered.
#[derive(Debug, Args)]
pub(super) struct NamingArgs {
    /// The resource of whole GPUs
    #[arg(long, value_name = "NAME", default_value = "nvidia.com/gpu")]
    resource: String,
    /// Offers each GPU so often, as ID::0 and so on
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    replicas: u32,
    /// What GPUs in MIG mode are offered as
    #[arg(long, value_enum, default_value_t = Mig::None)]
    mig: Mig,
    /// NUMA nodes to tell in place of the true ones, by GPU index; the last goes for all that follow
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    numa: Vec<u32>,
    /// Offers RDMA devices as this resource
    #[arg(long, value_name = "NAME")]
    nics: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Mig {
    /// As whole GPUs
    None,
    /// Each MIG device as a GPU
    Single,
    /// Each MIG device as nvidia.com/mig-PROFILE
    Mixed,
}

impl Mig {
    pub(super) fn strategy(self) -> MigStrategy {
        match self {
            Self::None => MigStrategy::None,
            Self::Single => MigStrategy::Single,
            Self::Mixed => MigStrategy::Mixed,
        }
    }
}

impl NamingArgs {
    pub(super) fn naming(&self) -> Naming {
        Naming {
            resource: self.resource.clone(),
            replicas: self.replicas,
            mig: self.mig.strategy(),
            numa: self.numa.iter().copied().map(i64::from).collect(),
            nics: self.nics.clone(),
        }
    }
}

pub(super) fn run(arguments: &DevicePlugin, dir: Option<PathBuf>) -> Outcome {
    match (&arguments.node, dir) {
        (None, None) => {
            let error = anyhow::anyhow!(
                "devices of which node? name its directory with --dir DIR or GPULET_SIM_DIR, or a node with --node NODE"
            );
            Err(Failure { error, code: crate::USAGE })
        }
        (None, Some(dir)) => {
            let mut client = client(Some(dir.clone()))?;
            serve(arguments, &dir.join("host"), || read(&mut client, &dir))
        }
        (Some(node), dir) => {
            let scratch = tempfile::Builder::new().prefix("gpulet-sim-").tempdir();
            let scratch = scratch.context("cannot make a directory for the node")?;
            let dir = dir.unwrap_or_else(|| scratch.path().to_owned());
            let node = SimulatedNode::start(node, &dir, ClockMode::Real)?;
            serve(arguments, &node.host_root(), || Ok(node.state()))
        }
    }
}

/// The node's state; from its next server, if it was started anew.
fn read(client: &mut Client, dir: &Path) -> anyhow::Result<gpulet_simulator::state::NodeState> {
    if let Ok(state) = client.state() {
        return Ok(state);
    }
    *client = Client::connect(dir)?;
    Ok(client.state()?)
}

/// Goes round until the process is ended.
fn serve(
    arguments: &DevicePlugin,
    host_root: &Path,
    mut read: impl FnMut() -> anyhow::Result<gpulet_simulator::state::NodeState>,
) -> Outcome {
    let naming = arguments.naming.naming();
    let mut plugin =
        device_plugin::DevicePlugin::new(&arguments.kubelet_root, host_root, naming, arguments.prefer)?;
    let mut trouble = String::new();
    let mut first = None;
    loop {
        let state = first.clone().map_or_else(&mut read, Ok);
        if arguments.once && first.is_none() {
            first = state.as_ref().ok().cloned();
        }
        let registered = state.and_then(|state| Ok(plugin.step(&state)?));
        match registered {
            Ok(resources) => {
                trouble.clear();
                for resource in resources {
                    // Nobody need listen.
                    let _unheard = writeln!(io::stdout(), "registered {resource}");
                }
            }
            // Once for each trouble, not five times a second.
            Err(error) => {
                let words = format!("{error:#}");
                if words != trouble {
                    eprintln!("gpulet-sim device-plugin: {words}");
                }
                trouble = words;
            }
        }
        std::thread::sleep(ROUND);
    }
}
