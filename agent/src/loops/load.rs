//! Many agents in one process, so that what they ask of an API server can be counted there.
//!
//! Each has the real loops that talk to it, and a node's identity. What the other loops would tell them is told here: the
//! hardware of one simulated node, read once, and what a kubelet gives to the Pods that its API server shows.
//! `tests/tests/load.rs` runs it: a line on its standard input asks for the counts, its end ends it.

mod giver;

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulet_exporter::Own;
use gpulet_inventory::host::HugePages;
use gpulet_inventory::kubelet::KubeletSettings;
use gpulet_inventory::snapshot::{NodeGpus, Part};
use gpulet_inventory::topology::NodeTopology;
use gpulet_topology::nrt::publisher::State;
use serde_json::json;
use tokio::sync::watch;

use self::giver::Giver;
use super::kubernetes::{Access, Standing};
use super::{NAMES, Shared, cluster, conditions, publish, sample, topology};
use crate::config::Settings;
use crate::config::publish::Publish;
use crate::daemon::{self, Places};
use crate::supervise::shutdown::{self, Trigger};
use crate::{build, node};

/// A file with one line for each agent: the node's name and a kubeconfig.
const AGENTS: &str = "GPULET_LOAD_AGENTS";

/// One agent; it ends when dropped.
struct Agent {
    shared: Shared,
    _settings: watch::Sender<Arc<Settings>>,
    _trigger: Trigger,
}

/// What the loops that read the hardware have told.
#[derive(Clone)]
struct Hardware {
    gpus: Arc<NodeGpus>,
    topology: Part<NodeTopology>,
    huge_pages: Arc<Vec<HugePages>>,
}

#[test]
#[ignore = "tests/tests/load.rs runs it with an API server and a simulated node"]
fn agents_publish_until_the_input_ends() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let list = std::fs::read_to_string(std::env::var(AGENTS).unwrap()).unwrap();
    let agents: Vec<Agent> = runtime.block_on(async {
        let hardware = hardware().await;
        list.lines().map(|line| Agent::start(line.split_once(' ').unwrap(), &hardware)).collect()
    });
    for line in std::io::stdin().lock().lines() {
        line.unwrap();
        println!("counts {}", counts(&agents));
    }
}

/// Reads the simulated node, as an agent on it would.
async fn hardware() -> Hardware {
    let agent = Agent::with(Settings::default());
    let shared = &agent.shared;
    tokio::spawn(topology::run(shared.clone()));
    tokio::spawn(sample::run(shared.clone()));
    let mut topologies = shared.topology.subscribe();
    let with_gpus = |part: &Option<Part<NodeTopology>>| {
        part.as_ref().is_some_and(|part| part.value.model.gpus.iter().any(|gpu| gpu.uuid.is_some()))
    };
    let topology = topologies.wait_for(with_gpus).await.unwrap().clone().unwrap();
    let gpus = shared.gpus.borrow().clone().unwrap();
    Hardware { gpus, topology, huge_pages: Arc::clone(&shared.huge_pages.borrow()) }
}

impl Agent {
    fn with(settings: Settings) -> Self {
        let variable = |name: &str| std::env::var(name).unwrap().into();
        let places = Places {
            host_root: variable("GPULET_HOST_ROOT"),
            state_dir: variable("GPULET_STATE_DIR"),
            library: Some(variable("GPULET_NVML_LIBRARY")),
            simulated: None,
        };
        let root = node::machine(&places.host_root, "run").unwrap();
        let settings = watch::Sender::new(Arc::new(settings));
        let (trigger, shutdown) = shutdown::channel();
        let own = Own::new(build::info(), &NAMES).unwrap();
        let shared = daemon::shared(&places, root, &settings, own, shutdown);
        Self { shared, _settings: settings, _trigger: trigger }
    }

    fn start((name, kubeconfig): (&str, &str), hardware: &Hardware) -> Self {
        let mut settings = Settings { node_name: Some(name.parse().unwrap()), ..Settings::default() };
        settings.kubernetes.kubeconfig = Some(kubeconfig.into());
        settings.kubernetes.publish = Publish::Always;
        let agent = Self::with(settings);
        let shared = &agent.shared;
        shared.gpus.send_replace(Some(Arc::clone(&hardware.gpus)));
        shared.huge_pages.send_replace(Arc::clone(&hardware.huge_pages));
        shared.topology.send_replace(Some(hardware.topology.clone()));
        shared.kubernetes.settings.send_replace(Some(Arc::new(KubeletSettings {
            topology_manager_policy: "single-numa-node".into(),
            topology_manager_scope: "container".into(),
            cpu_manager_policy: "static".into(),
            memory_manager_policy: "Static".into(),
            ..KubeletSettings::default()
        })));
        tokio::spawn(give(shared.clone(), Giver::new(&hardware.topology.value.model)));
        tokio::spawn(cluster::run(shared.clone()));
        tokio::spawn(publish::run(shared.clone()));
        tokio::spawn(conditions::run(shared.clone()));
        agent
    }
}

/// Tells what the kubelet loop would tell of the Pods that are there.
async fn give(shared: Shared, mut giver: Giver) {
    let mut pods = shared.kubernetes.pods.subscribe();
    loop {
        let there = pods.borrow_and_update().clone().unwrap_or_default();
        let allocation = Part::new(giver.give(&there), Instant::now());
        shared.kubernetes.allocation.send_replace(Some(allocation));
        shared.kubernetes.kubelet.send_if_modified(|state| !std::mem::replace(&mut state.asked, true));
        if pods.changed().await.is_err() {
            return;
        }
        // As long as it takes until the kubelet was asked.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What all agents together have asked so far, and how many have published.
fn counts(agents: &[Agent]) -> serde_json::Value {
    let mut requests: BTreeMap<String, [u64; 3]> = BTreeMap::new();
    let mut published = 0;
    for Agent { shared, .. } in agents {
        let Access::Api(api) = shared.kubernetes.api.borrow().clone() else { continue };
        for (kind, count) in api.traffic().counts() {
            let code = kind.code.map_or("none".to_owned(), |code| code.to_string());
            let sum = requests.entry(format!("{} {} {code}", kind.verb, kind.resource)).or_default();
            let [number, sent, received] = sum;
            *number += count.requests;
            *sent += count.sent_bytes;
            *received += count.received_bytes;
        }
        let publication = shared.kubernetes.publication.borrow().clone();
        published += u64::from(
            publication
                .is_some_and(|publication| publication.standing == Standing::Publisher(State::Published)),
        );
    }
    json!({ "requests": requests, "published": published })
}
