//! Memory and huge pages of each zone, bytes.
//!
//! Where the kubelet's memory manager works (policy `Static`), what it says is what counts. Where it does not, memory is
//! told all the same: in a zone without memory, schedulers place no Guaranteed Pod.

use std::collections::{BTreeMap, BTreeSet};

use gpulet_inventory::kubelet::MemoryBlock;
use gpulet_inventory::numa::NumaNode;

use super::blocks::{self, ByNode, Taken};
use super::built::{NoteReason, Share};
use super::figure::Figure;
use super::inputs::Inputs;
use super::machine_memory::MachineMemory;
use super::nodes::Nodes;
use super::notes::Notes;
use super::pods::Holder;
use super::reserved;

/// The kind of a [`MemoryBlock`] that is no huge pages.
pub(super) const MEMORY: &str = "memory";
/// What the other kinds begin with.
pub(super) const HUGE_PAGES: &str = "hugepages-";

/// The figures of each zone, in their order, by resource.
pub(super) fn figures(
    inputs: &Inputs<'_>,
    nodes: &Nodes<'_>,
    holders: &[Holder<'_>],
    notes: &mut Notes,
) -> BTreeMap<String, Vec<Figure>> {
    let machine = MachineMemory::of(nodes, inputs.huge_pages);
    let to_give = inputs.allocation.map_or(&[][..], |allocation| &allocation.allocatable.memory);
    let mut taken: Vec<Taken<'_>> = Vec::new();
    for holder in holders {
        taken.extend(holder.container.memory.iter().map(|block| Taken { holder, block }));
    }
    let mut kinds: BTreeSet<&str> = machine.kinds().collect();
    for block in to_give.iter().chain(taken.iter().map(|taken| taken.block)) {
        match is_kind(&block.kind) {
            true => drop(kinds.insert(&block.kind)),
            false => notes.add(NoteReason::UnknownMemory, &block.kind, format!("{} bytes", block.bytes)),
        }
    }
    if to_give.is_empty() {
        reserved::note_unknown(inputs.settings, nodes, notes);
    }
    let mut figures = BTreeMap::new();
    for kind in kinds {
        // The kubelet tells no block of what a node has none of; one of any kind shows that its memory manager works.
        let mut by_node = match to_give.is_empty() {
            true => by_kernel(kind, inputs, &machine, nodes, notes),
            false => by_manager(kind, inputs, &machine, to_give, notes),
        };
        blocks::take(kind, &taken, &mut by_node, notes);
        let of_zone = |node: &&NumaNode| by_node.remove(&i64::from(node.id.0)).unwrap_or_default();
        figures.insert(kind.to_owned(), nodes.zones().iter().map(of_zone).collect());
    }
    figures
}

fn is_kind(kind: &str) -> bool {
    kind == MEMORY
        || kind.strip_prefix(HUGE_PAGES).is_some_and(|size| size.starts_with(|c: char| c.is_ascii_digit()))
}

/// What the kernel says, less what is reserved.
fn by_kernel(
    kind: &str,
    inputs: &Inputs<'_>,
    machine: &MachineMemory,
    nodes: &Nodes<'_>,
    notes: &mut Notes,
) -> ByNode {
    let mut figures = ByNode::new();
    for node in nodes.online() {
        let id = i64::from(node.id.0);
        let mut figure = Figure::of(machine.capacity(kind, id), source(kind));
        if kind == MEMORY {
            figure.keep(huge_pages_share(machine, id));
        }
        figures.insert(id, figure);
    }
    reserved::keep(kind, inputs.settings, nodes, &mut figures, notes);
    figures
}

/// What the kubelet's memory manager says it can give.
fn by_manager(
    kind: &str,
    inputs: &Inputs<'_>,
    machine: &MachineMemory,
    to_give: &[MemoryBlock],
    notes: &mut Notes,
) -> ByNode {
    let allocatable = blocks::allocatable(kind, to_give, machine, notes);
    let mut figures = ByNode::new();
    for (id, allocatable) in allocatable {
        let by_kernel = machine.capacity(kind, id);
        let mut figure = match by_kernel < allocatable {
            // Memory that was there when the kubelet started: it goes on giving it.
            true => Figure::of(allocatable, "the kubelet, which counts more than the kernel"),
            false => Figure::of(by_kernel, source(kind)),
        };
        let mut keep = |whose: &str, amount: u64| {
            let amount = amount.min(figure.available() - allocatable);
            figure.keep(Share { whose: whose.to_owned(), amount, which: Vec::new() });
        };
        if kind == MEMORY {
            keep(HUGE_PAGES_SHARE, machine.huge_pages_bytes(id));
        }
        keep("reservedMemory", reserved::named(kind, inputs.settings, id));
        keep("not given by the kubelet", u64::MAX);
        figures.insert(id, figure);
    }
    figures
}

const HUGE_PAGES_SHARE: &str = "huge pages of the NUMA node";

fn huge_pages_share(machine: &MachineMemory, id: i64) -> Share {
    Share { whose: HUGE_PAGES_SHARE.to_owned(), amount: machine.huge_pages_bytes(id), which: Vec::new() }
}

fn source(kind: &str) -> &'static str {
    match kind {
        MEMORY => "MemTotal of the NUMA node (sysfs)",
        _ => "huge pages of the NUMA node (sysfs)",
    }
}
