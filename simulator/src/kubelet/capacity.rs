//! Whether the node has enough of everything at all: the check that a scheduler makes too, and which the kubelet makes
//! last.

use std::collections::BTreeMap;

use super::devices::DeviceManager;
use super::machine::Machine;
use super::pod::{Container, Pod};
use super::quantity::Quantity;
use super::rejection::Rejection;
use super::settings::{Settings, SettingsError};

/// What can be given away in all, by resource; devices aside.
#[derive(Debug, Clone)]
pub(super) struct Capacity {
    most_pods: u64,
    milli_cpus: u64,
    memory: u64,
    huge_pages: BTreeMap<String, u64>,
}

impl Capacity {
    pub(super) fn new(machine: &Machine, settings: &Settings) -> Result<Self, SettingsError> {
        let mut huge_pages: BTreeMap<String, u64> = BTreeMap::new();
        for (kind, bytes) in machine.huge_pages() {
            *huge_pages.entry(kind).or_default() += bytes;
        }
        let in_pages: u64 = huge_pages.values().sum();
        let left = |resource: &str, all: Quantity| -> Result<u64, SettingsError> {
            Ok(all.milli().saturating_sub(settings.reserved(resource, all)?.milli()))
        };
        let milli_cpus = left("cpu", Quantity::of(machine.cpu_count()))?;
        let memory = left("memory", Quantity::of(machine.memory_bytes()))? / 1000;
        let memory = memory.saturating_sub(in_pages);
        for (kind, bytes) in &mut huge_pages {
            *bytes = left(kind, Quantity::of(*bytes))? / 1000;
        }
        Ok(Self { most_pods: settings.max_pods.into(), milli_cpus, memory, huge_pages })
    }

    /// Whether a Pod has room beside the others.
    pub(super) fn admit(&self, pod: &Pod, others: &[&Pod], devices: &DeviceManager) -> Result<(), Rejection> {
        let count = others.len() as u64;
        refuse("pods", 1, count, self.most_pods)?;
        let cpus = |pod: &Pod| pod.peak(|container| request(container, "cpu").milli());
        let used = others.iter().map(|other| cpus(other)).sum();
        refuse("cpu", cpus(pod), used, self.milli_cpus)?;
        let resources = pod.all_containers().flat_map(|container| container.requests.keys());
        let mut resources: Vec<&String> = resources.filter(|resource| *resource != "cpu").collect();
        // Memory goes before the others, whose order the kubelet leaves to chance.
        resources.sort_by_key(|resource| (*resource != "memory", *resource));
        resources.dedup();
        for resource in resources {
            let capacity = match resource.as_str() {
                "memory" => Some(self.memory),
                pages if pages.starts_with("hugepages-") => {
                    Some(self.huge_pages.get(pages).copied().unwrap_or(0))
                }
                // What no plugin offers is somebody else's business.
                other => devices.capacity(other).map(|count| count as u64),
            };
            let of = |pod: &Pod| pod.peak(|container| request(container, resource).value());
            if let Some(capacity) = capacity {
                refuse(resource, of(pod), others.iter().map(|other| of(other)).sum(), capacity)?;
            }
        }
        Ok(())
    }
}

fn request(container: &Container, resource: &str) -> Quantity {
    container.requests.get(resource).copied().unwrap_or_default()
}

fn refuse(resource: &str, requested: u64, used: u64, capacity: u64) -> Result<(), Rejection> {
    if requested == 0 || requested <= capacity.saturating_sub(used) {
        return Ok(());
    }
    Err(Rejection::new(
        &format!("OutOf{resource}"),
        format!(
            "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
        ),
    ))
}
