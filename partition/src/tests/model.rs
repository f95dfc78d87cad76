//! A GPU that does what it is told, and refuses what a driver refuses.

use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId, Placement};

use crate::observed::{Compute, GpuDivision, Instance};
use crate::step::{InstanceAt, Step};

use super::layouts::Layouts;

/// Carries out steps one after the other.
///
/// # Panics
/// When a step is one that a driver would refuse: of something that is absent or in use, or where there is no room.
pub(super) fn carry_out(division: &mut GpuDivision, layouts: &Layouts, steps: &[Step]) {
    for step in steps {
        carry_out_one(division, layouts, step);
    }
}

fn carry_out_one(division: &mut GpuDivision, layouts: &Layouts, step: &Step) {
    match step {
        Step::SetMode(on) => {
            let mode = division.mode.as_mut().unwrap();
            assert!(mode.current == *on || division.instances.is_empty(), "instances are in the way");
            assert!(mode.current == *on || division.holders.is_empty(), "the GPU is in use");
            (mode.current, mode.pending) = (*on, *on);
        }
        Step::DestroyCompute { within, compute } => {
            let instance = find(division, within);
            let found =
                |there: &Compute| (there.profile, there.placement) == (compute.profile, compute.placement);
            let at = instance.computes.iter().position(found).unwrap();
            let gone = instance.computes.remove(at);
            assert!(gone.holders.is_empty() && instance.holders.is_empty(), "in use: {gone:?}");
        }
        Step::DestroyInstance(at) => {
            let instance = find(division, at);
            assert!(instance.computes.is_empty() && instance.holders.is_empty(), "in use: {instance:?}");
            division.instances.retain(|instance| place_of(instance) != *at);
        }
        Step::CreateInstance(at) => {
            assert!(division.mode.unwrap().current);
            let instance = Instance {
                id: GpuInstanceId(0),
                profile: at.profile,
                placement: at.placement,
                computes: Vec::new(),
                holders: Vec::new(),
            };
            division.instances.push(instance);
            assert!(layouts.legal(layout(division, layouts)), "no room: {at:?}");
        }
        Step::CreateCompute { within, profile, placement } => {
            let placement = placement.expect("places are told");
            let offered = division.profile(within.profile).unwrap().clone();
            let own = offered.compute_profiles.iter().find(|own| own.id == *profile).unwrap();
            assert!(own.placements.as_ref().unwrap().contains(&placement), "no such place: {placement:?}");
            let instance = find(division, within);
            let apart = |other: &Compute| are_apart(other.placement, placement);
            assert!(instance.computes.iter().all(apart), "no room: {placement:?}");
            let id = ComputeInstanceId(0);
            instance.computes.push(Compute { id, profile: *profile, placement, holders: Vec::new() });
        }
    }
}

fn are_apart(one: Placement, other: Placement) -> bool {
    one.start + one.size <= other.start || other.start + other.size <= one.start
}

fn place_of(instance: &Instance) -> InstanceAt {
    InstanceAt { profile: instance.profile, placement: instance.placement }
}

fn find<'a>(division: &'a mut GpuDivision, at: &InstanceAt) -> &'a mut Instance {
    division.instances.iter_mut().find(|instance| place_of(instance) == *at).expect("it is there")
}

/// The layout as a set of spots.
pub(super) fn layout(division: &GpuDivision, layouts: &Layouts) -> u64 {
    let spot = |instance: &Instance| {
        let profile = division.profiles.iter().position(|profile| profile.id == instance.profile).unwrap();
        layouts.spots.iter().position(|spot| *spot == (profile, instance.placement.start)).unwrap()
    };
    division.instances.iter().fold(0, |layout, instance| layout | 1 << spot(instance))
}
