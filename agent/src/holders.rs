//! Who holds which GPU: the driver's processes, what the kernel says they belong to, Pods and allocations in one.

use gpulet_host::{Root, owner};
use gpulet_inventory::holders::{Holders, Inputs, Processes, Resolver, join};
use gpulet_inventory::kubelet::NodeAllocation;
use gpulet_inventory::pod::Pod;
use gpulet_inventory::snapshot::NodeGpus;

/// What is joined at each tick, and what is remembered from one to the next.
#[derive(Debug)]
pub(crate) struct Joiner {
    root: Root,
    resolver: Resolver,
}

impl Joiner {
    /// One that looks for processes below `root`.
    pub(crate) fn new(root: Root) -> Self {
        Self { root, resolver: Resolver::default() }
    }

    /// Who holds what now. What the kubelet gave and what is no device here is told in the log, once.
    pub(crate) fn join(
        &mut self,
        gpus: &NodeGpus,
        pods: Option<&[Pod]>,
        allocation: Option<&NodeAllocation>,
    ) -> Holders {
        let processes = origins(&self.root, gpus);
        let inputs = Inputs { gpus, processes: &processes, pods, allocation };
        let holders = join(&inputs, &mut self.resolver);
        // While the driver does not answer nothing is known of what there is.
        let is_up = gpus.driver.down_reason().is_none();
        for unknown in holders.unknown.iter().filter(|unknown| unknown.is_news && is_up) {
            let to = &unknown.allocated;
            tracing::warn!(
                device = to.name,
                resource = to.resource,
                namespace = to.namespace,
                pod = to.pod,
                container = to.container,
                "the kubelet gave a container a GPU or MIG instance that this node does not have now; was it divided anew \
                 or lost? The Pod must be made anew to get another"
            );
        }
        holders
    }
}

/// What the processes on the GPUs belong to.
pub(crate) fn origins(root: &Root, gpus: &NodeGpus) -> Processes {
    let samples = gpus.gpus.iter().filter_map(|state| state.sample.as_ref());
    let listed = samples.filter_map(|sample| sample.processes.value()).flatten();
    owner::read(root, listed.map(|process| process.pid))
}
