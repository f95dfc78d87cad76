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
use crate::division;
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
    division::profile_by_id(gpu.mig()?, id).map(|(_, profile)| profile).ok_or(INVALID_ARGUMENT)
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
    count.set(division::capacity(mig, by_id(gpu, profile_id)?, gpu.node.driver_branch()))
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
    count.set(division::compute_capacity(gi, profile))
}
