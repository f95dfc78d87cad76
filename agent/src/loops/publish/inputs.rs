//! What the object is made from.

use std::sync::Arc;

use gpulet_inventory::dra::PublishedDevice;
use gpulet_inventory::host::HugePages;
use gpulet_inventory::kubelet::{KubeletSettings, NodeAllocation};
use gpulet_inventory::pod::Pod;
use gpulet_inventory::snapshot::{NodeGpus, Part};
use gpulet_inventory::topology::NodeTopology;
use gpulet_topology::nrt::Built;
use tokio::sync::watch;

use super::super::Shared;
use super::super::kubernetes::{KubeletState, OwnNode};
use crate::nrt::Known;

/// What the object is made from, as the other loops tell it.
pub(super) struct Inputs {
    topology: watch::Receiver<Option<Part<NodeTopology>>>,
    huge_pages: watch::Receiver<Arc<Vec<HugePages>>>,
    gpus: watch::Receiver<Option<Arc<NodeGpus>>>,
    allocation: watch::Receiver<Option<Part<NodeAllocation>>>,
    settings: watch::Receiver<Option<Arc<KubeletSettings>>>,
    kubelet: watch::Receiver<KubeletState>,
    node: watch::Receiver<OwnNode>,
    pods: watch::Receiver<Option<Arc<Vec<Pod>>>>,
    devices: watch::Receiver<Arc<Vec<PublishedDevice>>>,
}

impl Inputs {
    pub(super) fn new(shared: &Shared) -> Self {
        let kubernetes = &shared.kubernetes;
        let mut topology = shared.topology.subscribe();
        // Whatever is there already has to be looked at.
        topology.mark_changed();
        Self {
            topology,
            huge_pages: shared.huge_pages.subscribe(),
            gpus: shared.gpus.subscribe(),
            allocation: kubernetes.allocation.subscribe(),
            settings: kubernetes.settings.subscribe(),
            kubelet: kubernetes.kubelet.subscribe(),
            node: kubernetes.node.subscribe(),
            pods: kubernetes.pods.subscribe(),
            devices: kubernetes.devices.subscribe(),
        }
    }

    /// Waits until one of them may be another. GPUs change with each sample; what matters of them comes with the topology.
    pub(super) async fn changed(&mut self) {
        let told = tokio::select! {
            told = self.topology.changed() => told,
            told = self.allocation.changed() => told,
            told = self.settings.changed() => told,
            told = self.kubelet.changed() => told,
            told = self.node.changed() => told,
            told = self.pods.changed() => told,
            told = self.devices.changed() => told,
        };
        if told.is_err() {
            // The other loops are gone at the end only, and the end is told otherwise.
            std::future::pending::<()>().await;
        }
    }

    /// Whether the kubelet does not list Pods that run: what is made of its answer is made without them.
    pub(super) fn forgets(&self) -> bool {
        let (allocation, pods) = (self.allocation.borrow(), self.pods.borrow());
        let told = allocation.as_ref().zip(pods.as_ref());
        told.is_some_and(|(allocation, pods)| allocation.value.forgets(pods).is_some())
    }

    /// The object; absent until the topology is known.
    pub(super) fn build(&self) -> Option<Built> {
        let topology = self.topology.borrow().clone()?;
        let gpus = self.gpus.borrow().clone()?;
        let huge_pages = Arc::clone(&self.huge_pages.borrow());
        let allocation = self.allocation.borrow().clone();
        let settings = self.settings.borrow().clone();
        let pods = self.pods.borrow().clone();
        let devices = Arc::clone(&self.devices.borrow());
        let known = Known {
            topology: &topology.value.model,
            gpus: &gpus,
            huge_pages: &huge_pages,
            allocation: allocation.as_ref().map(|part| &*part.value),
            settings: settings.as_deref(),
            pods: pods.as_deref().map(Vec::as_slice),
            devices: &devices,
        };
        Some(known.build())
    }
}
