//! Layouts that are there without a file, from what the GPUs report: `all-disabled`, `all-enabled`, `all-balanced`, and
//! `all-<profile>` for each profile, with as many instances as fit.

use std::collections::BTreeMap;

use crate::desired::{Wanted, WantedInstance};
use crate::file::{Asked, AskedDivision, Devices, Entry, PartitionFile, Place, Target};
use crate::names::{self, ProfileName, is_near};
use crate::observed::{GpuDivision, Profile};
use crate::plan::plan_gpu;
use crate::resolve::{GpuFacts, idle};

/// More instances than any GPU can have.
const MOST: u32 = 64;

/// GPUs that can be divided alike.
struct Group {
    /// Absent: it is the only one.
    devices: Devices,
    /// One of them, while no one uses it.
    one: GpuDivision,
}

/// The layouts for these GPUs, which are all that the node has.
pub fn generated(gpus: &[GpuFacts<'_>]) -> PartitionFile {
    let mut layouts: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
    let mut add = |name: &str, devices: Devices, division: AskedDivision| {
        let place = Place { line: 0, path: format!("generated layout {name}") };
        let entry = Entry { place, filter: Vec::new(), devices, division };
        layouts.entry(name.to_owned()).or_default().push(entry);
    };
    add("all-disabled", Devices::All, AskedDivision::Off);
    add("all-enabled", Devices::All, AskedDivision::On(Vec::new()));
    for Group { devices, one } in groups(gpus) {
        if let Some(balanced) = balanced(&one) {
            add("all-balanced", devices.clone(), AskedDivision::On(balanced));
        }
        for profile in &one.profiles {
            let Ok(name) = profile.name.parse::<ProfileName>() else { continue };
            let count =
                (1..=profile.max_instances.min(MOST)).rev().find(|count| fits(&one, &[(profile, *count)]));
            if let Some(count) = count {
                let layout = format!("all-{}", profile.name.replace('+', "."));
                add(&layout, devices.clone(), AskedDivision::On(vec![asked(name, count)]));
            }
        }
    }
    PartitionFile { layouts, mps: None, generated: true }
}

/// GPUs by what they can be divided into. Where only one kind tells, it is taken to hold for all that have MIG mode: older
/// drivers tell it in MIG mode only, and that a GPU does not is told when the layout is asked for.
fn groups(gpus: &[GpuFacts<'_>]) -> Vec<Group> {
    let mut kinds: Vec<(&GpuFacts<'_>, Vec<Target>)> = Vec::new();
    let telling = gpus.iter().filter(|gpu| gpu.division.mode.is_some() && !gpu.division.profiles.is_empty());
    for gpu in telling {
        let target = Target::Index(gpu.index);
        match kinds.iter_mut().find(|(one, _)| one.division.profiles == gpu.division.profiles) {
            Some((_, targets)) => targets.push(target),
            None => kinds.push((gpu, vec![target])),
        }
    }
    let is_only = kinds.len() == 1;
    let group = |(one, targets): (&GpuFacts<'_>, Vec<Target>)| Group {
        devices: if is_only { Devices::All } else { Devices::These(targets) },
        one: idle(one.division),
    };
    kinds.into_iter().map(group).collect()
}

/// Some small, one medium, one large: two 1g, one 2g and one 3g; on GPUs with fewer slices two 1g and one 2g.
fn balanced(one: &GpuDivision) -> Option<Vec<Asked>> {
    let (small, medium) = (plain(one, 1), plain(one, 2));
    let with_large =
        [small.map(|one| (one, 2)), medium.map(|one| (one, 1)), plain(one, 3).map(|one| (one, 1))];
    let [small, medium, _] = with_large;
    let candidates: [Vec<Option<(&Profile, u32)>>; 2] = [with_large.to_vec(), vec![small, medium]];
    let complete = candidates.into_iter().filter_map(|parts| parts.into_iter().collect::<Option<Vec<_>>>());
    let parts = complete.into_iter().find(|parts| fits(one, parts))?;
    let names = parts.iter().map(|(profile, count)| Some(asked(profile.name.parse().ok()?, *count)));
    names.collect()
}

/// The profile of this many slices without more than its share: no suffix, and of several the one with the least memory.
fn plain(one: &GpuDivision, slices: u32) -> Option<&Profile> {
    let is_plain = |profile: &&Profile| {
        let name = profile.name.parse::<ProfileName>();
        profile.slices == slices && name.is_ok_and(|name| name.suffix().is_empty())
    };
    one.profiles.iter().filter(is_plain).min_by_key(|profile| profile.memory_bytes)
}

fn fits(one: &GpuDivision, parts: &[(&Profile, u32)]) -> bool {
    let instances = parts.iter().map(|(profile, count)| {
        let computes = vec![names::compute_profile(profile, None)?.id];
        Some((0..*count).map(move |_| WantedInstance { profile: profile.id, computes: computes.clone() }))
    });
    let instances: Option<Vec<_>> = instances.collect();
    let wanted = instances.map(|instances| Wanted::On(instances.into_iter().flatten().collect()));
    wanted.is_some_and(|wanted| plan_gpu(one, &wanted).is_ok())
}

fn asked(name: ProfileName, count: u32) -> Asked {
    Asked { place: Place { line: 0, path: format!("generated layout of {name}") }, name, count }
}

/// The layout of this name, and its name. Of generated ones also the one for a profile whose name is near it, as profiles
/// are found: `all-1g.24gb` on a board where that is `1g.23gb`.
pub(crate) fn named<'a>(file: &'a PartitionFile, name: &'a str) -> Option<(&'a [Entry], &'a str)> {
    if let Some(entries) = file.layout(name) {
        return Some((entries, name));
    }
    let profile = |name: &str| name.strip_prefix("all-")?.parse::<ProfileName>().ok();
    let asked = profile(name).filter(|_| file.generated)?;
    let near = |own: &&String| profile(own).is_some_and(|own| is_near(&asked, &own));
    let mut found = file.layouts.keys().filter(near);
    let taken = found.next().filter(|_| found.next().is_none())?;
    Some((file.layouts.get(taken)?, taken))
}

#[cfg(test)]
mod tests;
