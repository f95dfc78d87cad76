//! MIG: mode, instances, devices. Profiles are in `mig_profiles`.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{
    nvmlComputeInstance_t, nvmlComputeInstanceInfo_t, nvmlComputeInstancePlacement_t, nvmlDevice_t,
    nvmlDeviceAttributes_t, nvmlGpuInstance_t, nvmlGpuInstanceInfo_t, nvmlGpuInstancePlacement_t,
};

use super::call::{Gpu, MigDevice};
use super::code::{Answer, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED};
use super::handle::{Handle, Object};
use super::out::{Array, Out};
use crate::division;
use crate::state::{ComputeInstanceState, GpuInstanceState, MigState};

pub(super) fn mode(gpu: &Gpu<'_>, current: Out<c_uint>, pending: Out<c_uint>) -> Answer {
    let (now, next) = gpu.mig()?.mode;
    current.set(now.into())?;
    pending.set(next.into())
}

/// MIG must be on for all that concerns instances.
pub(super) fn enabled<'a>(gpu: &Gpu<'a>) -> Answer<&'a MigState> {
    let mig = gpu.mig()?;
    if mig.mode.0 { Ok(mig) } else { Err(NOT_SUPPORTED) }
}

/// Most MIG devices at a time. 0 while MIG is off or not possible.
fn max_devices(gpu: &Gpu<'_>) -> u32 {
    enabled(gpu).map_or(0, division::max_devices)
}

pub(super) fn max_device_count(gpu: &Gpu<'_>, count: Out<c_uint>) -> Answer {
    count.set(max_devices(gpu))
}

/// The number of a MIG device.
pub(super) fn device_index(
    gpu: &Gpu<'_>,
    instance: &GpuInstanceState,
    compute: &ComputeInstanceState,
) -> Answer<u32> {
    Ok(division::device_number(enabled(gpu)?, instance, compute))
}

pub(super) fn device_by_index(gpu: &Gpu<'_>, index: c_uint, device: Out<nvmlDevice_t>) -> Answer {
    let mig = enabled(gpu)?;
    if index >= max_devices(gpu) {
        return Err(INVALID_ARGUMENT);
    }
    let mut computes = mig.instances.iter().flat_map(|gi| gi.compute.iter().map(move |ci| (gi, ci)));
    let found = computes.find(|(gi, ci)| device_index(gpu, gi, ci) == Ok(index));
    let (gi, ci) = found.ok_or(NOT_FOUND)?;
    device.set(gpu.node.handle(Object::MigDevice(gpu.index, gi.id, ci.id)).pointer())
}

/// A question about a handle needs an answer for both kinds.
pub(super) fn is_device(gpu: &Gpu<'_>, is: Out<c_uint>) -> Answer {
    is.set(gpu.device.is_some().into())
}

fn device<'a>(gpu: &Gpu<'a>) -> Answer<MigDevice<'a>> {
    gpu.device.ok_or(NOT_SUPPORTED)
}

pub(super) fn gpu_instance_id(gpu: &Gpu<'_>, id: Out<c_uint>) -> Answer {
    id.set(device(gpu)?.instance.id)
}

pub(super) fn compute_instance_id(gpu: &Gpu<'_>, id: Out<c_uint>) -> Answer {
    id.set(device(gpu)?.compute.id)
}

pub(super) fn parent(gpu: &Gpu<'_>, parent: Out<nvmlDevice_t>) -> Answer {
    device(gpu).map_err(|_| INVALID_ARGUMENT)?;
    parent.set(gpu.node.handle(Object::Gpu(gpu.index)).pointer())
}

pub(super) fn attributes(gpu: &Gpu<'_>, attributes: Out<nvmlDeviceAttributes_t>) -> Answer {
    let MigDevice { profile, compute, .. } = device(gpu)?;
    let of_compute = profile.compute.get(&compute.profile).ok_or(super::code::UNKNOWN)?;
    let [copy, decoders, encoders, jpeg, ofa] = profile.engines;
    attributes.set(nvmlDeviceAttributes_t {
        multiprocessorCount: of_compute.multiprocessors,
        sharedCopyEngineCount: copy,
        sharedDecoderCount: decoders,
        sharedEncoderCount: encoders,
        sharedJpegCount: jpeg,
        sharedOfaCount: ofa,
        gpuInstanceSliceCount: profile.slices,
        computeInstanceSliceCount: of_compute.slices,
        memorySizeMB: profile.memory_mib,
    })
}

