//! `/sys/devices/system`: CPUs and NUMA nodes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use gpulet_inventory::numa::CpuSet;

use super::tree::Tree;
use crate::node::Node;
use crate::node::description::NumaDescription;

/// Adds CPUs and NUMA nodes.
pub(super) fn add(tree: &mut Tree, node: &Node) {
    cpus(tree, node);
    let nodes = node.description().numa_in_order();
    let list = |wanted: &dyn Fn(&NumaDescription) -> bool| {
        nodes.iter().filter(|numa| wanted(numa)).map(|numa| numa.id).collect::<CpuSet>()
    };
    let directory = PathBuf::from("sys/devices/system/node");
    for file in ["online", "possible"] {
        tree.file(directory.join(file), list(&|_| true));
    }
    tree.file(directory.join("has_cpu"), list(&|numa| !numa.cpus.is_empty()));
    tree.file(directory.join("has_memory"), list(&|numa| numa.memory.0 > 0));
    // A GPU's memory is there for what can be moved out of it again, not for the kernel.
    let of_gpu =
        |numa: &NumaDescription| node.gpus().iter().any(|gpu| gpu.description.memory_nodes.contains(numa.id));
    tree.file(directory.join("has_normal_memory"), list(&|numa| numa.memory.0 > 0 && !of_gpu(numa)));
    nodes.iter().for_each(|numa| numa_node(tree, numa));
}

fn cpus(tree: &mut Tree, node: &Node) {
    let cpu = &node.description().cpu;
    let count = u32::try_from(cpu.count()).unwrap_or(0);
    let all: CpuSet = (0..count).collect();
    let directory = PathBuf::from("sys/devices/system/cpu");
    for file in ["online", "possible", "present"] {
        tree.file(directory.join(file), &all);
    }
    tree.file(directory.join("offline"), "\n");
    tree.file(directory.join("kernel_max"), 8191);
    let mut cores: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    for number in 0..count {
        let at = cpu.thread(number);
        cores.entry((at.package, at.core)).or_default().push(number);
    }
    // Of the many files about a CPU's place only those that say something of their own: a large machine has hundreds
    // of CPUs, and each file costs time when a node starts.
    for number in 0..count {
        let at = cpu.thread(number);
        let siblings: CpuSet = cores.get(&(at.package, at.core)).into_iter().flatten().copied().collect();
        let topology = directory.join(format!("cpu{number}/topology"));
        tree.file(topology.join("core_id"), at.core);
        tree.file(topology.join("physical_package_id"), at.package);
        tree.file(topology.join("thread_siblings_list"), siblings);
        // As every kernel has it: who reads a machine of hundreds of CPUs takes a package at a time by it.
        let package: CpuSet = (0..count).filter(|other| cpu.thread(*other).package == at.package).collect();
        tree.file(topology.join("core_siblings_list"), package);
    }
}

fn numa_node(tree: &mut Tree, numa: &NumaDescription) {
    let name = format!("node{}", numa.id);
    let directory = PathBuf::from("sys/devices/system/node").join(&name);
    // A line end stands in an empty list too.
    tree.file(directory.join("cpulist"), format!("{}\n", numa.cpus));
    let distances: Vec<_> = numa.distances.iter().map(u32::to_string).collect();
    tree.file(directory.join("distance"), distances.join(" "));
    tree.file(directory.join("meminfo"), meminfo(numa));
    for cpu in numa.cpus.iter() {
        tree.link(format!("sys/devices/system/cpu/cpu{cpu}/{name}"), &directory);
    }
    if numa.memory.0 == 0 {
        return;
    }
    for (kib, count) in [(2048_u64, numa.hugepages_2mib), (1 << 20, numa.hugepages_1gib)] {
        let pages = directory.join(format!("hugepages/hugepages-{kib}kB"));
        tree.file(pages.join("nr_hugepages"), count);
        tree.file(pages.join("free_hugepages"), count);
        tree.file(pages.join("surplus_hugepages"), 0);
    }
}

fn meminfo(numa: &NumaDescription) -> String {
    let total = numa.memory.kib();
    let set_aside = (numa.hugepages_2mib.saturating_mul(2048))
        .saturating_add(numa.hugepages_1gib.saturating_mul(1 << 20));
    let free = (total / 10 * 9).saturating_sub(set_aside);
    let line = |name: &str, kib: u64| format!("Node {} {:<16}{kib:>8} kB\n", numa.id, format!("{name}:"));
    [line("MemTotal", total), line("MemFree", free), line("MemUsed", total - free)].concat()
}
