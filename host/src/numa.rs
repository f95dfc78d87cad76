//! NUMA nodes (source: `/sys/devices/system/node`).

use gpulet_inventory::numa::{CpuSet, NumaNode, NumaNodeId};

use crate::root::Root;

const NODES: &str = "sys/devices/system/node";

/// The most KiB that can be told in bytes; more is garbage.
const MAX_KIB: u64 = u64::MAX / 1024;

/// The online NUMA nodes, ascending. A kernel without NUMA has none.
pub fn read(root: &Root) -> Vec<NumaNode> {
    // The kernel writes node lists as it writes CPU lists.
    let online: Option<CpuSet> = root.read(&format!("{NODES}/online"), str::parse);
    online.unwrap_or_default().iter().map(|number| node(root, number)).collect()
}

fn node(root: &Root, number: u32) -> NumaNode {
    let file = |name: &str| format!("{NODES}/node{number}/{name}");
    NumaNode {
        id: NumaNodeId(number),
        cpus: root.read(&file("cpulist"), str::parse::<CpuSet>).unwrap_or_default(),
        memory_bytes: root.read(&file("meminfo"), mem_total_bytes),
        distances: root.read(&file("distance"), distances).unwrap_or_default(),
    }
}

/// Why a file of a NUMA node cannot be understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum NodeFileError {
    #[error("no line `MemTotal: … kB`")]
    NoMemTotal,
    #[error("`{0}` is not a distance; expected numbers from 10 to 255")]
    NoDistance(String),
}

/// `MemTotal` of a node's `meminfo`, whose lines read `Node 0 MemTotal:  131830412 kB`.
fn mem_total_bytes(text: &str) -> Result<u64, NodeFileError> {
    let kib = text.lines().find_map(|line| {
        let (_, value) = line.split_once("MemTotal:")?;
        let number = value.trim().strip_suffix("kB")?.trim();
        number.parse::<u64>().ok().filter(|kib| *kib <= MAX_KIB)
    });
    kib.map(|kib| kib * 1024).ok_or(NodeFileError::NoMemTotal)
}

/// One row of the SLIT: a column per *online* node in ascending order, so that column 2 may be node 8.
fn distances(text: &str) -> Result<Vec<u32>, NodeFileError> {
    let distance = |word: &str| {
        let value = word.parse::<u8>().ok().filter(|value| *value >= 10);
        value.map(u32::from).ok_or_else(|| NodeFileError::NoDistance(word.chars().take(32).collect()))
    };
    text.split_ascii_whitespace().map(distance).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let file = root.join(NODES).join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    #[test]
    fn numbers_with_gaps_and_nodes_without_cpus() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        write(at, "online", "0,8\n");
        write(at, "node0/cpulist", "0-3,16-19\n");
        write(at, "node0/meminfo", "Node 0 MemTotal:       131072 kB\nNode 0 MemFree:        1 kB\n");
        write(at, "node0/distance", "10 40\n");
        write(at, "node8/cpulist", "\n");
        write(at, "node8/distance", "40 10\n");
        // Not online: must not appear.
        write(at, "node9/cpulist", "4\n");
        let root = Root::new(at);
        let nodes = read(&root);
        assert_eq!(nodes.iter().map(|node| node.id.0).collect::<Vec<_>>(), [0, 8]);
        assert_eq!(nodes[0].cpus.to_string(), "0-3,16-19");
        assert_eq!(nodes[0].memory_bytes, Some(131_072 * 1024));
        assert_eq!(nodes[0].distances, [10, 40]);
        assert!(nodes[1].cpus.is_empty());
        assert_eq!(nodes[1].memory_bytes, None, "its meminfo is missing");
        assert_eq!(root.odd_files(), 0);
    }

    #[test]
    fn a_kernel_without_numa_has_no_nodes() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path());
        assert!(read(&root).is_empty());
        assert_eq!(root.odd_files(), 0);
    }

    #[test]
    fn garbage_costs_only_its_own_value() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        write(at, "online", "0-1\n");
        write(at, "node0/cpulist", "0-x\n");
        write(at, "node0/distance", "10 far\n");
        write(at, "node0/meminfo", "Node 0 MemTotal: 99999999999999999999 kB\n");
        write(at, "node1/cpulist", "4-7\n");
        write(at, "node1/distance", "21 10\n");
        let root = Root::new(at);
        let nodes = read(&root);
        assert!(nodes[0].cpus.is_empty() && nodes[0].distances.is_empty());
        assert_eq!(nodes[0].memory_bytes, None);
        assert_eq!((nodes[1].cpus.len(), nodes[1].distances.as_slice()), (4, &[21, 10][..]));
        assert_eq!(root.odd_files(), 3);
        read(&root);
        assert_eq!(root.odd_files(), 3);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(Node 0 MemTotal: )?[0-9 kB\n\t-]{0,40}") {
            let _ = mem_total_bytes(&text);
            let _ = distances(&text);
        }

        #[test]
        fn written_rows_are_read(row in proptest::collection::vec(10u32..=255, 1..16), kib in 0..=MAX_KIB) {
            let text: Vec<String> = row.iter().map(u32::to_string).collect();
            prop_assert_eq!(distances(&text.join(" ")).unwrap(), row);
            prop_assert_eq!(mem_total_bytes(&format!("Node 3 MemTotal: {kib} kB")).unwrap(), kib * 1024);
        }
    }
}
