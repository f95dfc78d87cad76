//! What memory the machine has, by kind and NUMA node, as the kernel tells it.

use std::collections::BTreeMap;

use gpulet_inventory::host::HugePages;

use super::memory::{HUGE_PAGES, MEMORY};
use super::nodes::Nodes;

/// Bytes by the kernel's number of each online NUMA node.
type ByNode = BTreeMap<i64, u64>;

/// The machine's memory.
pub(super) struct MachineMemory {
    memory: ByNode,
    /// By kind, such as `hugepages-2Mi`: every size that the machine knows, also those of which there are none.
    huge_pages: BTreeMap<String, ByNode>,
}

impl MachineMemory {
    pub(super) fn of(nodes: &Nodes<'_>, pages: &[HugePages]) -> Self {
        let memory = nodes.online().iter().map(|node| (i64::from(node.id.0), node.memory_bytes.unwrap_or(0)));
        let mut huge_pages: BTreeMap<String, ByNode> = BTreeMap::new();
        for pages in pages {
            let kind = format!("{HUGE_PAGES}{}", size(pages.page_bytes));
            let bytes = pages.total.saturating_mul(pages.page_bytes);
            huge_pages.entry(kind).or_default().insert(i64::from(pages.numa_node.0), bytes);
        }
        Self { memory: memory.collect(), huge_pages }
    }

    /// `memory` and every size of huge pages.
    pub(super) fn kinds(&self) -> impl Iterator<Item = &str> {
        self.huge_pages.keys().map(String::as_str).chain([MEMORY])
    }

    /// The kernel's numbers of the online NUMA nodes.
    pub(super) fn nodes(&self) -> impl Iterator<Item = i64> {
        self.memory.keys().copied()
    }

    /// Bytes of a kind on a NUMA node; 0 for what is not there. A node's `MemTotal` includes its huge pages.
    pub(super) fn capacity(&self, kind: &str, node: i64) -> u64 {
        let of_kind = if kind == MEMORY { Some(&self.memory) } else { self.huge_pages.get(kind) };
        of_kind.and_then(|by_node| by_node.get(&node)).copied().unwrap_or(0)
    }

    /// Bytes of all huge pages on a NUMA node.
    pub(super) fn huge_pages_bytes(&self, node: i64) -> u64 {
        let of_node = self.huge_pages.values().filter_map(|by_node| by_node.get(&node));
        of_node.fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }
}

/// A page size as Kubernetes writes it: `2Mi`, `1Gi`, `64Ki`.
fn size(bytes: u64) -> String {
    let units = [
        (1 << 60, "Ei"),
        (1 << 50, "Pi"),
        (1 << 40, "Ti"),
        (1 << 30, "Gi"),
        (1 << 20, "Mi"),
        (1 << 10, "Ki"),
    ];
    let whole = units.iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    whole.map_or_else(|| bytes.to_string(), |(unit, name)| format!("{}{name}", bytes / unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_kubernetes_does() {
        let sizes = [
            (2 << 20, "2Mi"),
            (1 << 30, "1Gi"),
            (64 << 10, "64Ki"),
            (512 << 20, "512Mi"),
            (16 << 30, "16Gi"),
        ];
        for (bytes, text) in sizes {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(size((1 << 20) + 1024), "1025Ki");
        assert_eq!(size(1000), "1000");
    }
}
