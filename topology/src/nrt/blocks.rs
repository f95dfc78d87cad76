//! Memory blocks that lie on several NUMA nodes together.
//!
//! A block says how much there is on its nodes in all, and not how much on each. The kubelet's static memory manager takes a
//! block from its nodes in ascending order, from each as much as it has. Here it is the same, so a block is counted once,
//! and never for more than a node has. Blocks of one node come first: what they take can be nowhere else.

use std::collections::BTreeMap;

use gpulet_inventory::kubelet::MemoryBlock;

use super::built::{NoteReason, Share};
use super::figure::{Figure, MOST};
use super::machine_memory::MachineMemory;
use super::notes::Notes;
use super::pods::Holder;

/// The figures of one kind, by the kernel's number of each NUMA node: also of those that are no zone, for a block may lie
/// on them in part.
pub(super) type ByNode = BTreeMap<i64, Figure>;

/// A block that a container has.
#[derive(Clone, Copy)]
pub(super) struct Taken<'a> {
    pub(super) holder: &'a Holder<'a>,
    pub(super) block: &'a MemoryBlock,
}

/// How many bytes of a kind the kubelet may give on each NUMA node.
pub(super) fn allocatable(
    kind: &str,
    to_give: &[MemoryBlock],
    machine: &MachineMemory,
    notes: &mut Notes,
) -> BTreeMap<i64, u64> {
    let mut on_node: BTreeMap<i64, u64> = machine.nodes().map(|node| (node, 0)).collect();
    let mut blocks: Vec<&MemoryBlock> = to_give.iter().filter(|block| block.kind == kind).collect();
    blocks.sort_by_key(|block| (block.numa_nodes.len(), &block.numa_nodes, block.bytes));
    for block in blocks {
        let alone = block.numa_nodes.len() == 1;
        let left = spread(block, |node, bytes| {
            let Some(given) = on_node.get_mut(&node) else { return bytes };
            let most = if alone { MOST } else { machine.capacity(kind, node).min(MOST) };
            let room = most.saturating_sub(*given);
            let fits = bytes.min(room);
            *given += fits;
            bytes - fits
        });
        if left > 0 {
            notes.add(
                NoteReason::UnknownMemory,
                kind,
                format!("{left} bytes that may be given on {}", places(block)),
            );
        }
    }
    on_node
}

/// Takes what containers have of a kind off what there is.
pub(super) fn take(kind: &str, taken: &[Taken<'_>], figures: &mut ByNode, notes: &mut Notes) {
    let mut taken: Vec<&Taken<'_>> = taken.iter().filter(|taken| taken.block.kind == kind).collect();
    taken.sort_by_cached_key(|taken| {
        let block = taken.block;
        (block.numa_nodes.len(), block.numa_nodes.clone(), taken.holder.name(), block.bytes)
    });
    for Taken { holder, block } in taken {
        let which = match block.numa_nodes.as_slice() {
            [_] => Vec::new(),
            _ => vec![format!("of {} bytes on {}", block.bytes, places(block))],
        };
        let left = spread(block, |node, bytes| match figures.get_mut(&node) {
            Some(figure) => figure.take(Share { whose: holder.name(), amount: bytes, which: which.clone() }),
            None => bytes,
        });
        if left > 0 {
            let known = block.numa_nodes.iter().any(|node| figures.contains_key(node));
            let reason = if known { NoteReason::MemoryOvercommitted } else { NoteReason::UnknownMemory };
            notes.add(reason, kind, format!("{left} bytes of {} on {}", holder.name(), places(block)));
        }
    }
}

/// Offers a block to its nodes in ascending order; `place` returns what it did not take. Returns what nobody took.
fn spread(block: &MemoryBlock, mut place: impl FnMut(i64, u64) -> u64) -> u64 {
    let mut nodes = block.numa_nodes.clone();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.into_iter().fold(block.bytes, |left, node| if left == 0 { 0 } else { place(node, left) })
}

fn places(block: &MemoryBlock) -> String {
    match block.numa_nodes.as_slice() {
        [] => "no NUMA node".to_owned(),
        [one] => format!("NUMA node {one}"),
        several => format!("NUMA nodes {}", several.iter().map(i64::to_string).collect::<Vec<_>>().join(",")),
    }
}
