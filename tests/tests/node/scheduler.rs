//! How a scheduler that reads NodeResourceTopology decides: the arithmetic of scheduler-plugins' filter for the policy
//! `single-numa-node` and the scope `container`, over `available` of zones of type `Node` alone.

use std::collections::BTreeMap;

use crate::pods::Pod;

/// Whether `pod` fits: each container in turn into one zone, the first that has all it asks for.
pub(crate) fn fits(pod: &Pod, available: &BTreeMap<u64, BTreeMap<String, u64>>) -> bool {
    let mut left = available.clone();
    for container in &pod.containers {
        let asked = ["cpu", "memory", "nvidia.com/gpu"].map(|resource| (resource, container.of(resource)));
        // CPUs and memory of a Pod that is not guaranteed may lie anywhere.
        let aligned = |resource: &str| resource == "nvidia.com/gpu" || pod.is_guaranteed();
        let asked: Vec<_> = asked.into_iter().filter(|(name, amount)| *amount > 0 && aligned(name)).collect();
        let has_all = |zone: &BTreeMap<String, u64>| {
            asked.iter().all(|(name, amount)| zone.get(*name).is_some_and(|left| left >= amount))
        };
        let Some(zone) = left.values_mut().find(|zone| has_all(zone)) else { return false };
        for (name, amount) in &asked {
            *zone.get_mut(*name).unwrap() -= amount;
        }
    }
    true
}
