//! MIG of a board and of a GPU, from their descriptions.

use std::collections::BTreeMap;

use super::board::{Board, Mig, Profile};
use super::description::{InstanceDescription, MigDescription};
use super::problem::{Fault, Problem};
use super::units::DriverVersion;
use crate::state::{CiProfileState, GiProfileState};

/// Numbers of slices that a compute instance can have, with `NVML_COMPUTE_INSTANCE_PROFILE_*`.
const COMPUTE_PROFILES: [(u32, u32); 5] = [(1, 0), (2, 1), (3, 2), (4, 3), (7, 4)];

/// Profiles of a board as one driver shows them, by enumerator.
pub(crate) fn profiles(mig: &Mig, driver: &DriverVersion) -> BTreeMap<u32, GiProfileState> {
    let known = mig.profiles.iter().filter(|profile| driver.at_least(&[profile.since_driver]));
    known.map(|profile| (profile.enumerator, profile_state(mig, profile))).collect()
}

fn profile_state(mig: &Mig, profile: &Profile) -> GiProfileState {
    GiProfileState {
        id: profile.id,
        name: profile.name.clone(),
        slices: profile.slices,
        max_instances: profile.max,
        memory_mib: profile.memory.mib(),
        multiprocessors: profile.multiprocessors,
        engines: profile.engines,
        p2p: false,
        placements: profile.starts.iter().map(|start| (*start, profile.size)).collect(),
        compute: compute_profiles(mig, profile),
    }
}

/// Compute instance profiles of a GPU instance profile. None is published per board; the rule gives what the
/// driver lists for the known ones: the whole instance, and every size of which the rest is no smaller by more
/// than one slice.
pub(crate) fn compute_profiles(mig: &Mig, profile: &Profile) -> BTreeMap<u32, CiProfileState> {
    let whole = profile.slices;
    let slice = mig.profiles.iter().filter(|p| p.slices == 1).map(|p| p.multiprocessors).min().unwrap_or(0);
    let fits = |slices: u32| slices == whole || (slices < whole && 2 * slices <= whole + 1);
    COMPUTE_PROFILES
        .iter()
        .filter(|(slices, _)| fits(*slices))
        .map(|(slices, enumerator)| {
            let step = if *slices == 3 { 4 } else { *slices };
            let starts =
                (0..).step_by(usize::try_from(step).unwrap_or(1)).take_while(|start| start + slices <= whole);
            let placements: Vec<_> = starts.map(|start| (start, *slices)).collect();
            let state = CiProfileState {
                id: *enumerator,
                name: compute_name(*slices, profile),
                slices: *slices,
                max_instances: u32::try_from(placements.len()).unwrap_or(0),
                multiprocessors: match *slices == whole {
                    true => profile.multiprocessors,
                    false => profile.multiprocessors.min(slice.saturating_mul(*slices)),
                },
                placements,
            };
            (*enumerator, state)
        })
        .collect()
}

fn compute_name(slices: u32, profile: &Profile) -> String {
    if slices == profile.slices { profile.name.clone() } else { format!("{slices}c.{}", profile.name) }
}

/// What is wrong with the instances of a GPU.
pub(super) fn problems(
    board: &Board,
    board_name: &str,
    wanted: &MigDescription,
    place: &str,
) -> Vec<Problem> {
    let Some(mig) = &board.mig else {
        let fault = Fault::NoMig { board: board_name.to_owned() };
        return vec![Problem { place: format!("{place}.mig"), fault }];
    };
    let mut problems = Vec::new();
    let mut placed: Vec<(&Profile, &InstanceDescription, String)> = Vec::new();
    for (index, instance) in wanted.instances.iter().enumerate() {
        let place = format!("{place}.mig.instances[{index}]");
        let Some(profile) = mig.profiles.iter().find(|profile| profile.name == instance.profile) else {
            let known =
                mig.profiles.iter().map(|profile| profile.name.as_str()).collect::<Vec<_>>().join(", ");
            let (board, profile) = (board_name.to_owned(), instance.profile.clone());
            problems.push(Problem { place, fault: Fault::UnknownProfile { board, profile, known } });
            continue;
        };
        let mut faults = instance_faults(mig, profile, instance);
        faults.extend(
            placed.iter().filter_map(|(other, at, place)| conflict(profile, instance, other, at, place)),
        );
        problems.extend(faults.into_iter().map(|fault| Problem { place: place.clone(), fault }));
        placed.push((profile, instance, place));
    }
    for profile in &mig.profiles {
        let count = placed.iter().filter(|(other, ..)| other.id == profile.id).count();
        if u32::try_from(count).is_ok_and(|count| count > profile.max) {
            let fault = Fault::TooManyInstances { profile: profile.name.clone(), count, max: profile.max };
            problems.push(Problem { place: format!("{place}.mig.instances"), fault });
        }
    }
    problems
}

