//! Carries out one change, on the thread of the GPU.

use std::collections::BTreeSet;
use std::time::Instant;

use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId, Placement};
use gpulet_inventory::process::GpuProcess;
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
        Change::Step(step) => {
            carry_out(changing, device, step).map_err(|error| with_holders(changing, device, step, error))
        }
    }
}

fn carry_out(changing: Changing<'_>, device: Device, step: Step) -> Result<Changed, ChangeError> {
    match step {
        Step::SetMode(on) => return mode::set_mig_mode(changing, device, on),
        Step::CreateInstance(InstanceAt { profile, placement }) => {
            let outcome = changing.calls.create_gpu_instance(device, profile, placement);
            outcome.map_err(|cause| changing.told(symbol::CREATE_GPU_INSTANCE.name, cause))?;
        }
        Step::DestroyInstance(at) => {
            let instance = changing.instance(device, at)?;
            let outcome = changing.calls.destroy_gpu_instance(instance);
            outcome.map_err(|cause| changing.told(symbol::DESTROY_GPU_INSTANCE.name, cause))?;
        }
        Step::CreateCompute { within, profile, placement } => {
            let instance = changing.instance(device, within)?;
            let kind = changing.kind(instance, profile)?;
            match placement {
                Some(placement) => create_compute_at(changing, instance, kind, placement)?,
                None => drop(create_compute(changing, instance, kind)?),
            }
        }
        Step::DestroyCompute { within, compute } => {
            let instance = changing.instance(device, within)?;
            let compute = changing.compute(instance, compute)?;
            destroy_compute(changing, compute)?;
        }
    }
    Ok(Changed::default())
}

fn destroy_compute(changing: Changing<'_>, compute: ComputeInstance) -> Result<(), ChangeError> {
    let outcome = changing.calls.destroy_compute_instance(compute);
    outcome.map_err(|cause| changing.told(symbol::DESTROY_COMPUTE_INSTANCE.name, cause))
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
    destroy_compute(changing, created)?;
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

/// The processes that the driver lists where a step changes something; absent where they cannot be told.
fn holders(changing: Changing<'_>, device: Device, step: Step) -> Option<Vec<Holder>> {
    let place = place(changing, device, step)?;
    let (mut capabilities, now) = (Capabilities::default(), Instant::now());
    let asked = &mut Asked { calls: changing.calls, device, capabilities: &mut capabilities, now };
    let Reading::Supported(processes) = processes::read(asked, &mut Vec::new()) else { return None };
    let there = processes.into_iter().filter(|process| place.has(process));
    let pids: BTreeSet<u32> = there.map(|process| process.pid).collect();
    Some(pids.into_iter().map(|pid| Holder::Process { pid, program: None, pod: None }).collect())
}

/// A part of a GPU by the driver's numbers of now; without any it is the whole.
#[derive(Debug, Default)]
struct Place {
    instance: Option<GpuInstanceId>,
    compute: Option<ComputeInstanceId>,
}

impl Place {
    fn has(&self, process: &GpuProcess) -> bool {
        let in_compute = self.compute.is_none() || process.compute_instance.is_none();
        let in_instance = process.gpu_instance == self.instance;
        let of_compute = in_compute || process.compute_instance == self.compute;
        self.instance.is_none() || in_instance && of_compute
    }
}

/// Where a step changes something.
fn place(changing: Changing<'_>, device: Device, step: Step) -> Option<Place> {
    let (within, compute) = match step {
        Step::SetMode(_) => return Some(Place::default()),
        Step::CreateInstance(_) => return None,
        Step::DestroyInstance(at) | Step::CreateCompute { within: at, .. } => (at, None),
        Step::DestroyCompute { within, compute } => (within, Some(compute)),
    };
    let handle = changing.instance(device, within).ok()?;
    let instance = Some(GpuInstanceId(changing.calls.get(&symbol::GPU_INSTANCE, handle).ok()?.id));
    let Some(at) = compute else { return Some(Place { instance, compute: None }) };
    let compute = changing.compute(handle, at).ok()?;
    let compute = Some(ComputeInstanceId(changing.calls.compute_instance(compute).ok()?.0.id));
    Some(Place { instance, compute })
}
