//! MIG profiles and placements: what could be made on this GPU.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{
    nvmlComputeInstancePlacement_t, nvmlComputeInstanceProfileInfo_t, nvmlComputeInstanceProfileInfo_v2_t,
    nvmlComputeInstanceProfileInfo_v3_t, nvmlGpuInstancePlacement_t, nvmlGpuInstanceProfileInfo_t,
    nvmlGpuInstanceProfileInfo_v2_t, nvmlGpuInstanceProfileInfo_v3_t,
};

use super::call::{Gpu, Node};
use super::code::{ARGUMENT_VERSION_MISMATCH, Answer, INVALID_ARGUMENT, NOT_SUPPORTED};
use super::mig::enabled;
use super::out::{Array, Out, chars, version_word};
use crate::state::{CiProfileState, GiProfileState, GpuInstanceState};

/// One past the last enumerator of compute instance profiles.
const COMPUTE_PROFILES: u32 = 9;

/// One past the last enumerator of GPU instance profiles that the driver knows (source: the toolkits' headers).
fn known_profiles(node: &Node) -> u32 {
    match node.driver_branch() {
        ..525 => 8,
        525..570 => 10,
        570..575 => 13,
        575..=580 => 17,
        _ => 18,
    }
}

/// Whether the driver lists profiles of a GPU that is not in MIG mode, which those up to 535 do not.
pub(super) fn are_told_with_mig_off(node: &Node) -> bool {
    node.driver_branch() > 535
}

/// A profile by its enumerator: `NOT_SUPPORTED` if this GPU lacks it, `INVALID_ARGUMENT` if the driver does not know it.
fn by_enumerator<'a>(gpu: &Gpu<'a>, profile: c_uint) -> Answer<&'a GiProfileState> {
    let mig = gpu.mig()?;
    if profile >= known_profiles(gpu.node) {
        return Err(INVALID_ARGUMENT);
    }
    if !mig.mode.0 && !are_told_with_mig_off(gpu.node) {
        return Err(NOT_SUPPORTED);
    }
    mig.profiles.get(&profile).ok_or(NOT_SUPPORTED)
}

/// A profile by the id that creation takes.
fn by_id<'a>(gpu: &Gpu<'a>, id: c_uint) -> Answer<&'a GiProfileState> {
    gpu.mig()?.profiles.values().find(|profile| profile.id == id).ok_or(INVALID_ARGUMENT)
}

pub(super) fn info(gpu: &Gpu<'_>, profile: c_uint, info: Out<nvmlGpuInstanceProfileInfo_t>) -> Answer {
    let of = by_enumerator(gpu, profile)?;
    let [copy, decoders, encoders, jpeg, ofa] = of.engines;
    info.set(nvmlGpuInstanceProfileInfo_t {
        id: of.id,
        isP2pSupported: of.p2p.into(),
        sliceCount: of.slices,
        instanceCount: of.max_instances,
        multiprocessorCount: of.multiprocessors,
        copyEngineCount: copy,
        decoderCount: decoders,
        encoderCount: encoders,
        jpegCount: jpeg,
        ofaCount: ofa,
        memorySizeMB: of.memory_mib,
    })
}

pub(super) fn info_v(gpu: &Gpu<'_>, profile: c_uint, info: Out<nvmlGpuInstanceProfileInfo_v2_t>) -> Answer {
    versioned(by_enumerator(gpu, profile)?, &info)
}

pub(super) fn info_by_id(gpu: &Gpu<'_>, id: c_uint, info: Out<nvmlGpuInstanceProfileInfo_v2_t>) -> Answer {
    versioned(by_id(gpu, id)?, &info)
}

fn versioned(of: &GiProfileState, info: &Out<nvmlGpuInstanceProfileInfo_v2_t>) -> Answer {
    let version = info.version()?;
    let [copy, decoders, encoders, jpeg, ofa] = of.engines;
    let name = chars(&format!("MIG {}", of.name));
    if version == version_word::<nvmlGpuInstanceProfileInfo_v2_t>(2) {
        return info.set(nvmlGpuInstanceProfileInfo_v2_t {
            version,
            id: of.id,
            isP2pSupported: of.p2p.into(),
            sliceCount: of.slices,
            instanceCount: of.max_instances,
            multiprocessorCount: of.multiprocessors,
            copyEngineCount: copy,
            decoderCount: decoders,
            encoderCount: encoders,
            jpegCount: jpeg,
            ofaCount: ofa,
            memorySizeMB: of.memory_mib,
            name,
        });
    }
    if version != version_word::<nvmlGpuInstanceProfileInfo_v3_t>(3) {
        return Err(ARGUMENT_VERSION_MISMATCH);
    }
    info.cast().set(nvmlGpuInstanceProfileInfo_v3_t {
        version,
        id: of.id,
        sliceCount: of.slices,
        instanceCount: of.max_instances,
        multiprocessorCount: of.multiprocessors,
        copyEngineCount: copy,
        decoderCount: decoders,
        encoderCount: encoders,
        jpegCount: jpeg,
        ofaCount: ofa,
        memorySizeMB: of.memory_mib,
        name,
        // Peer-to-peer is 1, graphics is 2.
        capabilities: u32::from(of.p2p) | if of.name.ends_with("+gfx") { 2 } else { 0 },
    })
}

