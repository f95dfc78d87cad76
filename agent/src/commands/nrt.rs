//! `gpulet topo -o nrt`: the NodeResourceTopology object of this node, and how its figures came about.

use gpulet_cluster::kubelet::pod_resources::{Answer, PodResourcesError};
use gpulet_cluster::kubelet::settings::SettingsError;
use gpulet_host::Root;
use gpulet_inventory::kubelet::{KubeletSettings, NodeAllocation};
use gpulet_inventory::topology::Topology;

use super::CommandError;
use crate::cli::Global;
use crate::config::Settings;
use crate::config::node_name::NodeName;
use crate::daemon;
use crate::kubelet::Kubelet;
use crate::node::Seen;
use crate::nrt::{self, Known};
use crate::report;

/// The object as YAML, or with `why` its reasons.
pub(super) fn text(
    global: &Global,
    settings: &Settings,
    seen: &Seen,
    topology: &Topology,
    why: bool,
) -> Result<String, CommandError> {
    let told = Told::of(global, settings)?;
    let built = Known {
        topology,
        gpus: &seen.driver.gpus,
        huge_pages: &seen.host.huge_pages,
        allocation: told.allocation.as_ref(),
        settings: told.settings.as_ref(),
        pods: None,
        devices: &[],
    }
    .build();
    if why {
        return Ok(gpulet_topology::nrt::why(&built));
    }
    for note in &built.notes {
        eprintln!("gpulet: {}: {} ({}); {}", note.subject, note.message, note.reason.as_str(), note.remedy);
    }
    let name = settings.node_name.clone().or_else(NodeName::of_this_machine);
    let name = name.map_or_else(|| "node".to_owned(), |name| name.to_string());
    nrt::yaml(&name, &built.body).map_err(CommandError::Yaml)
}

/// What the kubelet told. One that does not answer is said, and the object is made without it.
#[derive(Default)]
struct Told {
    allocation: Option<NodeAllocation>,
    settings: Option<KubeletSettings>,
}

impl Told {
    fn of(global: &Global, settings: &Settings) -> Result<Self, CommandError> {
        // What was collected from a machine has no kubelet to ask.
        if global.host_root.is_file() {
            return Ok(Self::default());
        }
        let root = Root::new(&global.host_root);
        let kubelet = match Kubelet::new(&root, &settings.kubelet) {
            Ok(kubelet) if kubelet.is_here() => kubelet,
            Ok(_) => return Ok(Self::default()),
            Err(error) => {
                eprintln!("gpulet: {}", report::chain(&error));
                return Ok(Self::default());
            }
        };
        let runtime = daemon::runtime()?;
        let told = runtime.block_on(async {
            let found = kubelet.find();
            let name = settings.node_name.as_ref().map(ToString::to_string);
            (kubelet.read().await, kubelet.settings(&found, name.as_deref()).await)
        });
        runtime.shutdown_background();
        Ok(Self { allocation: allocation(told.0), settings: settings_of(told.1) })
    }
}

fn allocation(answer: Result<Answer, PodResourcesError>) -> Option<NodeAllocation> {
    match answer {
        Ok(answer) => {
            for oddity in &answer.oddities {
                eprintln!("gpulet: the kubelet's answer is odd: {}: {}", oddity.place, oddity.problem);
            }
            Some(answer.allocation)
        }
        Err(error) => {
            eprintln!("gpulet: the object is made without the kubelet: {}", report::chain(&error));
            None
        }
    }
}

fn settings_of(settings: Result<KubeletSettings, SettingsError>) -> Option<KubeletSettings> {
    settings
        .inspect_err(|error| {
            eprintln!("gpulet: the object is made without the kubelet's settings: {}", report::chain(error));
        })
        .ok()
}