fn instance_faults(mig: &Mig, profile: &Profile, instance: &InstanceDescription) -> Vec<Fault> {
    let mut faults = Vec::new();
    if !profile.starts.contains(&instance.start) {
        let starts = profile.starts.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        faults.push(Fault::Placement { profile: profile.name.clone(), start: instance.start, starts });
    }
    let slices = instance.compute.clone().unwrap_or_else(|| vec![profile.slices]);
    if place_compute(mig, profile, &slices).is_none() {
        let known = compute_profiles(mig, profile)
            .values()
            .map(|p| p.slices.to_string())
            .collect::<Vec<_>>()
            .join(", ");
        faults.push(Fault::ComputeInstances { slices, profile: profile.name.clone(), known });
    }
    faults
}

/// A compute instance in its place: enumerator of its profile, first slice and size.
pub(crate) type PlacedCompute = (u32, (u32, u32));

/// Finds places for compute instances of these sizes, the largest first, since it has the fewest. `None` if one
/// does not fit. The order of the answer is that of the sizes.
pub(crate) fn place_compute(mig: &Mig, profile: &Profile, sizes: &[u32]) -> Option<Vec<PlacedCompute>> {
    let offered = compute_profiles(mig, profile);
    let mut order: Vec<(usize, u32)> = sizes.iter().copied().enumerate().collect();
    order.sort_by_key(|(index, size)| (std::cmp::Reverse(*size), *index));
    let mut placed: BTreeMap<usize, PlacedCompute> = BTreeMap::new();
    for (index, size) in order {
        let (enumerator, compute) = offered.iter().find(|(_, compute)| compute.slices == size)?;
        let free = |at: &&(u32, u32)| placed.values().all(|(_, taken)| apart(**at, *taken));
        let at = *compute.placements.iter().find(free)?;
        placed.insert(index, (*enumerator, at));
    }
    Some(placed.into_values().collect())
}

fn apart(a: (u32, u32), b: (u32, u32)) -> bool {
    a.0 + a.1 <= b.0 || b.0 + b.1 <= a.0
}

fn conflict(
    profile: &Profile,
    instance: &InstanceDescription,
    other: &Profile,
    other_instance: &InstanceDescription,
    other_place: &str,
) -> Option<Fault> {
    let (start, end) = (u64::from(instance.start), u64::from(instance.start) + u64::from(profile.size));
    let (other_start, other_end) =
        (u64::from(other_instance.start), u64::from(other_instance.start) + u64::from(other.size));
    if start < other_end && other_start < end {
        let (profile, other) = (profile.name.clone(), other_place.to_owned());
        return Some(Fault::OverlappingInstances { profile, start: instance.start, other });
    }
    if excludes(profile, other) || excludes(other, profile) {
        return Some(Fault::MediaEngines { profile: profile.name.clone(), other: other.name.clone() });
    }
    None
}

/// One instance of a GPU can have the media extensions; where it has all media engines, the others have none.
fn excludes(profile: &Profile, other: &Profile) -> bool {
    if profile.name.ends_with("+me.all") {
        return !other.name.ends_with("-me");
    }
    profile.name.ends_with("+me") && other.name.ends_with("+me")
}
