//! CPUs: which there are, which share a core or a package, last-level caches (source: `/sys/devices/system/cpu`).

use std::collections::BTreeMap;

use gpulet_inventory::host::{CpuPlace, Cpus};
use gpulet_inventory::numa::CpuSet;

use crate::reader::{Directory, Reader};
use crate::text::{Unexpected, index, list, number};

const CPUS: &str = "sys/devices/system/cpu";

/// The most CPUs that a kernel can have (`NR_CPUS`).
pub(super) const MAX_CPUS: u32 = 8192;

/// The most threads that a core can be said to have; POWER has eight.
const MAX_THREADS: usize = 64;

pub(super) fn read<'r>(reader: &'r Reader<'r>) -> Cpus {
    let Some(directory) = reader.directory(CPUS) else { return Cpus::default() };
    let online = directory.read("online", list(MAX_CPUS)).unwrap_or_default();
    // One listing is cheaper than asking of each CPU whether it is a link.
    directory.names();
    Cpus {
        present: directory.read("present", list(MAX_CPUS)).unwrap_or_default(),
        places: places(&directory, &online),
        last_level_caches: last_level_caches(&directory, &online),
        online,
    }
}

/// Threads of one core have one place, so that only the first of them is read.
fn places(cpus: &Directory<'_>, online: &CpuSet) -> Vec<CpuPlace> {
    let (mut places, mut packages) = (BTreeMap::new(), Vec::new());
    for cpu in online.iter() {
        if places.contains_key(&cpu) {
            continue;
        }
        let Some(first) = place(cpus, cpu, &mut packages) else { continue };
        for cpu in first.siblings.iter().filter(|sibling| online.contains(*sibling)) {
            places.entry(cpu).or_insert_with(|| CpuPlace { cpu, ..first.clone() });
        }
    }
    places.into_values().collect()
}

fn place(cpus: &Directory<'_>, cpu: u32, packages: &mut Vec<(CpuSet, u32)>) -> Option<CpuPlace> {
    let directory = cpus.below(&format!("cpu{cpu}/topology"))?;
    // The newer name of the same list is there where the older is not.
    let siblings = directory
        .read("thread_siblings_list", |text| siblings(text, cpu))
        .or_else(|| directory.read("core_cpus_list", |text| siblings(text, cpu)));
    Some(CpuPlace {
        cpu,
        package: package(&directory, cpu, packages)?,
        siblings: siblings.unwrap_or_else(|| CpuSet::from_iter([cpu])),
    })
}

/// The package of a CPU. The first CPU of each tells which others are in it.
fn package(topology: &Directory<'_>, cpu: u32, packages: &mut Vec<(CpuSet, u32)>) -> Option<u32> {
    if let Some((_, package)) = packages.iter().find(|(cpus, _)| cpus.contains(cpu)) {
        return Some(*package);
    }
    let package = topology.read("physical_package_id", index).flatten()?;
    let cpus = topology.read("core_siblings_list", |text| shared_with(text, cpu));
    packages.extend(cpus.map(|cpus| (cpus, package)));
    Some(package)
}

/// A list of CPUs that share something, `cpu` among them.
fn shared_with(text: &str, cpu: u32) -> Result<CpuSet, Unexpected> {
    let shared = list(MAX_CPUS)(text)?;
    match shared.contains(cpu) {
        true => Ok(shared),
        false => Err(Unexpected::new(text, "a list that names the CPU itself")),
    }
}

fn siblings(text: &str, cpu: u32) -> Result<CpuSet, Unexpected> {
    let siblings = shared_with(text, cpu)?;
    match siblings.len() {
        0..=MAX_THREADS => Ok(siblings),
        _ => Err(Unexpected::new(text, "a list of at most 64 threads of a core")),
    }
}

/// Which CPUs share a cache of the highest level. Only the first CPU of each cache is read.
fn last_level_caches(cpus: &Directory<'_>, online: &CpuSet) -> Vec<CpuSet> {
    let mut caches: Vec<CpuSet> = Vec::new();
    for cpu in online.iter() {
        if caches.iter().any(|cache| cache.contains(cpu)) {
            continue;
        }
        match cpus.below(&format!("cpu{cpu}/cache")) {
            Some(directory) => caches.extend(last_level_cache(&directory, cpu)),
            // A kernel that tells of no cache of the first CPU tells of none at all.
            None if online.iter().next() == Some(cpu) => break,
            None => {}
        }
    }
    caches
}

fn last_level_cache(directory: &Directory<'_>, cpu: u32) -> Option<CpuSet> {
    let names = directory.names().into_iter().filter(|name| name.starts_with("index"));
    let levels = names.filter_map(|name| {
        let cache = directory.below(&name)?;
        Some((cache.read("level", number)?, cache))
    });
    let (_, cache) = levels.max_by_key(|(level, _)| *level)?;
    cache.read("shared_cpu_list", |text| shared_with(text, cpu))
}
