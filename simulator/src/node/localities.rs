//! Whether what a description says of places and links, beyond the PCIe tree, can be.

use std::collections::BTreeSet;

use gpulet_inventory::locality::Level;
use gpulet_inventory::numa::CpuSet;

use super::Gpu;
use super::description::Description;
use super::problem::{Fault, Problem};

/// Everything that is wrong with it.
pub(super) fn problems(description: &Description, gpus: &[Gpu]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, complex) in description.pci.iter().enumerate() {
        if !complex.within.is_empty() && !complex.within.split('/').all(is_directory) {
            let (place, name) = (format!("pci[{index}].within"), complex.within.clone());
            problems.push(Problem { place, fault: Fault::BadDirectory { name } });
        }
    }
    let mut taken = BTreeSet::new();
    for gpu in gpus {
        let faults = memory_nodes(description, gpu, &mut taken)
            .into_iter()
            .chain(dark_links(gpu))
            .chain(affinity(description, gpu));
        problems.extend(faults.map(|fault| Problem { place: gpu.function.place.clone(), fault }));
    }
    problems.extend(levels(description, gpus.len()));
    problems
}

fn memory_nodes(description: &Description, gpu: &Gpu, taken: &mut BTreeSet<u32>) -> Vec<Fault> {
    let fault = |numa: u32| match description.numa.iter().find(|node| node.id == numa) {
        None => Some(Fault::UnknownNumaNode { numa }),
        Some(node) if !taken.insert(numa) || !node.cpus.is_empty() => Some(Fault::NoMemoryNode { numa }),
        Some(_) => None,
    };
    gpu.description.memory_nodes.iter().filter_map(fault).collect()
}

fn dark_links(gpu: &Gpu) -> Option<Fault> {
    let links = gpu.board.nvlink.as_ref().map_or(0, |nvlink| nvlink.links);
    let beyond = gpu.description.dark_nvlinks.iter().find(|link| *link >= links);
    beyond.map(|link| Fault::NoSuchLink { link, links })
}

fn affinity(description: &Description, gpu: &Gpu) -> Vec<Fault> {
    let Some(told) = &gpu.description.driver_affinity else { return Vec::new() };
    let count = u32::try_from(description.cpu.count()).unwrap_or(u32::MAX);
    let beyond: CpuSet = told.cpus.iter().filter(|cpu| *cpu >= count).collect();
    let known = |numa: u32| description.numa.iter().any(|node| node.id == numa);
    let unknown = told.numa.iter().filter(|numa| !known(*numa));
    let mut faults: Vec<Fault> = unknown.map(|numa| Fault::UnknownNumaNode { numa }).collect();
    if !beyond.is_empty() {
        faults.push(Fault::NoSuchCpus { cpus: beyond.to_string(), count });
    }
    faults
}

fn levels(description: &Description, count: usize) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (index, told) in description.driver_levels.iter().enumerate() {
        let mut refuse = |fault| {
            problems.push(Problem { place: format!("driver-levels[{index}]"), fault });
        };
        if told.level == Level::Same {
            refuse(Fault::OwnLevel);
        }
        if told.gpus.len() < 2 {
            refuse(Fault::LonelyLevel);
        }
        let beyond = told.gpus.iter().find(|gpu| usize::try_from(*gpu).map_or(true, |gpu| gpu >= count));
        if let Some(gpu) = beyond {
            refuse(Fault::NoSuchGpu { gpu, count });
        }
    }
    problems
}

/// Whether a name can be that of a directory of the kernel's.
fn is_directory(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    !name.is_empty() && name.len() <= 64 && !name.starts_with('.') && name.chars().all(plain)
}
