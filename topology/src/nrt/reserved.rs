//! Memory that the kubelet's settings keep from Pods, for where its memory manager does not say itself what is left.
//!
//! `reservedMemory` names NUMA nodes. What `kubeReserved`, `systemReserved` and the eviction threshold keep is a quantity of
//! the whole machine: each zone bears its part of it by the memory that it has.

use gpulet_inventory::kubelet::KubeletSettings;

use super::blocks::ByNode;
use super::built::{NoteReason, Share};
use super::memory::MEMORY;
use super::nodes::Nodes;
use super::notes::Notes;

/// What `reservedMemory` keeps of a kind on a NUMA node.
pub(super) fn named(kind: &str, settings: Option<&KubeletSettings>, node: i64) -> u64 {
    let on_node = settings.and_then(|settings| settings.reserved_memory.get(&node));
    on_node.and_then(|kinds| kinds.get(kind)).copied().unwrap_or(0)
}

/// Keeps what the settings say.
pub(super) fn keep(
    kind: &str,
    settings: Option<&KubeletSettings>,
    nodes: &Nodes<'_>,
    figures: &mut ByNode,
    notes: &mut Notes,
) {
    let Some(settings) = settings else { return };
    let shares = match settings.reserved_memory.is_empty() {
        true if kind == MEMORY => by_weight(settings.reserved_memory_bytes, nodes, figures),
        true => Vec::new(),
        false => figures.keys().map(|node| (*node, named(kind, Some(settings), *node))).collect(),
    };
    let whose = match settings.reserved_memory.is_empty() {
        true => "kubeReserved, systemReserved and eviction threshold, by memory",
        false => "reservedMemory",
    };
    for (node, amount) in shares {
        let share = Share { whose: whose.to_owned(), amount, which: Vec::new() };
        let missing = figures.get_mut(&node).map_or(amount, |figure| figure.keep(share));
        if missing > 0 {
            notes.add(NoteReason::ReservedTooMuch, kind, format!("{missing} bytes on NUMA node {node}"));
        }
    }
}

/// Parts of `bytes` for the zones by what each has left, so that the parts are `bytes` together.
fn by_weight(bytes: u64, nodes: &Nodes<'_>, figures: &ByNode) -> Vec<(i64, u64)> {
    let ids = nodes.zones().iter().map(|node| i64::from(node.id.0));
    let weights: Vec<(i64, u64)> =
        ids.map(|id| (id, figures.get(&id).map_or(0, |figure| figure.available()))).collect();
    let total: u128 = weights.iter().map(|(_, weight)| u128::from(*weight)).sum();
    let up_to = |weight: u128| match total {
        0 => 0,
        total => u64::try_from(u128::from(bytes).saturating_mul(weight) / total).unwrap_or(u64::MAX),
    };
    let (mut sum, mut shares) = (0u128, Vec::new());
    for (id, weight) in weights {
        let before = up_to(sum);
        sum += u128::from(weight);
        shares.push((id, up_to(sum) - before));
    }
    shares
}

/// Notes memory that is reserved on NUMA nodes that are not there.
pub(super) fn note_unknown(settings: Option<&KubeletSettings>, nodes: &Nodes<'_>, notes: &mut Notes) {
    let online = |id: i64| nodes.online().iter().any(|node| i64::from(node.id.0) == id);
    for (node, kinds) in settings.into_iter().flat_map(|settings| &settings.reserved_memory) {
        for (kind, bytes) in kinds.iter().filter(|_| !online(*node)) {
            notes.add(NoteReason::ReservedTooMuch, kind, format!("{bytes} bytes on NUMA node {node}"));
        }
    }
}
