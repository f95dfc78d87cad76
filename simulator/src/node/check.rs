//! Whether the parts of a description agree with each other.

use std::collections::BTreeMap;

use gpulet_inventory::numa::CpuSet;

use super::Gpu;
use super::description::{Description, NumaDescription, Wiring};
use super::localities;
use super::problem::{Fault, Problem};
use super::tree::{Function, Kind};
use crate::command::Load;

/// Collects what is wrong.
pub(super) struct Check<'a> {
    description: &'a Description,
    functions: &'a [Function],
    gpus: &'a [Gpu],
    problems: Vec<Problem>,
}

impl<'a> Check<'a> {
    /// Everything that is wrong with how the parts go together.
    pub(super) fn all(
        description: &'a Description,
        functions: &'a [Function],
        gpus: &'a [Gpu],
    ) -> Vec<Problem> {
        let mut check = Self { description, functions, gpus, problems: Vec::new() };
        check.cpus();
        check.numa_nodes();
        check.localities();
        check.names();
        let described = functions.iter().filter(|function| matches!(function.kind, Kind::Gpu(_))).count();
        if described == gpus.len() {
            check.driver_and_minors();
            check.wiring();
            check.fabric();
            check.loads();
            check.problems.extend(localities::problems(description, gpus));
        }
        check.problems
    }

    fn refuse(&mut self, place: impl Into<String>, fault: Fault) {
        self.problems.push(Problem { place: place.into(), fault });
    }

    fn cpus(&mut self) {
        let count = self.description.cpu.count();
        if !(1..=8192).contains(&count) {
            self.refuse("cpu", Fault::CpuCount { count });
            return;
        }
        let count = u32::try_from(count).unwrap_or(0);
        let mut homes: BTreeMap<u32, u32> = BTreeMap::new();
        for (index, numa) in self.description.numa.iter().enumerate() {
            let place = format!("numa[{index}].cpus");
            let beyond: CpuSet = numa.cpus.iter().filter(|cpu| *cpu >= count).collect();
            if !beyond.is_empty() {
                self.refuse(&place, Fault::NoSuchCpus { cpus: beyond.to_string(), count });
            }
            let mut shared: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            for cpu in numa.cpus.iter() {
                if let Some(other) = homes.insert(cpu, numa.id) {
                    shared.entry(other).or_default().push(cpu);
                }
            }
            for (other, cpus) in shared {
                let cpus = cpus.into_iter().collect::<CpuSet>().to_string();
                self.refuse(&place, Fault::OverlappingCpus { cpus, other });
            }
        }
        let homeless: CpuSet = (0..count).filter(|cpu| !homes.contains_key(cpu)).collect();
        if !homeless.is_empty() {
            self.refuse("numa", Fault::HomelessCpus { cpus: homeless.to_string() });
        }
    }

    fn numa_nodes(&mut self) {
        let nodes = self.description.numa_in_order();
        if nodes.is_empty() {
            self.refuse("numa", Fault::NoNumaNode);
        }
        for pair in nodes.windows(2) {
            if let [a, b] = pair
                && a.id == b.id
            {
                self.refuse("numa", Fault::TwinNumaNodes { numa: a.id });
            }
        }
        for node in &nodes {
            if node.id > 1023 {
                self.refuse(format!("numa {}", node.id), Fault::NumaNumber { numa: node.id });
            }
            let pages = node
                .hugepages_2mib
                .saturating_mul(2)
                .saturating_add(node.hugepages_1gib.saturating_mul(1024));
            if pages > node.memory.mib() {
                self.refuse(format!("numa {}", node.id), Fault::HugePages { memory: node.memory });
            }
            self.distances(node, &nodes);
        }
    }

    fn distances(&mut self, node: &NumaDescription, nodes: &[&NumaDescription]) {
        let place = format!("numa {}.distances", node.id);
        if node.distances.len() != nodes.len() {
            self.refuse(&place, Fault::DistanceCount { given: node.distances.len(), expected: nodes.len() });
        }
        for (distance, to) in node.distances.iter().zip(nodes) {
            let possible = if to.id == node.id { 10..=10 } else { 11..=255 };
            if !possible.contains(distance) {
                self.refuse(&place, Fault::Distance { distance: *distance, to: to.id });
            }
        }
    }

    fn localities(&mut self) {
        for (index, complex) in self.description.pci.iter().enumerate() {
            let known = |numa: u32| self.description.numa.iter().any(|node| node.id == numa);
            if let Some(numa) = complex.numa.filter(|numa| !known(*numa)) {
                self.refuse(format!("pci[{index}].numa"), Fault::UnknownNumaNode { numa });
            }
        }
    }

