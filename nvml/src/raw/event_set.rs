//! Waiting for events by the raw call: what wrappers make of it loses the MIG instance and the newer kinds.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use gpulet_inventory::reading::{Answer, Cause};
use nvml_wrapper_sys::bindings as sys;

use super::calls::Calls;
use super::handle::{Device, Handle};
use super::library::Library;
use super::plain::Plain;
use super::symbol::{EVENT_REGISTER, EVENT_SET_CREATE, EVENT_SET_FREE, EVENT_WAIT, EVENT_WAIT_V1, Symbol};

/// A set of events that the driver is asked to tell of. Stays on the thread that made it.
pub(crate) struct EventSet {
    set: sys::nvmlEventSet_t,
    wait: Symbol<Wait>,
    library: Arc<Library>,
}

type Wait = unsafe extern "C" fn(sys::nvmlEventSet_t, *mut sys::nvmlEventData_t, u32) -> sys::nvmlReturn_t;

/// An event as the driver tells it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawEvent {
    /// The GPU on which it happened.
    pub(crate) device: Device,
    /// `nvmlEventType*`.
    pub(crate) kind: u64,
    /// For an XID, its number.
    pub(crate) data: u64,
    /// GPU instance, or all ones.
    pub(crate) gpu_instance: u32,
    /// Compute instance, or all ones.
    pub(crate) compute_instance: u32,
}

impl EventSet {
    /// An empty set.
    ///
    /// # Errors
    /// The call that cannot be made, or failed: a set that cannot be waited on is not made.
    pub(crate) fn new(calls: &Calls) -> Result<Self, Answer> {
        let wait = [EVENT_WAIT, EVENT_WAIT_V1]
            .into_iter()
            .find(|wait| (wait.find)(calls.library().table()).is_some())
            .ok_or_else(|| {
                calls.count_failed(EVENT_WAIT.name, Cause::NoSymbol);
                Answer { call: EVENT_WAIT.name, cause: Cause::NoSymbol }
            })?;
        let mut set = std::ptr::null_mut();
        // SAFETY: the function writes one handle to a valid pointer to one.
        let created = calls.call(&EVENT_SET_CREATE, |create| unsafe { create(&mut set) });
        created.map_err(|cause| Answer { call: EVENT_SET_CREATE.name, cause })?;
        Ok(Self { set, wait, library: Arc::clone(calls.library()) })
    }

    /// Adds events of one GPU.
    pub(crate) fn register(&self, calls: &Calls, device: Device, kinds: u64) -> Result<(), Cause> {
        // SAFETY: both handles came from this library, and the set has not been freed.
        calls.call(&EVENT_REGISTER, |register| unsafe { register(device.raw(), kinds, self.set) })
    }

    /// The next event, if one comes within the time.
    pub(crate) fn wait(&self, calls: &Calls, at_most: Duration) -> Result<RawEvent, Cause> {
        let milliseconds = u32::try_from(at_most.as_millis()).unwrap_or(u32::MAX);
        let mut data = sys::nvmlEventData_t::zeroed();
        // What "none" is, for a driver that does not write them.
        data.gpuInstanceId = u32::MAX;
        data.computeInstanceId = u32::MAX;
        // SAFETY: the set came from this library and has not been freed; the function writes one event, of which the
        // older form is the beginning.
        calls.call(&self.wait, |wait| unsafe { wait(self.set, &mut data, milliseconds) })?;
        Ok(RawEvent {
            device: Device(data.device),
            kind: data.eventType,
            data: data.eventData,
            gpu_instance: data.gpuInstanceId,
            compute_instance: data.computeInstanceId,
        })
    }
}

impl Drop for EventSet {
    fn drop(&mut self) {
        if let Some(free) = (EVENT_SET_FREE.find)(self.library.table()) {
            // SAFETY: the set came from this library, which is still initialised, and is freed once.
            unsafe { free(self.set) };
        }
    }
}
