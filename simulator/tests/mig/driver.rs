//! The driver's library, with the calls that divide GPUs.

use std::ptr::null_mut;

use nvml_wrapper::Nvml;
use nvml_wrapper_sys::bindings::*;

use super::OK;
use super::common::TestNode;

/// A client of the driver.
pub(super) struct Driver(pub(super) Nvml);

/// Calls a symbol of the node's library.
macro_rules! call {
    ($driver:expr, $symbol:ident($($argument:expr),*)) => {{
        let symbol = $driver.0.lib().$symbol.as_ref().unwrap();
        // SAFETY: pointers are null, handles, or to locals of the right type.
        unsafe { symbol($($argument),*) }
    }};
}

/// A plain C struct of zeros.
macro_rules! zeroed {
    ($kind:ty) => {
        // SAFETY: a plain C struct, for which zeros are valid.
        unsafe { std::mem::zeroed::<$kind>() }
    };
}

pub(super) use {call, zeroed};

impl Driver {
    pub(super) fn open(test: &TestNode) -> Self {
        Self(test.nvml())
    }

    pub(super) fn gpu(&self, index: u32) -> nvmlDevice_t {
        let mut device = null_mut();
        assert_eq!(call!(self, nvmlDeviceGetHandleByIndex_v2(index, &raw mut device)), OK);
        device
    }

    /// What the call answers, and what comes of it.
    pub(super) fn set_mode(&self, gpu: u32, mode: u32) -> (u32, u32) {
        let mut activation = 77;
        let code = call!(self, nvmlDeviceSetMigMode(self.gpu(gpu), mode, &raw mut activation));
        (code, activation)
    }

    /// MIG mode now, and after a reset.
    pub(super) fn mode(&self, gpu: u32) -> (u32, u32) {
        let (mut now, mut then) = (77, 77);
        assert_eq!(call!(self, nvmlDeviceGetMigMode(self.gpu(gpu), &raw mut now, &raw mut then)), OK);
        (now, then)
    }

    pub(super) fn set_persistence(&self, gpu: u32, mode: u32) -> u32 {
        call!(self, nvmlDeviceSetPersistenceMode(self.gpu(gpu), mode))
    }

    /// Creates a GPU instance where the driver will.
    pub(super) fn create(&self, gpu: u32, profile: u32) -> Result<nvmlGpuInstance_t, u32> {
        let mut created = null_mut();
        match call!(self, nvmlDeviceCreateGpuInstance(self.gpu(gpu), profile, &raw mut created)) {
            OK => Ok(created),
            code => Err(code),
        }
    }

    pub(super) fn create_at(
        &self,
        gpu: u32,
        profile: u32,
        (start, size): (u32, u32),
    ) -> Result<nvmlGpuInstance_t, u32> {
        let (place, mut created) = (nvmlGpuInstancePlacement_t { start, size }, null_mut());
        let device = self.gpu(gpu);
        let (place, into) = (&raw const place, &raw mut created);
        match call!(self, nvmlDeviceCreateGpuInstanceWithPlacement(device, profile, place, into)) {
            OK => Ok(created),
            code => Err(code),
        }
    }

    pub(super) fn destroy(&self, instance: nvmlGpuInstance_t) -> u32 {
        call!(self, nvmlGpuInstanceDestroy(instance))
    }

    pub(super) fn create_compute(
        &self,
        instance: nvmlGpuInstance_t,
        profile: u32,
    ) -> Result<nvmlComputeInstance_t, u32> {
        let mut created = null_mut();
        match call!(self, nvmlGpuInstanceCreateComputeInstance(instance, profile, &raw mut created)) {
            OK => Ok(created),
            code => Err(code),
        }
    }

    pub(super) fn create_compute_at(
        &self,
        instance: nvmlGpuInstance_t,
        profile: u32,
        (start, size): (u32, u32),
    ) -> Result<nvmlComputeInstance_t, u32> {
        let (place, mut created) = (nvmlComputeInstancePlacement_t { start, size }, null_mut());
        let (place, into) = (&raw const place, &raw mut created);
        match call!(self, nvmlGpuInstanceCreateComputeInstanceWithPlacement(instance, profile, place, into)) {
            OK => Ok(created),
            code => Err(code),
        }
    }

    pub(super) fn destroy_compute(&self, compute: nvmlComputeInstance_t) -> u32 {
        call!(self, nvmlComputeInstanceDestroy(compute))
    }

    pub(super) fn info(&self, instance: nvmlGpuInstance_t) -> Result<nvmlGpuInstanceInfo_t, u32> {
        let mut info = zeroed!(nvmlGpuInstanceInfo_t);
        match call!(self, nvmlGpuInstanceGetInfo(instance, &raw mut info)) {
            OK => Ok(info),
            code => Err(code),
        }
    }

    pub(super) fn compute_info(
        &self,
        compute: nvmlComputeInstance_t,
    ) -> Result<nvmlComputeInstanceInfo_t, u32> {
        let mut info = zeroed!(nvmlComputeInstanceInfo_t);
        match call!(self, nvmlComputeInstanceGetInfo_v2(compute, &raw mut info)) {
            OK => Ok(info),
            code => Err(code),
        }
    }

    /// The UUID of a MIG device.
    pub(super) fn uuid(&self, compute: nvmlComputeInstance_t) -> String {
        let device = self.compute_info(compute).unwrap().device;
        let mut text = [0; 96];
        assert_eq!(call!(self, nvmlDeviceGetUUID(device, text.as_mut_ptr(), 96)), OK);
        text.iter().take_while(|c| **c != 0).map(|c| *c as u8 as char).collect()
    }

    pub(super) fn capacity(&self, gpu: u32, profile: u32) -> Result<u32, u32> {
        let mut count = 77;
        match call!(self, nvmlDeviceGetGpuInstanceRemainingCapacity(self.gpu(gpu), profile, &raw mut count)) {
            OK => Ok(count),
            code => Err(code),
        }
    }

    pub(super) fn compute_capacity(&self, instance: nvmlGpuInstance_t, profile: u32) -> u32 {
        let mut count = 77;
        let into = &raw mut count;
        assert_eq!(
            call!(self, nvmlGpuInstanceGetComputeInstanceRemainingCapacity(instance, profile, into)),
            OK
        );
        count
    }
}
