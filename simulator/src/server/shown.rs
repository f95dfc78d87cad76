//! What of a node's state is also shown as files, to rewrite them only when that changes.

use crate::state::{MigState, NodeState, ObserverState, ProcessState};

/// A process: its number, its cgroup, its instance.
type Process = (u32, String, Option<(u32, u32)>);

/// What of the state is also shown as files.
#[derive(PartialEq)]
pub(super) struct Shown {
    driver: Option<String>,
    pub(super) missing_symbols: Vec<String>,
    reachable: Vec<(bool, bool)>,
    pcie: Vec<(u32, u32)>,
    processes: Vec<Vec<Process>>,
    observers: Vec<Vec<ObserverState>>,
    modeset: bool,
    pub(super) boots: u64,
    mig: Vec<Option<MigState>>,
}

impl Shown {
    pub(super) fn of(state: &NodeState) -> Self {
        let gpus = || state.gpus.iter();
        Self {
            driver: state.driver.loaded.then(|| format!("{} {}", state.driver.load, state.driver.version)),
            missing_symbols: state.driver.missing_symbols.clone(),
            reachable: gpus().map(|gpu| (gpu.lost, gpu.bound)).collect(),
            pcie: gpus().map(|gpu| (gpu.now.pcie_generation, gpu.now.pcie_width)).collect(),
            processes: gpus().map(|gpu| gpu.processes.iter().map(process).collect()).collect(),
            observers: gpus().map(|gpu| gpu.observers.clone()).collect(),
            modeset: state.driver.modeset,
            boots: state.boots,
            mig: gpus().map(|gpu| gpu.mig.as_ref().map(instances_only)).collect(),
        }
    }
}

fn process(of: &ProcessState) -> Process {
    (of.pid, of.cgroup.clone(), of.instance)
}

/// Mode and instances: what their memory holds is no matter of files, and the profiles do not change.
fn instances_only(mig: &MigState) -> MigState {
    let mut mig = MigState { mode: mig.mode, instances: mig.instances.clone(), ..MigState::default() };
    mig.instances.iter_mut().for_each(|instance| instance.memory_used_bytes = 0);
    mig
}
