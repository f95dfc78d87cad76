//! Changing a simulated node's GPUs by our driver.

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::mig::Placement;
use gpulet_nvml::{Change, ChangeError, Changed};
use gpulet_partition::observed::{GpuDivision, Profile};
use gpulet_partition::step::{ComputeAt, InstanceAt, Step};
use gpulet_simulator::command::{Command, Hold};
use gpulet_simulator::state::{GpuState, ProcessKind};

use super::Rig;

pub(crate) fn place(start: u32, size: u32) -> Placement {
    Placement { start, size }
}

/// A process that takes a GPU or one of its instances.
pub(crate) fn hold(gpu: u32, pid: u32, kind: ProcessKind, instance: Option<(u32, u32)>) -> Command {
    let name = "notebook".into();
    Command::Hold(Hold { gpu, pid, kind, memory_bytes: Some(1 << 20), instance, name, cgroup: None })
}

/// What a GPU is, and where an instance of a profile lies that is named as people do.
pub(crate) fn at(division: &GpuDivision, name: &str, start: u32) -> InstanceAt {
    let profile = profile(division, name);
    let placement = *profile.placements.iter().find(|placement| placement.start == start).unwrap();
    InstanceAt { profile: profile.id, placement }
}

pub(crate) fn profile<'a>(division: &'a GpuDivision, name: &str) -> &'a Profile {
    let named = division.profiles.iter().find(|profile| profile.name == name);
    named.unwrap_or_else(|| panic!("no {name}: {:?}", division.profiles))
}

pub(crate) fn compute(kind: u32, start: u32, size: u32) -> ComputeAt {
    ComputeAt { profile: kind, placement: place(start, size) }
}

impl Rig {
    pub(crate) fn uuid(&self, gpu: usize) -> GpuUuid {
        self.truth(gpu).identity.uuid.parse().unwrap()
    }

    /// The hardware's.
    pub(crate) fn truth(&self, gpu: usize) -> GpuState {
        self.node.state().gpus[gpu].clone()
    }

    pub(crate) async fn division(&self, gpu: usize) -> GpuDivision {
        self.driver.division(&self.uuid(gpu)).await.unwrap()
    }

    pub(crate) async fn change(&self, gpu: usize, step: Step) -> Result<Changed, ChangeError> {
        self.driver.change(&self.uuid(gpu), Change::Step(step)).await
    }

    /// A change that is not refused, nor put off.
    pub(crate) async fn done(&self, gpu: usize, step: Step) {
        let changed = self.change(gpu, step).await.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(changed, Changed::default(), "{step:?}");
    }

    /// Where the hardware's instances lie, by the names of their profiles; in brackets the kinds and places of their compute
    /// instances.
    pub(crate) fn layout(&self, gpu: usize) -> Vec<String> {
        let mig = self.truth(gpu).mig.unwrap();
        let mut instances = mig.instances.clone();
        instances.sort_by_key(|instance| instance.placement);
        let told = |instance: &gpulet_simulator::state::GpuInstanceState| {
            let profile = &mig.profiles[&instance.profile];
            let mut computes = instance.compute.clone();
            computes.sort_by_key(|compute| compute.placement);
            let own: Vec<String> = computes
                .iter()
                .map(|own| format!("{}@{}:{}", own.profile, own.placement.0, own.placement.1))
                .collect();
            format!("{}@{} [{}]", profile.name, instance.placement.0, own.join(" "))
        };
        instances.iter().map(told).collect()
    }
}
