//! The machine as the kubelet sees it: NUMA nodes with their CPUs, memory and huge pages.

use serde::{Deserialize, Serialize};

use crate::node::Node;

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Machine {
    /// NUMA nodes, ascending; those without CPUs or without memory are among them.
    pub numa: Vec<NumaNode>,
}

/// A NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct NumaNode {
    /// The kernel's number.
    pub id: u32,
    /// Cores, each with the numbers of its hardware threads.
    pub cores: Vec<Core>,
    /// `MemTotal`, bytes.
    pub memory_bytes: u64,
    /// Huge pages by size.
    #[serde(default)]
    pub huge_pages: Vec<HugePages>,
    /// Distances to the nodes in their order; 10 is local.
    pub distances: Vec<u64>,
}

/// A core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Core {
    /// Package that it is in.
    pub socket: u32,
    /// Numbers of its hardware threads, ascending.
    pub threads: Vec<u32>,
}

/// Huge pages of one size on one NUMA node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HugePages {
    /// Size of a page, KiB.
    pub page_kib: u64,
    /// How many are set aside.
    pub count: u64,
}

impl Machine {
    /// What a simulated node shows of itself in `/sys/devices/system`.
    pub fn of(node: &Node) -> Self {
        let description = node.description();
        let numa = |numa: &crate::node::description::NumaDescription| {
            let mut cores: Vec<((u32, u32), Core)> = Vec::new();
            for cpu in numa.cpus.iter() {
                let at = description.cpu.thread(cpu);
                let key = (at.package, at.core);
                match cores.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, core)) => core.threads.push(cpu),
                    None => cores.push((key, Core { socket: at.package, threads: vec![cpu] })),
                }
            }
            let pages = [(2048, numa.hugepages_2mib), (1 << 20, numa.hugepages_1gib)];
            let huge_pages = pages.map(|(page_kib, count)| HugePages { page_kib, count });
            NumaNode {
                id: numa.id,
                cores: cores.into_iter().map(|(_, core)| core).collect(),
                memory_bytes: numa.memory.kib() << 10,
                // A node without memory has no directory for them.
                huge_pages: if numa.memory.0 == 0 { Vec::new() } else { huge_pages.into() },
                distances: numa.distances.iter().map(|distance| u64::from(*distance)).collect(),
            }
        };
        Self { numa: description.numa_in_order().into_iter().map(numa).collect() }
    }

    /// CPUs in all.
    pub fn cpu_count(&self) -> u64 {
        self.numa.iter().flat_map(|numa| &numa.cores).map(|core| core.threads.len() as u64).sum()
    }

    /// Memory in all, bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.numa.iter().map(|numa| numa.memory_bytes).sum()
    }

    /// Huge pages of all nodes: the resource's name and bytes, once per node and size.
    pub fn huge_pages(&self) -> impl Iterator<Item = (String, u64)> {
        self.numa.iter().flat_map(|numa| &numa.huge_pages).map(|pages| (pages.resource(), pages.bytes()))
    }
}

impl HugePages {
    /// The resource's name, such as `hugepages-2Mi`.
    pub fn resource(self) -> String {
        let (mut size, mut unit) = (self.page_kib, 0);
        while size > 0 && size.is_multiple_of(1024) && unit < 2 {
            size /= 1024;
            unit += 1;
        }
        let unit = ["Ki", "Mi", "Gi"].get(unit).copied().unwrap_or_default();
        format!("hugepages-{size}{unit}")
    }

    /// Bytes in all.
    pub fn bytes(self) -> u64 {
        self.page_kib.saturating_mul(self.count).saturating_mul(1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_named_as_kubernetes_does() {
        let name = |page_kib: u64| HugePages { page_kib, count: 1 }.resource();
        assert_eq!(name(2048), "hugepages-2Mi");
        assert_eq!(name(1 << 20), "hugepages-1Gi");
        assert_eq!(name(64), "hugepages-64Ki");
    }

    #[test]
    fn a_node_is_seen_as_its_files_show_it() {
        let machine = Machine::of(&Node::load("dgx-h100").unwrap());
        assert_eq!(machine.numa.len(), 2);
        let core = &machine.numa[0].cores[0];
        assert_eq!((core.socket, core.threads.len()), (0, 2));
        assert_eq!(machine.cpu_count(), 224);
    }
}
