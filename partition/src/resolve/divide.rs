//! What is asked of one GPU in the profiles that it has, and whether it fits.

use crate::desired::{Wanted, WantedInstance};
use crate::file::{Asked, AskedDivision, Entry};
use crate::names::{self, NoMatch, ProfileName};
use crate::observed::{ComputeProfile, GpuDivision, Profile};
use crate::plan::plan_gpu;
use crate::refusal::{Refusal, listed};

use super::problem::Cause;
use super::warning::Warning;
use super::{Findings, GpuFacts};

/// A line of what is asked, with the profiles that it means.
struct Part<'a> {
    asked: &'a Asked,
    profile: &'a Profile,
    compute: &'a ComputeProfile,
}

/// What is wanted of this GPU by this entry; absent where it cannot be had, which is noted.
pub(super) fn divide(gpu: &GpuFacts<'_>, entry: &Entry, found: &mut Findings) -> Option<Wanted> {
    let AskedDivision::On(asked) = &entry.division else { return Some(Wanted::Off) };
    if gpu.division.mode.is_none() {
        found.wrong(&entry.place, Some(gpu), Cause::NotMigCapable);
        return None;
    }
    if asked.is_empty() {
        found.warn(Warning::Empty { gpus: vec![gpu.name()] });
        return Some(Wanted::On(Vec::new()));
    }
    if gpu.division.profiles.is_empty() {
        found.wrong(&entry.place, Some(gpu), Cause::NoProfiles);
        return None;
    }
    let parts: Vec<Part<'_>> = asked.iter().filter_map(|asked| part(gpu, asked, found)).collect();
    if parts.len() < asked.len() {
        return None;
    }
    let idle = idle(gpu.division);
    let instances = pack(&idle, &parts);
    let checked = distinct(&parts).and_then(|()| media(&parts)).and_then(|()| {
        fits(&idle, &parts, &instances)?;
        old_driver(gpu, &instances).map_or(Ok(()), |cause| Err((None, cause)))
    });
    match checked {
        Ok(()) => Some(Wanted::On(instances)),
        Err((asked, cause)) => {
            found.wrong(asked.map_or(&entry.place, |asked| &asked.place), Some(gpu), cause);
            None
        }
    }
}

/// The profiles that a line means.
fn part<'a>(gpu: &GpuFacts<'a>, asked: &'a Asked, found: &mut Findings) -> Option<Part<'a>> {
    let offered = &gpu.division.profiles;
    let names = || offered.iter().map(|profile| profile.name.clone()).collect();
    let meant = match names::matching(&asked.name, offered) {
        Ok(meant) => meant,
        Err(no_match) => {
            let asked_name = asked.name.clone();
            let cause = match no_match {
                NoMatch::Ambiguous(candidates) => Cause::AmbiguousProfile { asked: asked_name, candidates },
                NoMatch::Unknown => {
                    let hint = too_old_for(&asked.name, gpu);
                    Cause::UnknownProfile { asked: asked_name, known: names(), hint }
                }
            };
            found.wrong(&asked.place, Some(gpu), cause);
            return None;
        }
    };
    let profile = meant.profile;
    if !meant.exact {
        let (asked, taken) = (asked.name.instance(), profile.name.clone());
        found.warn(Warning::NearProfile { asked, taken, gpus: vec![gpu.name()] });
    }
    let whole = asked.name.computes.filter(|computes| *computes != asked.name.slices);
    let Some(compute) = names::compute_profile(profile, whole) else {
        let known = profile.compute_profiles.iter().map(|own| own.name.clone()).collect();
        let instance = profile.name.clone();
        found.wrong(&asked.place, Some(gpu), Cause::UnknownComputeProfile { instance, known });
        return None;
    };
    Some(Part { asked, profile, compute })
}

