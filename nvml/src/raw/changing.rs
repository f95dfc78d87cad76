//! The calls that change a GPU. No one else changes anything.
#![allow(unsafe_code)]

use gpulet_inventory::mig::Placement;
use gpulet_inventory::reading::Cause;
use nvml_wrapper_sys::bindings as sys;

use super::calls::Calls;
use super::handle::{ComputeInstance, Device, GpuInstance, Handle};
use super::symbol;
use crate::code;

impl Calls {
    /// Asks for MIG mode to be turned on or off. Inside: why the driver puts that off, if it does.
    pub(crate) fn set_mig_mode(&self, device: Device, on: bool) -> Result<Option<Cause>, Cause> {
        let mut activation = code::SUCCESS;
        // SAFETY: the handle came from this library, and the function writes one code to a valid pointer to one.
        self.call(&symbol::SET_MIG_MODE, |f| unsafe { f(device.raw(), on.into(), &mut activation) })?;
        Ok((activation != code::SUCCESS).then_some(Cause::Code(activation)))
    }

    /// Creates a GPU instance of a profile, by the driver's id, in this place.
    pub(crate) fn create_gpu_instance(
        &self,
        device: Device,
        profile_id: u32,
        placement: Placement,
    ) -> Result<GpuInstance, Cause> {
        let place = sys::nvmlGpuInstancePlacement_t { start: placement.start, size: placement.size };
        let mut created = std::ptr::null_mut();
        // SAFETY: the handle came from this library; the function reads one place and writes one handle, both through
        // valid pointers.
        self.call(&symbol::CREATE_GPU_INSTANCE, |f| unsafe {
            f(device.raw(), profile_id, &place, &mut created)
        })?;
        Ok(GpuInstance(created))
    }

    /// Destroys a GPU instance. The handle means nothing afterwards.
    pub(crate) fn destroy_gpu_instance(&self, instance: GpuInstance) -> Result<(), Cause> {
        // SAFETY: the handle came from this library.
        self.call(&symbol::DESTROY_GPU_INSTANCE, |function| unsafe { function(instance.raw()) })
    }

    /// Creates a compute instance of a profile, by the driver's id, wherever the driver puts it.
    pub(crate) fn create_compute_instance(
        &self,
        instance: GpuInstance,
        profile_id: u32,
    ) -> Result<ComputeInstance, Cause> {
        let mut created = std::ptr::null_mut();
        // SAFETY: the handle came from this library, and the function writes one handle to a valid pointer to one.
        self.call(&symbol::CREATE_COMPUTE_INSTANCE, |f| unsafe {
            f(instance.raw(), profile_id, &mut created)
        })?;
        Ok(ComputeInstance(created))
    }

    /// Creates a compute instance in this place.
    pub(crate) fn create_compute_instance_at(
        &self,
        instance: GpuInstance,
        profile_id: u32,
        placement: Placement,
    ) -> Result<ComputeInstance, Cause> {
        let place = sys::nvmlComputeInstancePlacement_t { start: placement.start, size: placement.size };
        let mut created = std::ptr::null_mut();
        // SAFETY: as in `create_gpu_instance`.
        self.call(&symbol::CREATE_COMPUTE_INSTANCE_AT, |f| unsafe {
            f(instance.raw(), profile_id, &place, &mut created)
        })?;
        Ok(ComputeInstance(created))
    }

    /// Destroys a compute instance. The handle means nothing afterwards.
    pub(crate) fn destroy_compute_instance(&self, instance: ComputeInstance) -> Result<(), Cause> {
        // SAFETY: the handle came from this library.
        self.call(&symbol::DESTROY_COMPUTE_INSTANCE, |function| unsafe { function(instance.raw()) })
    }

    /// Turns persistence mode on or off.
    pub(crate) fn set_persistence_mode(&self, device: Device, on: bool) -> Result<(), Cause> {
        // SAFETY: the handle came from this library.
        self.call(&symbol::SET_PERSISTENCE_MODE, |function| unsafe { function(device.raw(), on.into()) })
    }
}
