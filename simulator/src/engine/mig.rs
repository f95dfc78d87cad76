//! MIG: what a client asks of the driver, and what it refuses.

use super::{Engine, birth, processes};
use crate::division::{self, Place};
use crate::driver_call::code::{
    GPU_IS_LOST, IN_USE, INSUFFICIENT_RESOURCES, INVALID_ARGUMENT, NO_PERMISSION, NOT_SUPPORTED,
    RESET_REQUIRED, SUCCESS, UNINITIALIZED,
};
use crate::driver_call::{Called, DriverCall};
use crate::state::{ComputeInstanceState, Event, GpuInstanceState, GpuState, MigState};
use crate::uuid::uuid;

/// `nvmlEventMigConfigChange`.
const EVENT_MIG: u64 = 0x100;

/// The driver's device numbers leave room for so many instances of a GPU, and compute instances of each.
const GPU_INSTANCES: u32 = 15;
const COMPUTE_INSTANCES: u32 = 8;

type Answer<T = Called> = Result<T, u32>;

impl Engine {
    /// Somebody comes with a call that is to change a GPU.
    pub(crate) fn count_change(&mut self, gpu: u32) {
        if let Ok(state) = self.gpu(gpu) {
            state.changing_calls += 1;
        }
    }

    /// What process `pid` asks of the driver, which it found in its `load`-th load.
    ///
    /// # Errors
    /// The `nvmlReturn_t` with which the driver refuses; nothing has changed then.
    pub(crate) fn call(&mut self, call: DriverCall, pid: u32, load: u64) -> Answer {
        let driver = &self.state.driver;
        if !driver.loaded || driver.load != load {
            return Err(UNINITIALIZED);
        }
        let denied = driver.no_permission;
        let gpu = call.gpu();
        let state = self.gpu(gpu).map_err(|_| INVALID_ARGUMENT)?;
        if !state.is_reachable() {
            return Err(GPU_IS_LOST);
        }
        if denied {
            return Err(NO_PERMISSION);
        }
        match call {
            DriverCall::SetMigMode { on, .. } => self.set_mig_mode(gpu, on, pid),
            DriverCall::SetPersistence { on, .. } => {
                state.now.persistence = on;
                Ok(Called::Done)
            }
            DriverCall::CreateGpuInstance { profile, placement, .. } => {
                let created = self.create_gpu_instance(gpu, profile, placement)?;
                Ok(self.changed(gpu, Called::Created { id: created }))
            }
            DriverCall::DestroyGpuInstance { gpu_instance, .. } => {
                destroy_gpu_instance(state, gpu_instance)?;
                Ok(self.changed(gpu, Called::Done))
            }
            DriverCall::CreateComputeInstance { gpu_instance, profile, placement, .. } => {
                let created = self.create_compute_instance(gpu, gpu_instance, profile, placement)?;
                Ok(self.changed(gpu, Called::Created { id: created }))
            }
            DriverCall::DestroyComputeInstance { gpu_instance, compute_instance, .. } => {
                destroy_compute_instance(state, gpu_instance, compute_instance)?;
                Ok(self.changed(gpu, Called::Done))
            }
        }
    }

    /// Reports that a GPU is divided otherwise than before.
    fn changed<T>(&mut self, gpu: u32, what: T) -> T {
        self.report(Event {
            sequence: 0,
            gpu,
            kind: EVENT_MIG,
            data: 0,
            gpu_instance: u32::MAX,
            compute_instance: u32::MAX,
        });
        if let Ok(state) = self.gpu(gpu) {
            processes::recount(state);
        }
        what
    }

    /// Sets MIG mode. Whether it is in force is another matter: Ampere needs a reset for it, which the driver does if nobody
    /// but the caller has the GPU open and the machine can.
    fn set_mig_mode(&mut self, gpu: u32, on: bool, pid: u32) -> Answer {
        let virtual_machine = self.state.virtual_machine;
        let open = self.is_open(gpu, Some(pid));
        let state = self.gpu(gpu).map_err(|_| INVALID_ARGUMENT)?;
        let resetless = state.board.resetless_mig;
        let working = !state.processes.is_empty();
        let mig = state.mig.as_mut().ok_or(NOT_SUPPORTED)?;
        let occupied = working || !mig.instances.is_empty();
        let activation = match () {
            // As it is; one that was pending is so no more.
            () if mig.mode.0 == on => {
                mig.mode.1 = on;
                return Ok(Called::Mode { activation: SUCCESS });
            }
            // There is no reset that it could wait for.
            () if resetless && occupied => return Ok(Called::Mode { activation: IN_USE }),
            () if resetless => {
                mig.mode = (on, on);
                SUCCESS
            }
            () => {
                mig.mode.1 = on;
                match () {
                    () if virtual_machine => RESET_REQUIRED,
                    () if open || occupied => IN_USE,
                    () => {
                        self.reset_gpu(gpu);
                        SUCCESS
                    }
                }
            }
        };
        Ok(self.changed(gpu, Called::Mode { activation }))
    }