    /// RDMA devices, interfaces and drivers become directories, so their names must be names of such; and a device
    /// or interface needs one of its own.
    fn names(&mut self) {
        let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
        for function in self.functions {
            let (own, driver): (Vec<&String>, Option<&String>) = match &function.kind {
                Kind::Nic(nic) => (nic.rdma.iter().chain(&nic.net).collect(), Some(&nic.driver)),
                Kind::Other(other) => (Vec::new(), other.driver.as_ref()),
                _ => continue,
            };
            for name in own.iter().copied().chain(driver).filter(|name| !is_name(name)) {
                self.refuse(&function.place, Fault::BadName { name: name.clone() });
            }
            for name in own {
                if let Some(other) = seen.insert(name, &function.place) {
                    let fault = Fault::SharedName { name: name.clone(), other: other.to_owned() };
                    self.refuse(&function.place, fault);
                }
            }
            if let Kind::Nic(nic) = &function.kind
                && !(1..=2).contains(&nic.ports)
            {
                let fault = Fault::Count { what: "ports", number: nic.ports, least: 1, most: 2 };
                self.refuse(&function.place, fault);
            }
        }
    }

    fn driver_and_minors(&mut self) {
        if self.description.driver.is_none() && !self.gpus.is_empty() {
            self.refuse("driver", Fault::NoDriver);
        }
        let mut seen: BTreeMap<u32, u32> = BTreeMap::new();
        for (index, gpu) in (0..).zip(self.gpus) {
            if gpu.minor > 254 {
                self.refuse(&gpu.function.place, Fault::Minor { minor: gpu.minor });
            }
            if let Some(other) = seen.insert(gpu.minor, index) {
                self.refuse(&gpu.function.place, Fault::SharedMinor { minor: gpu.minor, other });
            }
        }
    }

    fn wiring(&mut self) {
        let mut wired = vec![0_u32; self.gpus.len()];
        match &self.description.nvlink {
            None => {}
            Some(Wiring::Switched(links)) => wired.fill(self.links_to_switches("nvlink.switched", links)),
            Some(Wiring::Baseboards(baseboards)) => {
                for (index, baseboard) in baseboards.iter().enumerate() {
                    let place = format!("nvlink.baseboards[{index}]");
                    let links = self.links_to_switches(&place, &baseboard.links);
                    for gpu in baseboard.gpus.iter() {
                        self.wire(&place, gpu, links, &mut wired);
                    }
                }
            }
            Some(Wiring::HiddenSwitches(links)) => wired.fill(*links),
            Some(Wiring::Direct(pairs)) => {
                for (index, pair) in pairs.iter().enumerate() {
                    self.pair(format!("nvlink.direct[{index}]"), pair.gpus, pair.links, &mut wired);
                }
            }
        }
        for (index, (gpu, wired)) in self.gpus.iter().zip(wired).enumerate() {
            let links = gpu.board.nvlink.as_ref().map_or(0, |nvlink| nvlink.links);
            if wired > links {
                let fault = Fault::TooManyLinks { gpu: index, wired, links };
                self.problems.push(Problem { place: "nvlink".to_owned(), fault });
            }
        }
    }

    fn pair(&mut self, place: String, (a, b): (u32, u32), links: u32, wired: &mut [u32]) {
        if a == b {
            self.refuse(place, Fault::LinkToItself { gpu: a });
            return;
        }
        for gpu in [a, b] {
            self.wire(&place, gpu, links, wired);
        }
    }

    /// Links of a GPU to all NVSwitches.
    fn links_to_switches(&mut self, place: &str, links: &[u32]) -> u32 {
        let switches = self.functions.iter().filter(|f| matches!(f.kind, Kind::NvSwitch(_))).count();
        if links.len() != switches {
            self.refuse(place, Fault::SwitchCount { given: links.len(), switches });
        }
        links.iter().fold(0, |sum, links| sum.saturating_add(*links))
    }

    fn wire(&mut self, place: &str, gpu: u32, links: u32, wired: &mut [u32]) {
        match usize::try_from(gpu).ok().and_then(|index| wired.get_mut(index)) {
            Some(count) => *count = count.saturating_add(links),
            None => self.refuse(place, Fault::NoSuchGpu { gpu, count: self.gpus.len() }),
        }
    }

    fn fabric(&mut self) {
        if self.description.fabric.is_some() && !self.gpus.iter().any(|gpu| gpu.board.fabric) {
            self.refuse("fabric", Fault::NoFabricBoard);
        }
    }

    fn loads(&mut self) {
        let mut seen = CpuSet::default();
        for (index, entry) in self.description.loads.iter().enumerate() {
            let place = format!("loads[{index}]");
            if let Err(refusal) = entry.load.check() {
                self.refuse(format!("{place}.load"), Fault::Load { problem: refusal.to_string() });
            }
            for gpu in entry.gpus.iter() {
                if seen.contains(gpu) {
                    self.refuse(&place, Fault::TwinLoads { gpu });
                }
                let found = usize::try_from(gpu).ok().and_then(|index| self.gpus.get(index));
                match found {
                    None => self.refuse(&place, Fault::NoSuchGpu { gpu, count: self.gpus.len() }),
                    Some(found) if entry.load != Load::Idle && found.has_no_place_for_work() => {
                        let problem = format!(
                            "GPU {gpu} is in MIG mode without a compute instance, so nothing can run on it"
                        );
                        self.refuse(&place, Fault::Load { problem });
                    }
                    Some(_) => {}
                }
            }
            seen = seen.iter().chain(entry.gpus.iter()).collect();
        }
    }
}

/// Whether a name can be that of a file.
fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    !name.is_empty() && name.len() <= 64 && !name.starts_with('.') && name.chars().all(plain)
}