/// The GPU instances of a profile. The caller has room for as many as the profile allows.
pub(super) fn instances(
    gpu: &Gpu<'_>,
    profile_id: c_uint,
    handles: Array<nvmlGpuInstance_t>,
    count: Out<c_uint>,
) -> Answer {
    gpu.node.require_permission()?;
    let mig = enabled(gpu)?;
    let profile =
        mig.profiles.iter().find(|(_, profile)| profile.id == profile_id).ok_or(INVALID_ARGUMENT)?.0;
    let of_profile = mig.instances.iter().filter(|instance| instance.profile == *profile);
    let found: Vec<_> = of_profile.map(|instance| instance_handle(gpu, instance.id)).collect();
    handles.fill(&found)?;
    count.set(found.len() as c_uint)
}

pub(super) fn instance_handle(gpu: &Gpu<'_>, id: u32) -> nvmlGpuInstance_t {
    gpu.node.handle(Object::GpuInstance(gpu.index, id)).pointer()
}

pub(super) fn instance_by_id(gpu: &Gpu<'_>, id: c_uint, handle: Out<nvmlGpuInstance_t>) -> Answer {
    gpu.node.require_permission()?;
    let mig = enabled(gpu)?;
    let found = mig.instances.iter().find(|instance| instance.id == id).ok_or(NOT_FOUND)?;
    handle.set(instance_handle(gpu, found.id))
}

pub(super) fn instance_info(
    gpu: &Gpu<'_>,
    gi: &GpuInstanceState,
    info: Out<nvmlGpuInstanceInfo_t>,
) -> Answer {
    let (start, size) = gi.placement;
    info.set(nvmlGpuInstanceInfo_t {
        device: gpu.node.handle(Object::Gpu(gpu.index)).pointer(),
        id: gi.id,
        profileId: gpu.profile(gi)?.id,
        placement: nvmlGpuInstancePlacement_t { start, size },
    })
}

/// The compute instances of a profile. The caller has room for as many as the profile allows.
pub(super) fn compute_instances(
    gpu: &Gpu<'_>,
    gi: &GpuInstanceState,
    profile_id: c_uint,
    handles: Array<nvmlComputeInstance_t>,
    count: Out<c_uint>,
) -> Answer {
    gpu.node.require_permission()?;
    let mut profiles = gpu.profile(gi)?.compute.iter();
    let profile = profiles.find(|(_, profile)| profile.id == profile_id).ok_or(INVALID_ARGUMENT)?.0;
    let of_profile = gi.compute.iter().filter(|compute| compute.profile == *profile);
    let found: Vec<_> = of_profile.map(|compute| compute_handle(gpu, gi.id, compute.id)).collect();
    handles.fill(&found)?;
    count.set(found.len() as c_uint)
}

pub(super) fn compute_handle(gpu: &Gpu<'_>, gi: u32, ci: u32) -> nvmlComputeInstance_t {
    gpu.node.handle(Object::ComputeInstance(gpu.index, gi, ci)).pointer()
}

pub(super) fn compute_instance_by_id(
    gpu: &Gpu<'_>,
    gi: &GpuInstanceState,
    id: c_uint,
    handle: Out<nvmlComputeInstance_t>,
) -> Answer {
    gpu.node.require_permission()?;
    let found = gi.compute.iter().find(|compute| compute.id == id).ok_or(NOT_FOUND)?;
    handle.set(compute_handle(gpu, gi.id, found.id))
}

pub(super) fn compute_instance_info(
    gpu: &Gpu<'_>,
    of: MigDevice<'_>,
    info: Out<nvmlComputeInstanceInfo_t>,
) -> Answer {
    let (start, size) = of.compute.placement;
    let profile = of.profile.compute.get(&of.compute.profile).ok_or(super::code::UNKNOWN)?;
    let device: Handle = gpu.node.handle(Object::MigDevice(gpu.index, of.instance.id, of.compute.id));
    info.set(nvmlComputeInstanceInfo_t {
        device: device.pointer(),
        gpuInstance: instance_handle(gpu, of.instance.id),
        id: of.compute.id,
        profileId: profile.id,
        placement: nvmlComputeInstancePlacement_t { start, size },
    })
}

/// The struct as it was before placements: a program that asks for it has no room for more.
#[repr(C)]
pub(super) struct ComputeInstanceInfoV1 {
    device: nvmlDevice_t,
    gpu_instance: nvmlGpuInstance_t,
    id: c_uint,
    profile_id: c_uint,
}

pub(super) fn compute_instance_info_v1(
    gpu: &Gpu<'_>,
    of: MigDevice<'_>,
    info: Out<nvmlComputeInstanceInfo_t>,
) -> Answer {
    let profile = of.profile.compute.get(&of.compute.profile).ok_or(super::code::UNKNOWN)?;
    let device: Handle = gpu.node.handle(Object::MigDevice(gpu.index, of.instance.id, of.compute.id));
    info.cast().set(ComputeInstanceInfoV1 {
        device: device.pointer(),
        gpu_instance: instance_handle(gpu, of.instance.id),
        id: of.compute.id,
        profile_id: profile.id,
    })
}
