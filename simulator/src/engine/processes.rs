//! Who holds a GPU, and the memory that it takes.

use super::{Engine, SCRIPTED_PID};
use crate::command::{Hold, Load, Refusal};
use crate::state::{GpuInstanceState, GpuState, ProcessKind, ProcessState};

/// What the driver's own context takes on every GPU, above the reserved memory.
const CONTEXT_BYTES: u64 = 4 << 20;

/// What a process must have at least.
const LEAST_BYTES: u64 = 256 << 20;

/// For how long the machine has been up when its simulation begins, clock ticks: a minute.
const BOOTED_TICKS: u64 = 6000;

/// `NVML_COMPUTEMODE_*`.
const EXCLUSIVE_THREAD: u32 = 1;
const PROHIBITED: u32 = 2;
const EXCLUSIVE_PROCESS: u32 = 3;

impl Engine {
    /// Runs `load` on one GPU, or on every one that can.
    pub(super) fn load(&mut self, gpu: Option<u32>, load: Load) -> Result<(), Refusal> {
        load.check()?;
        self.with_driver()?;
        let started = self.start_ticks();
        let mut ready = Vec::new();
        for index in gpu.map_or_else(|| self.gpu_numbers(), |gpu| gpu..gpu.saturating_add(1)) {
            match (gpu, loaded(index, started, self.present(index), load)) {
                (_, Ok(state)) => ready.push((index, state)),
                // What cannot take part when all are meant is left as it is.
                (
                    None,
                    Err(
                        Refusal::GpuLost { .. }
                        | Refusal::GpuNotBound { .. }
                        | Refusal::InstanceNeeded { .. },
                    ),
                ) => {}
                (_, Err(refusal)) => return Err(refusal),
            }
        }
        let now = self.ticks;
        for (index, state) in ready {
            *self.gpu(index)? = state;
            if let Some(life) = self.life(index) {
                life.load = load;
                life.load_since = now;
            }
        }
        Ok(())
    }

    /// A process takes a GPU.
    pub(super) fn hold(&mut self, hold: Hold) -> Result<(), Refusal> {
        self.with_driver()?;
        let gpu = hold.gpu;
        let state = self.present(gpu)?;
        if hold.pid == 0 {
            return Err(crate::command::out_of_range("a process id", hold.pid, "1 or more"));
        }
        match (mig_on(state), hold.instance) {
            (true, None) => return Err(Refusal::InstanceNeeded { gpu }),
            (_, Some((gpu_instance, compute_instance)))
                if !exists(state, (gpu_instance, compute_instance)) =>
            {
                return Err(Refusal::NoSuchInstance { gpu, gpu_instance, compute_instance });
            }
            (true, Some(_)) if hold.kind == ProcessKind::Graphics => return Err(Refusal::NoGraphics { gpu }),
            _ => {}
        }
        let same = |p: &ProcessState| p.pid == hold.pid && p.kind == hold.kind && p.instance == hold.instance;
        if state.processes.iter().any(same) {
            return Err(Refusal::AlreadyHeld { gpu, pid: hold.pid });
        }
        admits(gpu, state, hold.kind)?;
        let (_, free) = room(state, hold.instance);
        let wanted = hold.memory_bytes.unwrap_or(0);
        if wanted > free {
            return Err(Refusal::OutOfMemory { gpu, wanted, free });
        }
        let started = self.start_ticks();
        // One that holds another GPU already is the same process.
        let other = self.state.gpus.iter().flat_map(|gpu| &gpu.processes).find(|p| p.pid == hold.pid);
        let start_ticks = other.map_or(started, |other| other.start_ticks);
        let cgroup = match (hold.cgroup, other) {
            (Some(cgroup), _) => cgroup,
            (None, Some(other)) => other.cgroup.clone(),
            (None, None) => service(&hold.name),
        };
        let same = self.state.gpus.iter_mut().flat_map(|gpu| &mut gpu.processes);
        same.filter(|p| p.pid == hold.pid).for_each(|p| p.cgroup.clone_from(&cgroup));
        let state = self.present(gpu)?;
        state.processes.push(ProcessState {
            pid: hold.pid,
            kind: hold.kind,
            memory_bytes: hold.memory_bytes,
            utilization: [0; 4],
            instance: hold.instance,
            name: hold.name,
            cgroup,
            start_ticks,
        });
        recount(state);
        Ok(())
    }

    /// What a process that starts now has in its `stat`.
    pub(super) fn start_ticks(&self) -> u64 {
        BOOTED_TICKS.saturating_add(self.ticks.saturating_mul(10))
    }

    /// A process lets go of one GPU, or of all. A scripted load whose process goes has ended.
    pub(super) fn release(&mut self, pid: u32, gpu: Option<u32>) -> Result<(), Refusal> {
        if let Some(gpu) = gpu {
            self.gpu(gpu)?;
        }
        let meant = |index: u32| gpu.is_none_or(|gpu| gpu == index);
        let holds = |state: &GpuState| {
            state.processes.iter().any(|process| process.pid == pid)
                || state.observers.iter().any(|observer| observer.pid == pid)
        };
        if !(0..).zip(&self.state.gpus).any(|(index, state)| meant(index) && holds(state)) {
            return Err(Refusal::NotHeld { pid });
        }
        for (_, state) in (0..).zip(&mut self.state.gpus).filter(|(index, _)| meant(*index)) {
            state.processes.retain(|process| process.pid != pid);
            state.observers.retain(|observer| observer.pid != pid);
            recount(state);
        }
        if let Some(life) = pid.checked_sub(SCRIPTED_PID).and_then(|gpu| self.life(gpu)) {
            life.load = Load::Idle;
        }
        Ok(())
    }

