//! Loading and unloading the kernel module, and what that makes of the GPUs' state.

use super::{Engine, birth, processes};
use crate::command::{Load, Refusal};
use crate::node::units::DriverVersion;
use crate::node::{Gpu, mig};
use crate::state::{Counters, GpuState};

impl Engine {
    /// Unloads the driver.
    pub(super) fn unload_driver(&mut self, force: bool) -> Result<(), Refusal> {
        self.with_driver()?;
        let mut pids: Vec<u32> = self.clients.iter().map(|client| client.pid).collect();
        pids.extend(self.state.gpus.iter().flat_map(|gpu| &gpu.processes).map(|process| process.pid));
        pids.extend(self.state.gpus.iter().flat_map(|gpu| &gpu.observers).map(|observer| observer.pid));
        pids.sort_unstable();
        pids.dedup();
        if !force && !pids.is_empty() {
            return Err(Refusal::InUse { pids });
        }
        if !force && self.state.driver.modeset {
            return Err(Refusal::ModesetActive);
        }
        for gpu in self.gpu_numbers() {
            self.kill_all(gpu);
        }
        self.state.driver.loaded = false;
        Ok(())
    }

    /// Loads the driver, in the last version unless another is wanted.
    pub(super) fn load_driver(&mut self, version: Option<&str>) -> Result<(), Refusal> {
        if self.node.description().driver.is_none() {
            return Err(Refusal::NoDriver);
        }
        if self.state.driver.loaded {
            return Err(Refusal::DriverLoaded);
        }
        let text = version.unwrap_or(&self.state.driver.version);
        let version: DriverVersion =
            text.parse().map_err(|_| Refusal::InvalidVersion { version: text.to_owned() })?;
        let denied = self.state.driver.no_permission;
        self.state.driver = birth::driver(&version, self.state.driver.load + 1);
        self.state.driver.no_permission = denied;
        // Mode setting is a module of its own, which whoever wants it loads again.
        self.state.driver.modeset = false;
        // Loading it binds all that it can drive.
        let unbound: Vec<u32> =
            (0..).zip(&self.state.gpus).filter(|(_, gpu)| !gpu.bound).map(|(gpu, _)| gpu).collect();
        for ((gpu, life), state) in self.node.gpus().iter().zip(&mut self.lives).zip(&mut self.state.gpus) {
            life.body.reset();
            life.load = Load::Idle;
            state.bound = true;
            fresh(gpu, state, &version);
        }
        for gpu in unbound {
            let reachable = self.gpu(gpu)?.is_reachable();
            self.set_links(gpu, reachable);
        }
        Ok(())
    }

    /// Resets a GPU as a person at the machine does.
    pub(super) fn reset(&mut self, gpu: u32) -> Result<(), Refusal> {
        self.with_driver()?;
        let pids = self.open_by(gpu, None);
        let virtual_machine = self.state.virtual_machine;
        let modeset = self.state.driver.modeset;
        let state = self.present(gpu)?;
        match () {
            () if virtual_machine => Err(Refusal::ResetNotPossible { gpu }),
            () if !pids.is_empty() => Err(Refusal::InUse { pids }),
            () if state.now.persistence => Err(Refusal::Persistent { gpu }),
            () if modeset => Err(Refusal::ModesetActive),
            () => {
                self.reset_gpu(gpu);
                Ok(())
            }
        }
    }

    /// Starts the machine anew.
    pub(super) fn reboot(&mut self) -> Result<(), Refusal> {
        let denied = self.state.driver.no_permission;
        if self.state.driver.loaded {
            self.unload_driver(true)?;
        }
        self.clients.clear();
        self.state.boots += 1;
        if self.node.description().driver.is_some() {
            self.load_driver(None)?;
            self.state.driver.no_permission = denied;
        }
        Ok(())
    }

    /// Brings one GPU to where a reset under the present driver leaves it.
    pub(super) fn reset_gpu(&mut self, gpu: u32) {
        let version = self.state.driver.version.parse::<DriverVersion>();
        let Ok(index) = usize::try_from(gpu) else { return };
        let parts = (self.node.gpus().get(index), self.lives.get_mut(index), self.state.gpus.get_mut(index));
        if let ((Some(gpu), Some(life), Some(state)), Ok(version)) = (parts, version) {
            life.body.reset();
            life.load = Load::Idle;
            // Whether the driver stays on it is the driver's own setting, not the GPU's.
            let persistence = state.now.persistence;
            fresh(gpu, state, &version);
            state.now.persistence = persistence;
            state.resets += 1;
        }
    }
}

/// What is volatile starts anew. Lifetime counters stay; MIG instances do not, and neither does MIG mode where it
/// changes without a reset. What was pending is in force.
fn fresh(gpu: &Gpu, state: &mut GpuState, version: &DriverVersion) {
    let old = std::mem::take(&mut state.count);
    let [_, _, corrected, uncorrected] = old.ecc;
    state.count = Counters {
        ecc: [0, 0, corrected, uncorrected],
        remapped_rows: old.remapped_rows,
        ..Counters::default()
    };
    let pending_ecc = state.now.ecc_mode.1;
    let failed_remap = state.now.row_remap.1;
    state.now = birth::gauges(gpu);
    state.now.ecc_mode = (pending_ecc, pending_ecc);
    state.now.row_remap = (false, failed_remap);
    for link in &mut state.nvlinks {
        link.data_kib = (0, 0);
        link.errors = [0; 4];
    }
    if let (Some(mig_state), Some(board)) = (&mut state.mig, &gpu.board.mig) {
        let mode = mig_state.mode.1 && !board.resetless;
        mig_state.mode = (mode, mode);
        mig_state.profiles = mig::profiles(board, version);
        mig_state.instances.clear();
    }
    state.processes.clear();
    state.observers.clear();
    processes::recount(state);
}
