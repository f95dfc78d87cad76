//! The guards: what every call must pass before a topic's function answers it.

use std::sync::Arc;

use nvml_wrapper_sys::bindings::nvmlDevice_t;

use super::code::{
    self, Answer, Code, FUNCTION_NOT_FOUND, GPU_IS_LOST, INVALID_ARGUMENT, NO_PERMISSION, NOT_SUPPORTED,
};
use super::faults;
use super::handle::{Handle, Object};
use super::session::{self, Session};
use crate::command::CHANGING_SYMBOLS;
use crate::driver_call::{Called, DriverCall};
use crate::state::{
    BoardState, ComputeInstanceState, Gauges, GiProfileState, GpuInstanceState, GpuState, MigState, NodeState,
};

/// A call that concerns no single GPU, or none yet.
pub(super) struct Node {
    pub(super) symbol: &'static str,
    pub(super) session: Arc<Session>,
    pub(super) state: Arc<NodeState>,
}

/// A call to one GPU, or to a MIG device on it.
pub(super) struct Gpu<'a> {
    pub(super) node: &'a Node,
    pub(super) index: u32,
    pub(super) state: &'a GpuState,
    /// The MIG device, if the handle is one's.
    pub(super) device: Option<MigDevice<'a>>,
}

/// A MIG device: a compute instance within its GPU instance.
#[derive(Clone, Copy)]
pub(super) struct MigDevice<'a> {
    pub(super) instance: &'a GpuInstanceState,
    pub(super) profile: &'a GiProfileState,
    pub(super) compute: &'a ComputeInstanceState,
}

/// A call that concerns no single GPU.
pub(super) fn node(symbol: &'static str, answer: impl FnOnce(&Node) -> Answer) -> Code {
    let enter = || -> Answer {
        let node = Node::enter(symbol, None)?;
        answer(&node)?;
        faults::obey_after(node.session.reader(), symbol, None)
    };
    code::of(enter())
}

/// A call to a whole GPU; a MIG device's handle is `NOT_SUPPORTED`.
pub(super) fn gpu(symbol: &'static str, handle: Handle, answer: impl FnOnce(&Gpu<'_>) -> Answer) -> Code {
    device(symbol, handle, |gpu| if gpu.device.is_some() { Err(NOT_SUPPORTED) } else { answer(gpu) })
}

/// A call to a GPU or a MIG device.
pub(super) fn device(symbol: &'static str, handle: Handle, answer: impl FnOnce(&Gpu<'_>) -> Answer) -> Code {
    on(symbol, handle, |gpu, object| match object {
        Object::Gpu(_) => answer(gpu),
        Object::MigDevice(_, gi, ci) => {
            let device = gpu.mig_device(gi, ci)?;
            answer(&Gpu { device: Some(device), ..*gpu })
        }
        _ => Err(INVALID_ARGUMENT),
    })
}

/// A call to a GPU instance.
pub(super) fn gpu_instance(
    symbol: &'static str,
    handle: Handle,
    answer: impl FnOnce(&Gpu<'_>, &GpuInstanceState) -> Answer,
) -> Code {
    on(symbol, handle, |gpu, object| match object {
        Object::GpuInstance(_, gi) => answer(gpu, gpu.instance(gi)?),
        _ => Err(INVALID_ARGUMENT),
    })
}

/// A call to a compute instance.
pub(super) fn compute_instance(
    symbol: &'static str,
    handle: Handle,
    answer: impl FnOnce(&Gpu<'_>, MigDevice<'_>) -> Answer,
) -> Code {
    on(symbol, handle, |gpu, object| match object {
        Object::ComputeInstance(_, gi, ci) => answer(gpu, gpu.mig_device(gi, ci)?),
        _ => Err(INVALID_ARGUMENT),
    })
}

/// A call through any handle that belongs to a GPU.
fn on(symbol: &'static str, handle: Handle, answer: impl FnOnce(&Gpu<'_>, Object) -> Answer) -> Code {
    let enter = || -> Answer {
        let session = session::current()?;
        session.state()?;
        let object = handle.object(session.load())?;
        let (Object::Gpu(index)
        | Object::MigDevice(index, ..)
        | Object::GpuInstance(index, _)
        | Object::ComputeInstance(index, ..)) = object
        else {
            return Err(INVALID_ARGUMENT);
        };
        if CHANGING_SYMBOLS.contains(&symbol) {
            session.announce_change(index)?;
        }
        let node = Node::enter(symbol, Some(index))?;
        let state = node.gpu_state(index)?;
        answer(&Gpu { node: &node, index, state, device: None }, object)?;
        faults::obey_after(node.session.reader(), symbol, Some(index))
    };
    code::of(enter())
}