    fn create_gpu_instance(&mut self, gpu: u32, profile: u32, placement: Option<Place>) -> Answer<u32> {
        let branch = self.driver_branch();
        let grid =
            self.node.gpus().get(gpu as usize).and_then(|gpu| gpu.board.mig.as_ref()).map(|mig| mig.slices);
        let mig = enabled(self.gpu(gpu).map_err(|_| INVALID_ARGUMENT)?)?;
        let (enumerator, offered) = division::profile_by_id(mig, profile).ok_or(INVALID_ARGUMENT)?;
        if placement.is_some_and(|place| !offered.placements.contains(&place)) {
            return Err(INVALID_ARGUMENT);
        }
        if division::capacity(mig, offered, branch) == 0 {
            return Err(INSUFFICIENT_RESOURCES);
        }
        let place = placement.or_else(|| division::default_place(mig, offered));
        let place = place.filter(|place| division::is_free(mig, *place)).ok_or(INSUFFICIENT_RESOURCES)?;
        // Numbers belong to places; where a grid is odd, the next free one is taken.
        let own = birth::instance_id(grid.unwrap_or(place.1), place.1, place.0);
        let taken = |id: &u32| mig.instances.iter().any(|instance| instance.id == *id);
        let id = (own..GPU_INSTANCES).chain(0..own).find(|id| !taken(id)).ok_or(INSUFFICIENT_RESOURCES)?;
        mig.instances.push(GpuInstanceState {
            id,
            profile: enumerator,
            placement: place,
            compute: Vec::new(),
            memory_used_bytes: 0,
        });
        Ok(id)
    }

    /// Each compute instance has a UUID of its own, also one that is made again just as it was.
    fn create_compute_instance(
        &mut self,
        gpu: u32,
        gpu_instance: u32,
        profile: u32,
        placement: Option<Place>,
    ) -> Answer<u32> {
        self.created = self.created.wrapping_add(1);
        let number = self.created;
        let state = self.gpu(gpu).map_err(|_| INVALID_ARGUMENT)?;
        let gpu_uuid = state.identity.uuid.clone();
        let mig = enabled(state)?;
        let instance =
            mig.instances.iter_mut().find(|instance| instance.id == gpu_instance).ok_or(INVALID_ARGUMENT)?;
        let offered = mig.profiles.get(&instance.profile).ok_or(INVALID_ARGUMENT)?;
        let (enumerator, offered) =
            offered.compute.iter().find(|(_, offered)| offered.id == profile).ok_or(INVALID_ARGUMENT)?;
        if placement.is_some_and(|place| !offered.placements.contains(&place)) {
            return Err(INVALID_ARGUMENT);
        }
        let free = |place: &Place| division::is_compute_free(instance, *place);
        let first = || offered.placements.iter().copied().find(free);
        let place = placement.filter(free).or_else(|| first().filter(|_| placement.is_none()));
        let place = place.ok_or(INSUFFICIENT_RESOURCES)?;
        let taken = |id: &u32| instance.compute.iter().any(|compute| compute.id == *id);
        let id = (0..COMPUTE_INSTANCES).find(|id| !taken(id)).ok_or(INSUFFICIENT_RESOURCES)?;
        let uuid = format!("MIG-{}", uuid(&format!("{gpu_uuid}/{gpu_instance}/{id}/{number}")));
        instance.compute.push(ComputeInstanceState { id, profile: *enumerator, placement: place, uuid });
        Ok(id)
    }

    /// Whether anything keeps a GPU from being reset: a process, a program that has it open (the one that asks aside),
    /// persistence mode, mode setting.
    fn is_open(&self, gpu: u32, asks: Option<u32>) -> bool {
        let state = self.state.gpus.get(gpu as usize);
        let persistent = state.is_some_and(|state| state.now.persistence);
        persistent || self.state.driver.modeset || !self.open_by(gpu, asks).is_empty()
    }

    /// Processes that have a GPU open, without the one that asks.
    pub(super) fn open_by(&self, gpu: u32, asks: Option<u32>) -> Vec<u32> {
        let Some(state) = self.state.gpus.get(gpu as usize) else { return Vec::new() };
        let clients =
            self.clients.iter().filter(|client| client.gpus.contains(&gpu)).map(|client| client.pid);
        let processes = state.processes.iter().map(|process| process.pid);
        let observers = state.observers.iter().map(|observer| observer.pid);
        let others = clients.filter(|pid| asks != Some(*pid));
        let mut pids: Vec<u32> = others.chain(processes).chain(observers).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// First number of the driver's version.
    fn driver_branch(&self) -> u32 {
        let branch = self.state.driver.version.split('.').next();
        branch.and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}

/// Only a GPU in MIG mode has instances.
fn enabled(state: &mut GpuState) -> Answer<&mut MigState> {
    state.mig.as_mut().filter(|mig| mig.mode.0).ok_or(NOT_SUPPORTED)
}

/// One that has compute instances, or that anybody uses or has open, stays.
fn destroy_gpu_instance(state: &mut GpuState, id: u32) -> Answer<()> {
    let used = state.processes.iter().any(|process| process.instance.is_some_and(|(gi, _)| gi == id))
        || state.observers.iter().any(|observer| observer.instance.is_some_and(|(gi, _)| gi == id));
    let mig = enabled(state)?;
    let index = mig.instances.iter().position(|instance| instance.id == id).ok_or(INVALID_ARGUMENT)?;
    if used || mig.instances.get(index).is_some_and(|instance| !instance.compute.is_empty()) {
        return Err(IN_USE);
    }
    mig.instances.remove(index);
    Ok(())
}

fn destroy_compute_instance(state: &mut GpuState, gpu_instance: u32, id: u32) -> Answer<()> {
    let own = (gpu_instance, id);
    let opens = |(gi, ci): (u32, Option<u32>)| gi == gpu_instance && ci == Some(id);
    let used = state.processes.iter().any(|process| process.instance == Some(own))
        || state.observers.iter().any(|observer| observer.instance.is_some_and(opens));
    let mig = enabled(state)?;
    let instance = mig.instances.iter_mut().find(|instance| instance.id == gpu_instance);
    let computes = &mut instance.ok_or(INVALID_ARGUMENT)?.compute;
    let index = computes.iter().position(|compute| compute.id == id).ok_or(INVALID_ARGUMENT)?;
    if used {
        return Err(IN_USE);
    }
    computes.remove(index);
    Ok(())
}
