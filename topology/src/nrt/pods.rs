//! Whose allocations count.

use std::collections::BTreeSet;

use gpulet_inventory::kubelet::{ContainerAllocation, PodAllocation};

use super::inputs::Inputs;

/// One container that has what the kubelet gave it.
#[derive(Clone, Copy)]
pub(super) struct Holder<'a> {
    pub(super) pod: &'a PodAllocation,
    pub(super) container: &'a ContainerAllocation,
}

impl Holder<'_> {
    /// For people: `ml/train-0, container main`.
    pub(super) fn name(&self) -> String {
        format!("{}/{}, container {}", self.pod.namespace, self.pod.name, self.container.name)
    }
}

/// All containers of Pods that have not ended, by name. A kubelet before 1.34 also lists Pods that have: what they had
/// is free again, and only the API tells.
pub(super) fn holders<'a>(inputs: &Inputs<'a>) -> Vec<Holder<'a>> {
    let ended: BTreeSet<(&str, &str)> = inputs
        .pods
        .unwrap_or_default()
        .iter()
        .filter(|pod| pod.phase.is_terminal())
        .map(|pod| (pod.namespace.as_str(), pod.name.as_str()))
        .collect();
    let pods = inputs.allocation.into_iter().flat_map(|allocation| &allocation.pods);
    let live = pods.filter(|pod| !ended.contains(&(pod.namespace.as_str(), pod.name.as_str())));
    let mut holders: Vec<Holder<'_>> =
        live.flat_map(|pod| pod.containers.iter().map(move |container| Holder { pod, container })).collect();
    holders.sort_by_key(|holder| (&holder.pod.namespace, &holder.pod.name, &holder.container.name));
    holders
}
