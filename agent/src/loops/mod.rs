//! The daemon's loops, one file each, and what they share.

pub(crate) mod cluster;
pub(crate) mod conditions;
pub(crate) mod control;
pub(crate) mod kubelet;
pub(crate) mod kubernetes;
#[cfg(test)]
mod load;
pub(crate) mod partition;
pub(crate) mod publish;
pub(crate) mod sample;
mod schedule;
pub(crate) mod serve;
pub(crate) mod topology;
mod transitions;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use gpulet_exporter::{Own, Probe};
use gpulet_host::Root;
use gpulet_inventory::host::HugePages;
use gpulet_inventory::snapshot::{NodeGpus, Part, Snapshot};
use gpulet_inventory::topology::NodeTopology;
use gpulet_nvml::Driver;
use tokio::sync::{Notify, watch};

use self::kubernetes::Kubernetes;
use crate::config::Settings;
use crate::supervise::liveness::Progress;
use crate::supervise::readiness::Readiness;
use crate::supervise::shutdown::Shutdown;

/// The names of all loops.
pub(crate) const NAMES: [&str; 9] = [
    cluster::NAME,
    conditions::NAME,
    control::NAME,
    kubelet::NAME,
    partition::NAME,
    publish::NAME,
    sample::NAME,
    serve::NAME,
    topology::NAME,
];

/// What the loops share.
#[derive(Clone)]
pub(crate) struct Shared {
    /// The node's driver.
    pub(crate) driver: Driver,
    /// The root of the node's file system.
    pub(crate) root: Root,
    /// The directory of what is kept, and of the control socket.
    pub(crate) state_dir: PathBuf,
    /// For a simulated node what it simulates, in a sentence.
    pub(crate) simulated: Option<String>,
    /// The settings in force.
    pub(crate) settings: watch::Receiver<Arc<Settings>>,
    /// The driver's GPUs as they were last read; written by the sampling loop.
    pub(crate) gpus: Arc<watch::Sender<Option<Arc<NodeGpus>>>>,
    /// Where things sit; written by the topology loop.
    pub(crate) topology: Arc<watch::Sender<Option<Part<NodeTopology>>>>,
    /// Huge pages; written by the topology loop, before it tells of a topology.
    pub(crate) huge_pages: Arc<watch::Sender<Arc<Vec<HugePages>>>>,
    /// What has to do with Kubernetes.
    pub(crate) kubernetes: Kubernetes,
    /// The node; written by the sampling loop.
    pub(crate) snapshot: Arc<watch::Sender<Option<Arc<Snapshot>>>>,
    /// What would change to divide the GPUs as declared, as JSON; written by the partitioning loop.
    pub(crate) plan: Arc<watch::Sender<Option<Arc<str>>>>,
    /// What the agent counts about itself.
    pub(crate) own: Arc<Own>,
    /// How the loops get on.
    pub(crate) progress: Progress,
    /// Closed at the first snapshot.
    pub(crate) readiness: Readiness,
    /// Asks for a sample of everything at once.
    pub(crate) wake: Arc<Notify>,
    /// Tells when it is time to end.
    pub(crate) shutdown: Shutdown,
}

/// What the agent says about itself over HTTP.
pub(crate) struct Health {
    /// How the loops get on.
    pub(crate) progress: Progress,
    /// Whether there is a snapshot.
    pub(crate) readiness: Readiness,
}

impl Probe for Health {
    fn live(&self) -> Result<(), String> {
        self.progress.verdict(Instant::now())
    }

    fn ready(&self) -> Result<(), String> {
        match self.readiness.is_ready() {
            true => Ok(()),
            false => Err("waiting for the first reading of the node".to_owned()),
        }
    }
}
