//! What can still be made on a GPU that is divided: the driver's rules, on plain data.

use crate::state::{CiProfileState, ComputeInstanceState, GiProfileState, GpuInstanceState, MigState};

/// A first unit, and a number of units.
pub(crate) type Place = (u32, u32);

/// Before this branch a `3g` and a `4g` did not go together, though there is room for both.
const THREE_AND_FOUR_SINCE: u32 = 510;

/// Units of memory in all: where the furthest placement ends.
pub(crate) fn units(mig: &MigState) -> u32 {
    let placements = mig.profiles.values().flat_map(|profile| &profile.placements);
    placements.map(|(start, size)| start + size).max().unwrap_or(0)
}

/// Most MIG devices at a time: as many as the smallest profile allows.
pub(crate) fn max_devices(mig: &MigState) -> u32 {
    mig.profiles.values().map(|profile| profile.max_instances).max().unwrap_or(0)
}

/// The number of a MIG device: where its first compute slice lies. So numbers have holes, as on a GPU from which
/// instances were destroyed.
pub(crate) fn device_number(
    mig: &MigState,
    instance: &GpuInstanceState,
    compute: &ComputeInstanceState,
) -> u32 {
    let units_per_device = units(mig) / max_devices(mig).max(1);
    instance.placement.0 / units_per_device.max(1) + compute.placement.0
}

/// A profile by the id that creation takes.
pub(crate) fn profile_by_id(mig: &MigState, id: u32) -> Option<(u32, &GiProfileState)> {
    mig.profiles
        .iter()
        .find(|(_, profile)| profile.id == id)
        .map(|(enumerator, profile)| (*enumerator, profile))
}

/// How many more of a profile can be made under a driver of this branch.
pub(crate) fn capacity(mig: &MigState, profile: &GiProfileState, branch: u32) -> u32 {
    let there: Vec<_> =
        mig.instances.iter().filter_map(|instance| mig.profiles.get(&instance.profile)).collect();
    if there.iter().any(|of| exclude_each_other(of, profile, branch)) {
        return 0;
    }
    // Of those with the media extensions there is one at a time, whatever its size.
    let alike = |of: &&&GiProfileState| if has_media(profile) { has_media(of) } else { of.id == profile.id };
    let limit = profile.max_instances.saturating_sub(there.iter().filter(alike).count() as u32);
    room(&profile.placements, taken(mig)).min(limit)
}

fn taken(mig: &MigState) -> Vec<Place> {
    mig.instances.iter().map(|instance| instance.placement).collect()
}

/// Where one of the profile can be made, as far as room goes.
fn free<'a>(mig: &'a MigState, profile: &'a GiProfileState) -> impl Iterator<Item = Place> + 'a {
    let is_free = |place: &&Place| mig.instances.iter().all(|there| !overlap(there.placement, **place));
    profile.placements.iter().filter(is_free).copied()
}

/// Where the driver makes one of the profile when it is not told where: not at the first place that is free, but where
/// fewest other places are lost by it. That is the rule behind the orders that NVIDIA's MIG user guide prints, and it has the
/// same traps: who asks for `1g, 1g, 2g, 3g` is left without room for the last.
pub(crate) fn default_place(mig: &MigState, profile: &GiProfileState) -> Option<Place> {
    let lost = |place: &Place| {
        let others = mig.profiles.values().flat_map(|other| free(mig, other));
        others.filter(|other| overlap(*other, *place)).count()
    };
    free(mig, profile).min_by_key(lost)
}

/// Whether a place that the caller names is free.
pub(crate) fn is_free(mig: &MigState, place: Place) -> bool {
    taken(mig).iter().all(|there| !overlap(*there, place))
}

/// How many more of a compute instance profile can be made in a GPU instance.
pub(crate) fn compute_capacity(instance: &GpuInstanceState, profile: &CiProfileState) -> u32 {
    room(&profile.placements, instance.compute.iter().map(|compute| compute.placement).collect())
}

/// Whether a place within a GPU instance is free.
pub(crate) fn is_compute_free(instance: &GpuInstanceState, place: Place) -> bool {
    instance.compute.iter().all(|there| !overlap(there.placement, place))
}

fn overlap(a: Place, b: Place) -> bool {
    a.0 < b.0 + b.1 && b.0 < a.0 + a.1
}

/// Whether a profile has media extensions (`+me`, `+me.all`).
fn has_media(profile: &GiProfileState) -> bool {
    profile.name.contains("+me")
}

/// Beside an instance with all media engines (`+me.all`) there can be such only as have none (`-me`).
fn exclude_each_other(one: &GiProfileState, other: &GiProfileState, branch: u32) -> bool {
    let takes_all = |of: &GiProfileState| of.name.ends_with("+me.all");
    let takes_none = |of: &GiProfileState| of.name.ends_with("-me");
    let three_and_four =
        branch < THREE_AND_FOUR_SINCE && matches!((one.slices, other.slices), (3, 4) | (4, 3));
    three_and_four || takes_all(one) && !takes_none(other) || takes_all(other) && !takes_none(one)
}

/// How many placements can be taken one after the other, from the first on.
fn room(places: &[Place], mut taken: Vec<Place>) -> u32 {
    let mut count = 0;
    for place in places {
        if !taken.iter().any(|other| overlap(*place, *other)) {
            taken.push(*place);
            count += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests;