/// Every place where the profile fits on an empty GPU. Without an array: how many there are.
pub(super) fn placements(
    gpu: &Gpu<'_>,
    profile_id: c_uint,
    placements: Array<nvmlGpuInstancePlacement_t>,
    count: Out<c_uint>,
) -> Answer {
    gpu.node.require_permission()?;
    let places = &by_id(gpu, profile_id)?.placements;
    if placements.is_null() {
        return count.set(places.len() as c_uint);
    }
    let place = |(start, size): &(u32, u32)| nvmlGpuInstancePlacement_t { start: *start, size: *size };
    placements.list(&count, &places.iter().map(place).collect::<Vec<_>>())
}

/// How many more of the profile could be made now.
pub(super) fn capacity(gpu: &Gpu<'_>, profile_id: c_uint, count: Out<c_uint>) -> Answer {
    gpu.node.require_permission()?;
    let mig = enabled(gpu)?;
    let profile = by_id(gpu, profile_id)?;
    let taken: Vec<_> = mig.instances.iter().map(|instance| instance.placement).collect();
    let there: Vec<_> =
        mig.instances.iter().filter_map(|instance| mig.profiles.get(&instance.profile)).collect();
    if there.iter().any(|of| exclude_each_other(of, profile)) {
        return count.set(0);
    }
    // Of those with the media extensions there is one at a time, whatever its size.
    let alike = |of: &&&GiProfileState| if has_media(profile) { has_media(of) } else { of.id == profile.id };
    let limit = profile.max_instances.saturating_sub(there.iter().filter(alike).count() as u32);
    count.set(room(&profile.placements, taken).min(limit))
}

/// Whether a profile has media extensions (`+me`, `+me.all`).
fn has_media(profile: &GiProfileState) -> bool {
    profile.name.contains("+me")
}

/// Beside an instance with all media engines (`+me.all`) there can be such only as have none (`-me`).
fn exclude_each_other(one: &GiProfileState, other: &GiProfileState) -> bool {
    let takes_all = |of: &GiProfileState| of.name.ends_with("+me.all");
    let takes_none = |of: &GiProfileState| of.name.ends_with("-me");
    takes_all(one) && !takes_none(other) || takes_all(other) && !takes_none(one)
}

/// How many placements can be taken one after the other, from the first on.
fn room(places: &[(u32, u32)], mut taken: Vec<(u32, u32)>) -> u32 {
    let mut count = 0;
    for place in places {
        let overlaps = |other: &(u32, u32)| place.0 < other.0 + other.1 && other.0 < place.0 + place.1;
        if !taken.iter().any(overlaps) {
            taken.push(*place);
            count += 1;
        }
    }
    count
}

fn compute_by_enumerator<'a>(
    gpu: &Gpu<'a>,
    gi: &GpuInstanceState,
    profile: c_uint,
    engine: c_uint,
) -> Answer<(&'a GiProfileState, &'a CiProfileState)> {
    // Shared engines (0) are the only kind.
    if profile >= COMPUTE_PROFILES || engine != 0 {
        return Err(INVALID_ARGUMENT);
    }
    let of = gpu.profile(gi)?;
    of.compute.get(&profile).map(|compute| (of, compute)).ok_or(NOT_SUPPORTED)
}

fn compute_by_id<'a>(gpu: &Gpu<'a>, gi: &GpuInstanceState, id: c_uint) -> Answer<&'a CiProfileState> {
    gpu.profile(gi)?.compute.values().find(|profile| profile.id == id).ok_or(INVALID_ARGUMENT)
}

