//! NUMA nodes, their memory and huge pages (source: `/sys/devices/system/node`).

use gpulet_inventory::host::HugePages;
use gpulet_inventory::numa::{NumaNode, NumaNodeId};

use super::cpus::MAX_CPUS;
use crate::reader::{Directory, Reader};
use crate::text::{Unexpected, list, number};

const NODES: &str = "sys/devices/system/node";

/// The most NUMA nodes that a kernel can have (`NODES_SHIFT` is at most 10).
const MAX_NODES: u32 = 1 << 10;

/// The most sizes of huge pages that are read; architectures have a few.
const MAX_PAGE_SIZES: usize = 32;

/// The most KiB that can be told in bytes; more is garbage.
const MAX_KIB: u64 = u64::MAX / 1024;

/// The online NUMA nodes, ascending. A kernel without NUMA has none.
pub(super) fn nodes<'r>(reader: &'r Reader<'r>) -> Vec<NumaNode> {
    let Some(directory) = reader.directory(NODES) else { return Vec::new() };
    // The kernel writes node lists as it writes CPU lists.
    let online = directory.read("online", list(MAX_NODES)).unwrap_or_default();
    online.iter().map(|number| node(&directory, number, online.len())).collect()
}

fn node(nodes: &Directory<'_>, number: u32, online: usize) -> NumaNode {
    let Some(directory) = nodes.below(&format!("node{number}")) else {
        return NumaNode {
            id: NumaNodeId(number),
            cpus: Default::default(),
            memory_bytes: None,
            distances: Vec::new(),
        };
    };
    NumaNode {
        id: NumaNodeId(number),
        cpus: directory.read("cpulist", list(MAX_CPUS)).unwrap_or_default(),
        memory_bytes: directory.read("meminfo", mem_total_bytes),
        distances: directory.read("distance", |text| distances(text, online)).unwrap_or_default(),
    }
}

/// Huge pages of each node, by node and page size. A node without memory has no directory for them.
pub(super) fn huge_pages<'r>(reader: &'r Reader<'r>, nodes: &[NumaNode]) -> Vec<HugePages> {
    let of_node = |node: &NumaNode| {
        let directory = reader.directory(&format!("{NODES}/node{}/hugepages", node.id))?;
        let sizes = directory
            .names_up_to(MAX_PAGE_SIZES)
            .into_iter()
            .filter_map(|name| pages(&directory, node.id, &name));
        let mut sizes: Vec<_> = sizes.collect();
        sizes.sort_by_key(|pages| pages.page_bytes);
        Some(sizes)
    };
    nodes.iter().filter_map(of_node).flatten().collect()
}

fn pages(directory: &Directory<'_>, numa_node: NumaNodeId, name: &str) -> Option<HugePages> {
    let Some(page_bytes) = page_bytes(name) else {
        directory.odd(name, Unexpected::new(name, "a size such as hugepages-2048kB"));
        return None;
    };
    let directory = directory.below(name)?;
    let total = directory.read("nr_hugepages", number)?;
    let free = if total == 0 { 0 } else { directory.read("free_hugepages", number)? };
    Some(HugePages { numa_node, page_bytes, total, free })
}

/// The size in a name such as `hugepages-2048kB`.
fn page_bytes(name: &str) -> Option<u64> {
    let kib = name.strip_prefix("hugepages-")?.strip_suffix("kB")?;
    number(kib).ok().filter(|kib| (1..=MAX_KIB).contains(kib)).map(|kib| kib * 1024)
}

/// Why a file of a NUMA node cannot be understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum NodeFileError {
    #[error("no line `MemTotal: … kB`")]
    NoMemTotal,
    #[error("{0}; expected numbers from 10 to 255")]
    NoDistance(Unexpected),
    #[error("{columns} distances for {online} online nodes")]
    OtherColumns { columns: usize, online: usize },
}

/// `MemTotal` of a node's `meminfo`, whose lines read `Node 0 MemTotal:  131830412 kB`.
fn mem_total_bytes(text: &str) -> Result<u64, NodeFileError> {
    let kib = text.lines().find_map(|line| {
        let (_, value) = line.split_once("MemTotal:")?;
        let kib = value.trim().strip_suffix("kB")?.trim();
        number(kib).ok().filter(|kib| *kib <= MAX_KIB)
    });
    kib.map(|kib| kib * 1024).ok_or(NodeFileError::NoMemTotal)
}

/// One row of the SLIT: a column per *online* node in ascending order, so that column 2 may be node 8.
fn distances(text: &str, online: usize) -> Result<Vec<u32>, NodeFileError> {
    let distance = |word: &str| {
        let value = word.parse::<u8>().ok().filter(|value| *value >= 10);
        value.map(u32::from).ok_or_else(|| NodeFileError::NoDistance(Unexpected::new(word, "a distance")))
    };
    let row: Vec<u32> = text.split_ascii_whitespace().map(distance).collect::<Result<_, _>>()?;
    match row.len() {
        columns if columns == online => Ok(row),
        columns => Err(NodeFileError::OtherColumns { columns, online }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn page_sizes() {
        assert_eq!(page_bytes("hugepages-1048576kB"), Some(1 << 30));
        for name in ["hugepages-kB", "hugepages-0kB", "hugepages-99999999999999999999kB", "2048kB"] {
            assert_eq!(page_bytes(name), None, "{name}");
        }
    }

    #[test]
    fn a_row_that_belongs_to_other_nodes_is_refused() {
        assert_eq!(distances("10 21", 3), Err(NodeFileError::OtherColumns { columns: 2, online: 3 }));
        assert!(matches!(distances("10 9", 2), Err(NodeFileError::NoDistance(_))));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(Node 0 MemTotal: )?[0-9 kB\n\t-]{0,40}") {
            let _ = (mem_total_bytes(&text), distances(&text, 2), page_bytes(&text));
        }

        #[test]
        fn written_rows_are_read(row in proptest::collection::vec(10u32..=255, 1..16), kib in 0..=MAX_KIB) {
            let text: Vec<String> = row.iter().map(u32::to_string).collect();
            prop_assert_eq!(distances(&text.join(" "), row.len()).unwrap(), row);
            prop_assert_eq!(mem_total_bytes(&format!("Node 3 MemTotal: {kib} kB")).unwrap(), kib * 1024);
        }
    }
}
