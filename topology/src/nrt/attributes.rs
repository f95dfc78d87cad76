//! What holds for the whole node: how its kubelet decides, and which Pods it was asked about.

use std::collections::BTreeMap;

use gpulet_inventory::kubelet::{KubeletSettings, NodeAllocation};
use gpulet_inventory::pod::{Pod, PodPhase};

use super::built::NoteReason;
use super::fingerprint::fingerprint;
use super::inputs::Inputs;
use super::notes::Notes;
use super::object::Attribute;

/// The kubelet's option that says with how many NUMA nodes its topology manager works.
const MAX_NUMA_NODES: &str = "max-allowable-numa-nodes";

/// How many that is unless the option says otherwise, and the least that the option may say.
const DEFAULT_MAX_NUMA_NODES: u32 = 8;

/// The attributes of the object, by name.
pub(super) fn of(inputs: &Inputs<'_>, notes: &mut Notes) -> Vec<Attribute> {
    let mut attributes = BTreeMap::new();
    match (inputs.settings, inputs.allocation) {
        (Some(settings), _) => policies(settings, &mut attributes),
        (None, Some(_)) => {
            notes.add(
                NoteReason::SettingsUnknown,
                "kubelet",
                "topologyManagerPolicy and the like".to_owned(),
            );
        }
        (None, None) => {}
    }
    if let Some(allocation) = inputs.allocation {
        let known = pods_of(allocation, inputs.pods);
        attributes.insert("nodeTopologyPodsFingerprint".to_owned(), fingerprint(known));
        attributes.insert("nodeTopologyPodsFingerprintMethod".to_owned(), "all".to_owned());
    }
    attributes.into_iter().map(|(name, value)| Attribute { name, value }).collect()
}

fn policies(settings: &KubeletSettings, attributes: &mut BTreeMap<String, String>) {
    for (option, value) in &settings.topology_manager_options {
        attributes.insert(format!("topologyManagerOption{}", camel_case(option)), value.clone());
    }
    let most = settings.topology_manager_options.get(MAX_NUMA_NODES);
    let most =
        most.and_then(|text| text.trim().parse::<u32>().ok()).filter(|most| *most >= DEFAULT_MAX_NUMA_NODES);
    let own = [
        ("cpuManagerPolicy", settings.cpu_manager_policy.clone()),
        ("memoryManagerPolicy", settings.memory_manager_policy.clone()),
        ("topologyManagerMaxNUMANodes", most.unwrap_or(DEFAULT_MAX_NUMA_NODES).to_string()),
        ("topologyManagerPolicy", settings.topology_manager_policy.clone()),
        ("topologyManagerScope", settings.topology_manager_scope.clone()),
    ];
    let told = own.into_iter().filter(|(_, value)| !value.is_empty());
    attributes.extend(told.map(|(name, value)| (name.to_owned(), value)));
}

/// `prefer-closest-numa-nodes` as `PreferClosestNumaNodes`.
fn camel_case(option: &str) -> String {
    let capitalized = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    };
    option.split('-').map(capitalized).collect()
}

/// The Pods that the fingerprint is of, each once: those that the kubelet lists, and those that have ended and are still
/// there.
///
/// That is what the scheduler plug-in counts with its own Pod informer (its default): every Pod bound to the node but those
/// that are `Pending`. A kubelet since 1.34 does not list Pods that have ended, and lists Pending ones as soon as it has
/// admitted them; what they have is already taken off `available`, as the scheduler has done on its side.
fn pods_of<'a>(
    allocation: &'a NodeAllocation,
    pods: Option<&'a [Pod]>,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let listed = allocation.pods.iter().map(|pod| ((pod.namespace.as_str(), pod.name.as_str()), true));
    let mut known: BTreeMap<(&str, &str), bool> = listed.collect();
    for pod in pods.unwrap_or_default() {
        let name = (pod.namespace.as_str(), pod.name.as_str());
        if pod.phase.is_terminal() {
            known.insert(name, true);
        } else if pod.phase == PodPhase::Pending && known.contains_key(&name) {
            known.insert(name, false);
        }
    }
    known.into_iter().filter_map(|(name, counts)| counts.then_some(name))
}