pub(super) fn compute_info(
    gpu: &Gpu<'_>,
    gi: &GpuInstanceState,
    profile: c_uint,
    engine: c_uint,
    info: Out<nvmlComputeInstanceProfileInfo_t>,
) -> Answer {
    let (of, compute) = compute_by_enumerator(gpu, gi, profile, engine)?;
    let [copy, decoders, encoders, jpeg, ofa] = of.engines;
    info.set(nvmlComputeInstanceProfileInfo_t {
        id: compute.id,
        sliceCount: compute.slices,
        instanceCount: compute.max_instances,
        multiprocessorCount: compute.multiprocessors,
        sharedCopyEngineCount: copy,
        sharedDecoderCount: decoders,
        sharedEncoderCount: encoders,
        sharedJpegCount: jpeg,
        sharedOfaCount: ofa,
    })
}

pub(super) fn compute_info_v(
    gpu: &Gpu<'_>,
    gi: &GpuInstanceState,
    profile: c_uint,
    engine: c_uint,
    info: Out<nvmlComputeInstanceProfileInfo_v2_t>,
) -> Answer {
    let (of, compute) = compute_by_enumerator(gpu, gi, profile, engine)?;
    let version = info.version()?;
    let [copy, decoders, encoders, jpeg, ofa] = of.engines;
    let name = chars(&format!("MIG {}", compute.name));
    if version == version_word::<nvmlComputeInstanceProfileInfo_v2_t>(2) {
        return info.set(nvmlComputeInstanceProfileInfo_v2_t {
            version,
            id: compute.id,
            sliceCount: compute.slices,
            instanceCount: compute.max_instances,
            multiprocessorCount: compute.multiprocessors,
            sharedCopyEngineCount: copy,
            sharedDecoderCount: decoders,
            sharedEncoderCount: encoders,
            sharedJpegCount: jpeg,
            sharedOfaCount: ofa,
            name,
        });
    }
    if version != version_word::<nvmlComputeInstanceProfileInfo_v3_t>(3) {
        return Err(ARGUMENT_VERSION_MISMATCH);
    }
    info.cast().set(nvmlComputeInstanceProfileInfo_v3_t {
        version,
        id: compute.id,
        sliceCount: compute.slices,
        instanceCount: compute.max_instances,
        multiprocessorCount: compute.multiprocessors,
        sharedCopyEngineCount: copy,
        sharedDecoderCount: decoders,
        sharedEncoderCount: encoders,
        sharedJpegCount: jpeg,
        sharedOfaCount: ofa,
        name,
        capabilities: 0,
    })
}

pub(super) fn compute_placements(
    gpu: &Gpu<'_>,
    gi: &GpuInstanceState,
    profile_id: c_uint,
    placements: Array<nvmlComputeInstancePlacement_t>,
    count: Out<c_uint>,
) -> Answer {
    gpu.node.require_permission()?;
    let places = &compute_by_id(gpu, gi, profile_id)?.placements;
    if placements.is_null() {
        return count.set(places.len() as c_uint);
    }
    let place = |(start, size): &(u32, u32)| nvmlComputeInstancePlacement_t { start: *start, size: *size };
    placements.list(&count, &places.iter().map(place).collect::<Vec<_>>())
}

pub(super) fn compute_capacity(
    gpu: &Gpu<'_>,
    gi: &GpuInstanceState,
    profile_id: c_uint,
    count: Out<c_uint>,
) -> Answer {
    gpu.node.require_permission()?;
    let profile = compute_by_id(gpu, gi, profile_id)?;
    count.set(room(&profile.placements, gi.compute.iter().map(|compute| compute.placement).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_media_engines_exclude_whatever_has_one() {
        let named = |name: &str| GiProfileState {
            id: 0,
            name: name.to_owned(),
            slices: 1,
            max_instances: 1,
            memory_mib: 1,
            multiprocessors: 1,
            engines: [0; 5],
            p2p: false,
            placements: vec![],
            compute: std::collections::BTreeMap::new(),
        };
        let excludes = |one: &str, other: &str| exclude_each_other(&named(one), &named(other));
        assert!(excludes("1g.24gb+me.all", "1g.24gb") && excludes("1g.24gb", "1g.24gb+me.all"));
        assert!(excludes("1g.24gb+me.all", "2g.48gb+gfx") && excludes("2g.48gb+me.all", "1g.24gb+me"));
        assert!(!excludes("1g.24gb+me.all", "1g.24gb-me") && !excludes("1g.24gb-me", "1g.24gb+me.all"));
        assert!(!excludes("1g.24gb+me", "1g.24gb"));
    }

    #[test]
    fn room_is_what_does_not_overlap() {
        let places = [(0, 4), (4, 4)];
        assert_eq!(room(&places, vec![]), 2);
        assert_eq!(room(&places, vec![(3, 1)]), 1);
        assert_eq!(room(&places, vec![(3, 2)]), 0);
    }
}