    /// Every process of a GPU dies, and its load with it.
    pub(super) fn kill_all(&mut self, gpu: u32) {
        if let Some(life) = self.life(gpu) {
            life.load = Load::Idle;
        }
        if let Ok(state) = self.gpu(gpu) {
            state.processes.clear();
            state.observers.clear();
            recount(state);
        }
    }
}

/// A GPU with `load` in place of the scripted one before.
fn loaded(
    gpu: u32,
    start_ticks: u64,
    state: Result<&mut GpuState, Refusal>,
    load: Load,
) -> Result<GpuState, Refusal> {
    let pid = SCRIPTED_PID.saturating_add(gpu);
    let mut state = state?.clone();
    state.processes.retain(|process| process.pid != pid);
    recount(&mut state);
    if load == Load::Idle {
        return Ok(state);
    }
    let instance = first_instance(gpu, &state)?;
    admits(gpu, &state, ProcessKind::Compute)?;
    let (total, free) = room(&state, instance);
    // Whole MiB, as much of what it wants as there is.
    let wanted = ((total as f64 * load.memory()) as u64).min(free) >> 20 << 20;
    if wanted < LEAST_BYTES {
        return Err(Refusal::OutOfMemory { gpu, wanted: LEAST_BYTES, free });
    }
    state.processes.push(ProcessState {
        pid,
        kind: ProcessKind::Compute,
        memory_bytes: Some(wanted),
        utilization: [0; 4],
        instance,
        name: load.program().to_owned(),
        cgroup: service(load.program()),
        start_ticks,
    });
    recount(&mut state);
    Ok(state)
}

/// The cgroup of a service that is this program.
pub(super) fn service(name: &str) -> String {
    format!("/system.slice/{}.service", program(name))
}

/// The program's own name, without path and arguments.
pub(crate) fn program(name: &str) -> &str {
    let program = name.split_whitespace().next().unwrap_or("unknown");
    program.rsplit('/').next().unwrap_or(program)
}

/// Whether the compute mode admits a further process.
fn admits(gpu: u32, state: &GpuState, kind: ProcessKind) -> Result<(), Refusal> {
    let computing = state.processes.iter().any(|process| process.kind == ProcessKind::Compute);
    let refused = match state.now.compute_mode {
        PROHIBITED => kind != ProcessKind::Graphics,
        EXCLUSIVE_THREAD | EXCLUSIVE_PROCESS => kind == ProcessKind::Compute && computing,
        _ => false,
    };
    if refused { Err(Refusal::ComputeMode { gpu }) } else { Ok(()) }
}

fn mig_on(state: &GpuState) -> bool {
    state.mig.as_ref().is_some_and(|mig| mig.mode.0)
}

fn exists(state: &GpuState, (gpu_instance, compute_instance): (u32, u32)) -> bool {
    let instances = state.mig.iter().flat_map(|mig| &mig.instances).filter(|gi| gi.id == gpu_instance);
    instances.flat_map(|gi| &gi.compute).any(|ci| ci.id == compute_instance)
}

/// Where a scripted load runs: nowhere in particular, or in the first compute instance.
fn first_instance(gpu: u32, state: &GpuState) -> Result<Option<(u32, u32)>, Refusal> {
    let Some(mig) = state.mig.as_ref().filter(|mig| mig.mode.0) else { return Ok(None) };
    let first = |gi: &GpuInstanceState| gi.compute.first().map(|ci| (gi.id, ci.id));
    mig.instances.iter().find_map(first).map(Some).ok_or(Refusal::InstanceNeeded { gpu })
}

/// Bytes in all and free, on the GPU or in a GPU instance.
fn room(state: &GpuState, instance: Option<(u32, u32)>) -> (u64, u64) {
    let total = state.board.memory_bytes.saturating_sub(state.board.reserved_bytes);
    let free = total.saturating_sub(state.now.memory_used_bytes);
    let mig = state.mig.as_ref();
    let Some((mig, (id, _))) = mig.zip(instance) else { return (total, free) };
    let Some(gi) = mig.instances.iter().find(|gi| gi.id == id) else { return (0, 0) };
    let size = mig.profiles.get(&gi.profile).map_or(0, |profile| profile.memory_mib << 20);
    (size, size.saturating_sub(gi.memory_used_bytes))
}

/// Adds up who holds what.
pub(super) fn recount(state: &mut GpuState) {
    let held = |processes: &mut dyn Iterator<Item = &ProcessState>| {
        processes.filter_map(|p| p.memory_bytes).fold(0_u64, u64::saturating_add)
    };
    state.now.memory_used_bytes = held(&mut state.processes.iter()).saturating_add(CONTEXT_BYTES);
    let contexts = u64::try_from(state.processes.len()).unwrap_or(0);
    state.now.bar1_used_bytes = ((1 + 2 * contexts) << 20).min(state.board.bar1_bytes);
    for gi in state.mig.iter_mut().flat_map(|mig| &mut mig.instances) {
        let inside = |process: &&ProcessState| process.instance.is_some_and(|(id, _)| id == gi.id);
        gi.memory_used_bytes = held(&mut state.processes.iter().filter(inside));
    }
}
