//! Carries out one change, on the thread of the GPU.

use std::time::Instant;

use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId, Placement};
use gpulet_inventory::reading::{Cause, Reading};
use gpulet_partition::observed::Holder;
use gpulet_partition::step::{InstanceAt, Step};
use nvml_wrapper_sys::bindings::nvmlComputeInstanceInfo_t;

use super::lookup::Changing;
use super::{Change, ChangeError, Changed, mode};
use crate::capability::Capabilities;
use crate::code;
use crate::raw::handle::{ComputeInstance, Device, GpuInstance};
use crate::raw::symbol;
use crate::read::offer::Kind;
use crate::read::{Asked, processes};

/// Carries it out.
pub(crate) fn perform(changing: Changing<'_>, change: Change) -> Result<Changed, ChangeError> {
    let device = changing.device()?;
    match change {
        Change::Persistence(on) => mode::set_persistence(changing, device, on),
        Change::Step(Step::SetMode(on)) => mode::set_mig_mode(changing, device, on),
        Change::Step(step) => {
            let outcome = carry_out(changing, device, step);
            outcome.map(|()| Changed::default()).map_err(|error| with_holders(changing, device, step, error))
        }
    }
}

fn carry_out(changing: Changing<'_>, device: Device, step: Step) -> Result<(), ChangeError> {
    let calls = changing.calls;
    match step {
        // Not about an instance; done by its own.
        Step::SetMode(on) => mode::set_mig_mode(changing, device, on).map(|_| ()),
        Step::CreateInstance(InstanceAt { profile, placement }) => {
            let outcome = calls.create_gpu_instance(device, profile, placement);
            outcome.map(|_| ()).map_err(|cause| changing.told(symbol::CREATE_GPU_INSTANCE.name, cause))
        }
        Step::DestroyInstance(at) => {
            let instance = changing.instance(device, at)?;
            let outcome = calls.destroy_gpu_instance(instance);
            outcome.map_err(|cause| changing.told(symbol::DESTROY_GPU_INSTANCE.name, cause))
        }
        Step::CreateCompute { within, profile, placement } => {
            let instance = changing.instance(device, within)?;
            let kind = changing.kind(instance, profile)?;
            match placement {
                Some(placement) => create_compute_at(changing, instance, kind, placement),
                None => create_compute(changing, instance, kind).map(|_| ()),
            }
        }
        Step::DestroyCompute { within, compute } => {
            let instance = changing.instance(device, within)?;
            let compute = changing.compute(instance, compute)?;
            let outcome = calls.destroy_compute_instance(compute);
            outcome.map_err(|cause| changing.told(symbol::DESTROY_COMPUTE_INSTANCE.name, cause))
        }
    }
}

/// Creates a compute instance in this place. A driver that is too old to be told one is let choose; where it chose
/// another, what it made is removed again.
fn create_compute_at(
    changing: Changing<'_>,
    instance: GpuInstance,
    kind: Kind,
    placement: Placement,
) -> Result<(), ChangeError> {
    match changing.calls.create_compute_instance_at(instance, kind.id, placement) {
        Ok(_) => return Ok(()),
        Err(Cause::NoSymbol | Cause::Code(code::FUNCTION_NOT_FOUND)) => {}
        Err(cause) => return Err(changing.told(symbol::CREATE_COMPUTE_INSTANCE_AT.name, cause)),
    }
    let created = create_compute(changing, instance, kind)?;
    let place = |(info, _): (nvmlComputeInstanceInfo_t, Device)| Placement {
        start: info.placement.start,
        size: info.placement.size,
    };
    let got = changing.calls.compute_instance(created).map(place);
    if got == Ok(placement) {
        return Ok(());
    }
    let removed = changing.calls.destroy_compute_instance(created);
    removed.map_err(|cause| changing.told(symbol::DESTROY_COMPUTE_INSTANCE.name, cause))?;
    let got = got.map_err(|cause| changing.told(symbol::COMPUTE_INSTANCE.name, cause))?;
    Err(ChangeError::Elsewhere { gpu: changing.gpu.clone(), doing: changing.doing, got })
}

/// Creates a compute instance wherever the driver puts it.
fn create_compute(
    changing: Changing<'_>,
    instance: GpuInstance,
    kind: Kind,
) -> Result<ComputeInstance, ChangeError> {
    let outcome = changing.calls.create_compute_instance(instance, kind.id);
    outcome.map_err(|cause| changing.told(symbol::CREATE_COMPUTE_INSTANCE.name, cause))
}

/// Names who uses it, where that is why the driver refused.
fn with_holders(changing: Changing<'_>, device: Device, step: Step, error: ChangeError) -> ChangeError {
    let ChangeError::InUse { gpu, doing, answer, .. } = error else { return error };
    let holders = holders(changing, device, step).unwrap_or_default();
    ChangeError::InUse { gpu, doing, answer, holders }
}

/// The processes that the driver lists where a step destroys something; absent where they cannot be told.
fn holders(changing: Changing<'_>, device: Device, step: Step) -> Option<Vec<Holder>> {
    let calls = changing.calls;
    let (within, compute) = match step {
        Step::DestroyInstance(at) => (at, None),
        Step::DestroyCompute { within, compute } => (within, Some(compute)),
        Step::SetMode(_) | Step::CreateInstance(_) | Step::CreateCompute { .. } => return None,
    };
    let instance = changing.instance(device, within).ok()?;
    let id = GpuInstanceId(calls.get(&symbol::GPU_INSTANCE, instance).ok()?.id);
    let compute = match compute {
        Some(at) => {
            let handle = changing.compute(instance, at).ok()?;
            Some(ComputeInstanceId(calls.compute_instance(handle).ok()?.0.id))
        }
        None => None,
    };
    let (mut capabilities, now) = (Capabilities::default(), Instant::now());
    let asked = &mut Asked { calls, device, capabilities: &mut capabilities, now };
    let Reading::Supported(processes) = processes::read(asked, &mut Vec::new()) else { return None };
    let there = processes.into_iter().filter(|process| {
        let of_compute = compute.is_none() || process.compute_instance.is_none();
        process.gpu_instance == Some(id) && (of_compute || process.compute_instance == compute)
    });
    let mut pids: Vec<u32> = there.map(|process| process.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    Some(pids.into_iter().map(|pid| Holder::Process { pid, program: None, pod: None }).collect())
}