/// The same GPU while no one uses it and it is in MIG mode: whether something fits does not depend on who is there.
pub(crate) fn idle(division: &GpuDivision) -> GpuDivision {
    let mut idle = division.clone();
    idle.holders.clear();
    if let Some(mode) = &mut idle.mode {
        (mode.current, mode.pending) = (true, true);
    }
    for instance in &mut idle.instances {
        instance.holders.clear();
        instance.computes.iter_mut().for_each(|compute| compute.holders.clear());
    }
    idle
}

/// A line (absent: all of it) and what is wrong with it.
type Checked<'a> = Result<(), (Option<&'a Asked>, Cause)>;

/// No two lines mean the same: which of them is to hold could not be told.
fn distinct<'a>(parts: &[Part<'a>]) -> Checked<'a> {
    for (at, part) in parts.iter().enumerate() {
        let is_same =
            |other: &&Part<'_>| (other.profile.id, other.compute.id) == (part.profile.id, part.compute.id);
        if let Some(other) = parts.iter().take(at).find(is_same) {
            let (asked, other) = (part.asked.name.clone(), other.asked.name.clone());
            let profile = part.name();
            return Err((Some(part.asked), Cause::SameProfile { asked, other, profile }));
        }
    }
    Ok(())
}

/// The media extensions are had by one instance; where it has all of them, others have none at all.
fn media<'a>(parts: &[Part<'a>]) -> Checked<'a> {
    let suffixed = |suffixes: &[&str]| -> u32 {
        let alike = parts.iter().filter(|part| suffixes.contains(&part.asked.name.suffix()));
        alike.filter(|part| part.is_whole()).map(|part| part.asked.count).sum()
    };
    let with_any = suffixed(&["+me", "+me.all"]);
    let has_all = suffixed(&["+me.all"]) > 0;
    let others = parts.iter().any(|part| !["+me.all", "-me"].contains(&part.asked.name.suffix()));
    if with_any > 1 || (has_all && others) {
        return Err((None, Cause::MediaExtensions { wanted: told(parts) }));
    }
    Ok(())
}

/// All of it fits together, as the planner tells it.
fn fits<'a>(idle: &GpuDivision, parts: &[Part<'a>], instances: &[WantedInstance]) -> Checked<'a> {
    match plan_gpu(idle, &Wanted::On(instances.to_vec())) {
        Ok(_) => Ok(()),
        Err(Refusal::TooMany { name, wanted, most, .. }) => {
            let part = parts.iter().find(|part| part.profile.name == name);
            Err((part.map(|part| part.asked), Cause::TooMany { profile: name, wanted, most }))
        }
        Err(_) => Err((None, Cause::Infeasible { wanted: told(parts), fits: what_fits(idle, instances) })),
    }
}

/// More instances than any GPU can have.
const MOST: usize = 64;

/// As much as fits of these instances, the largest first.
fn what_fits(idle: &GpuDivision, instances: &[WantedInstance]) -> String {
    let size = |instance: &WantedInstance| {
        idle.profile(instance.profile).map(|profile| (profile.multiprocessors, profile.memory_bytes))
    };
    let mut sorted: Vec<&WantedInstance> = instances.iter().take(MOST).collect();
    sorted.sort_by_key(|instance| std::cmp::Reverse(size(instance)));
    let mut fitting: Vec<WantedInstance> = Vec::new();
    for instance in sorted {
        fitting.push(instance.clone());
        if plan_gpu(idle, &Wanted::On(fitting.clone())).is_err() {
            fitting.pop();
        }
    }
    let mut counted: Vec<(String, u32)> = Vec::new();
    for instance in &fitting {
        let name = idle.profile_name(instance.profile);
        match counted.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counted.push((name, 1)),
        }
    }
    match counted.as_slice() {
        [] => "nothing".to_owned(),
        some => listed(some.iter().map(|(name, count)| format!("{count} {name}"))),
    }
}

