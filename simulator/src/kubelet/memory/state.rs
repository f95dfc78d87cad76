//! What memory each NUMA node has, and what of it is given away.

use std::collections::BTreeMap;

use crate::kubelet::machine::{Machine, NumaNode};
use crate::kubelet::settings::ReservedMemory;

/// Memory that a container has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::kubelet) struct Block {
    /// The kernel's numbers, ascending.
    pub(in crate::kubelet) nodes: Vec<u32>,
    /// `memory`, `hugepages-2Mi`.
    pub(in crate::kubelet) kind: String,
    /// How much, bytes. It need not be as much on each node.
    pub(in crate::kubelet) bytes: u64,
}

/// Memory of one kind on one NUMA node, bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::kubelet) struct Table {
    pub(in crate::kubelet) total: u64,
    pub(in crate::kubelet) system_reserved: u64,
    pub(in crate::kubelet) allocatable: u64,
    pub(in crate::kubelet) reserved: u64,
    pub(in crate::kubelet) free: u64,
}

/// One NUMA node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::kubelet) struct NodeState {
    /// How many blocks lie on it.
    pub(in crate::kubelet) assignments: i64,
    pub(in crate::kubelet) tables: BTreeMap<String, Table>,
    /// The nodes over which its blocks stretch; itself alone if they do not.
    pub(in crate::kubelet) group: Vec<u32>,
}

/// All NUMA nodes, those without memory too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::kubelet) struct MachineState(pub(in crate::kubelet) BTreeMap<u32, NodeState>);

impl MachineState {
    /// Nothing is given away.
    pub(super) fn new(machine: &Machine, reserved: &[ReservedMemory]) -> Self {
        let kept = |node: u32, kind: &str| {
            let of_node = reserved.iter().filter(|kept| kept.numa_node == node);
            of_node
                .filter_map(|kept| kept.limits.get(kind))
                .map(|amount| amount.value())
                .next_back()
                .unwrap_or(0)
        };
        let node = |numa: &NumaNode| {
            let table = |kind: &str, total: u64, usable: u64| {
                let system_reserved = kept(numa.id, kind);
                let allocatable = usable.saturating_sub(system_reserved);
                Table { total, system_reserved, allocatable, reserved: 0, free: allocatable }
            };
            let mut tables = BTreeMap::new();
            let mut in_pages = 0_u64;
            for pages in &numa.huge_pages {
                let (kind, bytes) = (pages.resource(), pages.bytes());
                in_pages = in_pages.saturating_add(bytes);
                tables.insert(kind.clone(), table(&kind, bytes, bytes));
            }
            let usable = numa.memory_bytes.saturating_sub(in_pages);
            tables.insert("memory".to_owned(), table("memory", numa.memory_bytes, usable));
            (numa.id, NodeState { assignments: 0, tables, group: vec![numa.id] })
        };
        Self(machine.numa.iter().map(node).collect())
    }

    /// Memory of one kind on one node; nothing where there is no such kind or node.
    pub(super) fn table(&self, node: u32, kind: &str) -> Table {
        self.0.get(&node).and_then(|state| state.tables.get(kind)).copied().unwrap_or_default()
    }

    /// Gives `bytes` away on these nodes, from the first as much as it has, and so on.
    pub(super) fn take(&mut self, nodes: &[u32], kind: &str, mut bytes: u64) {
        for node in nodes {
            let Some(state) = self.0.get_mut(node) else { continue };
            state.assignments += 1;
            state.group = nodes.to_vec();
            let Some(table) = state.tables.get_mut(kind) else { continue };
            let part = bytes.min(table.free);
            table.free -= part;
            table.reserved += part;
            bytes -= part;
        }
    }

    /// Takes a block back.
    pub(super) fn give_back(&mut self, block: &Block) {
        let mut bytes = block.bytes;
        for node in &block.nodes {
            let Some(state) = self.0.get_mut(node) else { continue };
            state.assignments -= 1;
            if state.assignments == 0 {
                state.group = vec![*node];
            }
            let Some(table) = state.tables.get_mut(&block.kind) else { continue };
            let part = bytes.min(table.reserved);
            table.free += part;
            table.reserved -= part;
            bytes -= part;
        }
    }
}