impl Node {
    /// Passes the checks that every call must pass, and waits where a fault holds the call up.
    fn enter(symbol: &'static str, gpu: Option<u32>) -> Answer<Self> {
        let session = session::current()?;
        session.state()?;
        faults::obey(session.reader(), symbol, gpu)?;
        // The wait may have taken long: whatever changed meanwhile counts.
        if session.closed() {
            return Err(code::UNINITIALIZED);
        }
        let state = session.state()?;
        if state.driver.missing_symbols.iter().any(|missing| missing == symbol) {
            return Err(FUNCTION_NOT_FOUND);
        }
        Ok(Self { symbol, session, state })
    }

    /// Which GPU a call names as its second one.
    pub(super) fn peer(&self, handle: nvmlDevice_t) -> Answer<u32> {
        match Handle::from(handle).object(self.session.load())? {
            Object::Gpu(index) => Ok(index),
            _ => Err(INVALID_ARGUMENT),
        }
    }

    /// The state of a GPU that the driver reaches.
    pub(super) fn gpu_state(&self, index: u32) -> Answer<&GpuState> {
        match self.state.gpus.get(index as usize) {
            None => Err(INVALID_ARGUMENT),
            Some(gpu) if !gpu.is_reachable() => Err(GPU_IS_LOST),
            Some(gpu) => Ok(gpu),
        }
    }

    /// The GPU that a call is about to hand out a handle for: its faults count, and its device file is opened.
    pub(super) fn open_gpu(&self, index: u32) -> Answer<Handle> {
        let state = self.gpu_state(index)?;
        faults::obey_for_gpu(self.session.reader(), self.symbol, index)?;
        self.require_permission()?;
        self.session.open_gpu(index, state.identity.minor)?;
        Ok(self.handle(Object::Gpu(index)))
    }

    /// A handle of the present load of the driver.
    pub(super) fn handle(&self, object: Object) -> Handle {
        Handle::new(self.session.load(), object)
    }

    /// Refuses what the driver lets privileged callers do only.
    pub(super) fn require_permission(&self) -> Answer {
        if self.state.driver.no_permission { Err(NO_PERMISSION) } else { Ok(()) }
    }

    /// First number of the driver's version.
    pub(super) fn driver_branch(&self) -> u32 {
        self.state.driver.version.split('.').next().and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}

impl<'a> Gpu<'a> {
    /// What its board can do.
    pub(super) fn board(&self) -> &'a BoardState {
        &self.state.board
    }

    /// Its gauges.
    pub(super) fn now(&self) -> &'a Gauges {
        &self.state.now
    }

    /// Has the driver change it.
    pub(super) fn change(&self, call: DriverCall) -> Answer<Called> {
        self.node.require_permission()?;
        self.node.session.change(call)
    }

    /// MIG, on a GPU that can be divided.
    pub(super) fn mig(&self) -> Answer<&'a MigState> {
        self.state.mig.as_ref().ok_or(NOT_SUPPORTED)
    }

    /// Whether MIG mode is on.
    pub(super) fn divided(&self) -> bool {
        self.state.mig.as_ref().is_some_and(|mig| mig.mode.0)
    }

    /// Refuses what the driver does not tell about a GPU in MIG mode.
    pub(super) fn require_undivided(&self) -> Answer {
        if self.divided() { Err(NOT_SUPPORTED) } else { Ok(()) }
    }

    /// Refuses on architectures before `architecture` (`NVML_DEVICE_ARCH_*`).
    pub(super) fn require_architecture(&self, architecture: u32) -> Answer {
        if self.board().architecture < architecture { Err(NOT_SUPPORTED) } else { Ok(()) }
    }

    /// The GPU instance of that number. A handle whose instance was destroyed is worthless.
    pub(super) fn instance(&self, gi: u32) -> Answer<&'a GpuInstanceState> {
        self.mig()?.instances.iter().find(|instance| instance.id == gi).ok_or(INVALID_ARGUMENT)
    }

    /// The profile of a GPU instance.
    pub(super) fn profile(&self, instance: &GpuInstanceState) -> Answer<&'a GiProfileState> {
        self.mig()?.profiles.get(&instance.profile).ok_or(code::UNKNOWN)
    }

    /// The MIG device of those numbers.
    pub(super) fn mig_device(&self, gi: u32, ci: u32) -> Answer<MigDevice<'a>> {
        let instance = self.instance(gi)?;
        let profile = self.profile(instance)?;
        let compute = instance.compute.iter().find(|compute| compute.id == ci).ok_or(INVALID_ARGUMENT)?;
        Ok(MigDevice { instance, profile, compute })
    }
}
