//! Who has a GPU open without a context on it.

use super::{Engine, processes};
use crate::command::{Observe, Refusal, out_of_range};
use crate::state::ObserverState;

impl Engine {
    /// A program opens a GPU, or an instance.
    pub(super) fn observe(&mut self, observe: Observe) -> Result<(), Refusal> {
        self.with_driver()?;
        let (gpu, started) = (observe.gpu, self.start_ticks());
        if observe.pid == 0 {
            return Err(out_of_range("a process id", observe.pid, "1 or more"));
        }
        let cgroup = observe.cgroup.unwrap_or_else(|| processes::service(&observe.name));
        let state = self.present(gpu)?;
        if let Some((gpu_instance, compute_instance)) = observe.instance {
            let found = state.mig.iter().flat_map(|mig| &mig.instances).find(|gi| gi.id == gpu_instance);
            let has = |ci: u32| found.is_some_and(|gi| gi.compute.iter().any(|compute| compute.id == ci));
            if found.is_none() || !compute_instance.is_none_or(has) {
                let compute_instance = compute_instance.unwrap_or(u32::MAX);
                return Err(Refusal::NoSuchInstance { gpu, gpu_instance, compute_instance });
            }
        }
        let same = |there: &ObserverState| there.pid == observe.pid && there.instance == observe.instance;
        if state.observers.iter().any(same) {
            return Err(Refusal::AlreadyHeld { gpu, pid: observe.pid });
        }
        state.observers.push(ObserverState {
            pid: observe.pid,
            name: observe.name,
            cgroup,
            start_ticks: started,
            instance: observe.instance,
        });
        Ok(())
    }
}
