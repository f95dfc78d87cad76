//! The driver's handle for what a step names, looked up anew each time.

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::reading::{Answer, Cause};
use gpulet_partition::step::{ComputeAt, InstanceAt};

use super::{ChangeError, Doing};
use crate::code;
use crate::raw::calls::Calls;
use crate::raw::handle::{ComputeInstance, Device, GpuInstance};
use crate::raw::symbol;
use crate::read::division::{compute_instance, compute_instances};
use crate::read::offer::{self, Kind, Offer};

/// One GPU that is being changed.
#[derive(Clone, Copy)]
pub(crate) struct Changing<'a> {
    /// How to call.
    pub(crate) calls: &'a Calls,
    /// The driver's number of the GPU.
    pub(crate) index: u32,
    /// Which GPU.
    pub(crate) gpu: &'a GpuUuid,
    /// What is done to it.
    pub(crate) doing: Doing,
}

impl Changing<'_> {
    /// The GPU's handle, made sure of: a number may be another GPU's since it was learned.
    pub(crate) fn device(self) -> Result<Device, ChangeError> {
        let device = self.calls.device(self.index).map_err(|cause| self.told(symbol::HANDLE.name, cause))?;
        let uuid =
            self.calls.text(&symbol::UUID, device).map_err(|cause| self.told(symbol::UUID.name, cause))?;
        if uuid == self.gpu.as_str() {
            Ok(device)
        } else {
            Err(ChangeError::NoSuchGpu { gpu: self.gpu.clone(), doing: self.doing })
        }
    }

    /// What a call came to that did not succeed.
    pub(super) fn told(self, call: &'static str, cause: Cause) -> ChangeError {
        self.answered(Answer { call, cause })
    }

    /// The same.
    pub(crate) fn answered(self, answer: Answer) -> ChangeError {
        ChangeError::answered(self.gpu, self.doing, answer)
    }

    /// The profile with this id.
    pub(super) fn offer(self, device: Device, id: u32) -> Result<Offer, ChangeError> {
        let offers = offer::offers(self.calls, device).map_err(|answer| self.answered(answer))?;
        offers.into_iter().find(|offer| offer.id == id).ok_or_else(|| self.unknown_profile())
    }

    /// The GPU instance.
    pub(super) fn instance(self, device: Device, at: InstanceAt) -> Result<GpuInstance, ChangeError> {
        let most = self.offer(device, at.profile)?.most;
        let all = self
            .calls
            .gpu_instances(device, at.profile, most)
            .map_err(|cause| self.told(symbol::GPU_INSTANCES.name, cause))?;
        for handle in all {
            match self.calls.get(&symbol::GPU_INSTANCE, handle) {
                Ok(info) => {
                    let place = (info.placement.start, info.placement.size);
                    if place == (at.placement.start, at.placement.size) {
                        return Ok(handle);
                    }
                }
                // Destroyed since it was listed.
                Err(Cause::Code(code::NOT_FOUND | code::INVALID_ARGUMENT)) => {}
                Err(cause) => return Err(self.told(symbol::GPU_INSTANCE.name, cause)),
            }
        }
        Err(self.no_such_instance())
    }

    /// The compute instance profile of this kind.
    pub(super) fn kind(self, instance: GpuInstance, number: u32) -> Result<Kind, ChangeError> {
        let kinds = offer::kinds(self.calls, instance).map_err(|answer| self.answered(answer))?;
        kinds.into_iter().find(|kind| kind.number == number).ok_or_else(|| self.unknown_profile())
    }

    /// The compute instance.
    pub(super) fn compute(
        self,
        instance: GpuInstance,
        at: ComputeAt,
    ) -> Result<ComputeInstance, ChangeError> {
        let kind = self.kind(instance, at.profile)?;
        let all = compute_instances(self.calls, instance, kind).map_err(|answer| self.answered(answer))?;
        for handle in all {
            match compute_instance(self.calls, handle, kind) {
                Ok(compute) if compute.at() == at => return Ok(handle),
                // Destroyed since it was listed.
                Ok(_) | Err(Answer { cause: Cause::Code(code::NOT_FOUND | code::INVALID_ARGUMENT), .. }) => {}
                Err(answer) => return Err(self.answered(answer)),
            }
        }
        Err(self.no_such_instance())
    }

    fn unknown_profile(self) -> ChangeError {
        ChangeError::UnknownProfile { gpu: self.gpu.clone(), doing: self.doing }
    }

    fn no_such_instance(self) -> ChangeError {
        ChangeError::NoSuchInstance { gpu: self.gpu.clone(), doing: self.doing }
    }
}
