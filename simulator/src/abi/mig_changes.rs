//! Calls that change MIG or persistence mode. What is asked for is checked here; the server does it, or refuses.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{
    nvmlComputeInstance_t, nvmlComputeInstancePlacement_t, nvmlEnableState_t, nvmlGpuInstance_t,
    nvmlGpuInstancePlacement_t, nvmlReturn_t,
};

use super::call::{Gpu, MigDevice};
use super::code::{Answer, INVALID_ARGUMENT, UNKNOWN};
use super::mig::{compute_handle, enabled, instance_handle};
use super::out::{In, Out};
use crate::driver_call::{Called, DriverCall};
use crate::state::GpuInstanceState;

pub(super) fn set_mode(gpu: &Gpu<'_>, mode: c_uint, activation: Out<nvmlReturn_t>) -> Answer {
    gpu.mig()?;
    let on = switch(mode)?;
    if activation.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    match gpu.change(DriverCall::SetMigMode { gpu: gpu.index, on })? {
        Called::Mode { activation: status } => activation.set(status),
        _ => Err(UNKNOWN),
    }
}

pub(super) fn set_persistence(gpu: &Gpu<'_>, mode: nvmlEnableState_t) -> Answer {
    let on = switch(mode)?;
    gpu.change(DriverCall::SetPersistence { gpu: gpu.index, on }).map(drop)
}

fn switch(mode: c_uint) -> Answer<bool> {
    match mode {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(INVALID_ARGUMENT),
    }
}

pub(super) fn create_instance(gpu: &Gpu<'_>, profile: c_uint, handle: Out<nvmlGpuInstance_t>) -> Answer {
    create_instance_at(gpu, profile, None, &handle)
}

pub(super) fn create_instance_with_placement(
    gpu: &Gpu<'_>,
    profile: c_uint,
    placement: In<nvmlGpuInstancePlacement_t>,
    handle: Out<nvmlGpuInstance_t>,
) -> Answer {
    let nvmlGpuInstancePlacement_t { start, size } = placement.get()?;
    create_instance_at(gpu, profile, Some((start, size)), &handle)
}

fn create_instance_at(
    gpu: &Gpu<'_>,
    profile: u32,
    placement: Option<(u32, u32)>,
    handle: &Out<nvmlGpuInstance_t>,
) -> Answer {
    enabled(gpu)?;
    if handle.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    match gpu.change(DriverCall::CreateGpuInstance { gpu: gpu.index, profile, placement })? {
        Called::Created { id } => handle.set(instance_handle(gpu, id)),
        _ => Err(UNKNOWN),
    }
}

pub(super) fn destroy_instance(gpu: &Gpu<'_>, instance: &GpuInstanceState) -> Answer {
    gpu.change(DriverCall::DestroyGpuInstance { gpu: gpu.index, gpu_instance: instance.id }).map(drop)
}

pub(super) fn create_compute(
    gpu: &Gpu<'_>,
    instance: &GpuInstanceState,
    profile: c_uint,
    handle: Out<nvmlComputeInstance_t>,
) -> Answer {
    create_compute_at(gpu, instance, profile, None, &handle)
}

pub(super) fn create_compute_with_placement(
    gpu: &Gpu<'_>,
    instance: &GpuInstanceState,
    profile: c_uint,
    placement: In<nvmlComputeInstancePlacement_t>,
    handle: Out<nvmlComputeInstance_t>,
) -> Answer {
    let nvmlComputeInstancePlacement_t { start, size } = placement.get()?;
    create_compute_at(gpu, instance, profile, Some((start, size)), &handle)
}

fn create_compute_at(
    gpu: &Gpu<'_>,
    instance: &GpuInstanceState,
    profile: u32,
    placement: Option<(u32, u32)>,
    handle: &Out<nvmlComputeInstance_t>,
) -> Answer {
    if handle.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    let gpu_instance = instance.id;
    let call = DriverCall::CreateComputeInstance { gpu: gpu.index, gpu_instance, profile, placement };
    match gpu.change(call)? {
        Called::Created { id } => handle.set(compute_handle(gpu, gpu_instance, id)),
        _ => Err(UNKNOWN),
    }
}

pub(super) fn destroy_compute(gpu: &Gpu<'_>, of: MigDevice<'_>) -> Answer {
    let (gpu_instance, compute_instance) = (of.instance.id, of.compute.id);
    gpu.change(DriverCall::DestroyComputeInstance { gpu: gpu.index, gpu_instance, compute_instance })
        .map(drop)
}