/// The GPU instances that are wanted. Compute instances that are smaller than theirs share as few as possible.
fn pack(idle: &GpuDivision, parts: &[Part<'_>]) -> Vec<WantedInstance> {
    let mut instances: Vec<WantedInstance> = Vec::new();
    let mut shared: Vec<&Part<'_>> = Vec::new();
    for part in parts {
        if part.is_whole() {
            let one = WantedInstance { profile: part.profile.id, computes: vec![part.compute.id] };
            instances.extend((0..part.asked.count).map(|_| one.clone()));
        } else {
            shared.push(part);
        }
    }
    shared.sort_by_key(|part| (part.profile.id, std::cmp::Reverse(part.compute.slices)));
    let mut bins: Vec<WantedInstance> = Vec::new();
    for part in shared.iter().flat_map(|part| (0..part.asked.count).map(move |_| part)) {
        let id = part.compute.id;
        match bins.iter_mut().find(|bin| bin.profile == part.profile.id && has_room(idle, part, bin)) {
            Some(bin) => bin.computes.push(id),
            None => bins.push(WantedInstance { profile: part.profile.id, computes: vec![id] }),
        }
    }
    instances.extend(bins);
    instances
}

/// Whether another compute instance fits into a GPU instance.
fn has_room(idle: &GpuDivision, part: &Part<'_>, bin: &WantedInstance) -> bool {
    let size = |id: &u32| {
        let own = part.profile.compute_profiles.iter().find(|own| own.id == *id);
        own.map_or(0, |own| own.slices)
    };
    let taken: u32 = bin.computes.iter().map(size).sum();
    if taken + part.compute.slices > part.profile.slices {
        return false;
    }
    let mut with = bin.clone();
    with.computes.push(part.compute.id);
    plan_gpu(idle, &Wanted::On(vec![with])).is_ok()
}

impl Part<'_> {
    /// It is a GPU instance with one compute instance that takes all of it.
    fn is_whole(&self) -> bool {
        names::compute_profile(self.profile, None).is_some_and(|whole| whole.id == self.compute.id)
    }

    fn name(&self) -> String {
        if self.is_whole() { self.profile.name.clone() } else { self.compute.name.clone() }
    }
}

fn told(parts: &[Part<'_>]) -> String {
    listed(parts.iter().map(|part| format!("{} {}", part.asked.count, part.name())))
}

/// What the driver is too old for though it tells nothing of it.
fn old_driver(gpu: &GpuFacts<'_>, instances: &[WantedInstance]) -> Option<Cause> {
    let has = |slices: u32| {
        let profiles = instances.iter().filter_map(|instance| gpu.division.profile(instance.profile));
        profiles.into_iter().any(|profile| profile.slices == slices)
    };
    let needs = "a 4g beside a 3g takes R510 or newer";
    let is_too_old = release(gpu.driver)? < 510 && has(4) && has(3);
    is_too_old.then(|| Cause::DriverTooOld { driver: gpu.driver.to_owned(), needs })
}

/// Since when a profile is there that this driver does not tell of (source: NVIDIA's MIG user guide).
fn too_old_for(asked: &ProfileName, gpu: &GpuFacts<'_>) -> Option<&'static str> {
    let release = release(gpu.driver)?;
    let names = gpu.division.profiles.iter().filter_map(|profile| profile.name.parse::<ProfileName>().ok());
    let mut plain = names.filter(|name| name.slices == 1 && name.suffix().is_empty());
    let is_double = asked.slices == 1
        && asked.suffix().is_empty()
        && plain.any(|plain| (plain.gigabytes * 2).abs_diff(asked.gigabytes) <= 1);
    match (asked.slices, asked.suffix()) {
        (1, "+me") if release < 470 => Some("1g with +me takes driver R470 or newer"),
        (2, "+me") if release < 525 => Some("2g with +me takes driver R525 or newer"),
        _ if is_double && release < 525 => Some("1g with double memory takes driver R525 or newer"),
        _ => None,
    }
}

/// The release of a driver: 535 of `535.104.05`.
fn release(driver: &str) -> Option<u32> {
    driver.split('.').next()?.trim().parse().ok()
}
