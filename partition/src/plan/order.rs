//! The steps of an arrangement, in order: whatever goes, then whatever comes.
//!
//! A GPU instance goes right after its compute instances, and compute instances come right after their GPU instance, so that
//! at each moment as few as possible are half done.

use gpulet_inventory::mig::Placement;

use crate::observed::{Compute, GpuDivision, Instance};
use crate::search::{Arrangement, Placed};
use crate::step::{ComputeAt, InstanceAt, Step};

use super::Plan;
use super::arrange::{Kind, Task};

/// The steps to this arrangement.
pub(super) fn steps(task: &Task<'_>, arrangement: &Arrangement) -> Plan {
    let mut plan = Plan::default();
    let shape = arrangement.largest_placeable.and_then(|at| task.grid.shapes.get(at));
    plan.largest_placeable = shape.map(|shape| shape.id);
    for (at, instance) in task.division.instances.iter().enumerate() {
        let stays = arrangement.placed.iter().find(|placed| placed.keeps == Some(at));
        match stays.and_then(|placed| task.kinds.get(placed.piece)).and_then(|kind| kind.within.get(at)) {
            Some(Some(within)) => {
                plan.kept.push(place_of(instance));
                plan.steps.extend(computes_that_go(instance, within));
            }
            _ => plan.steps.extend(destroy(instance)),
        }
    }
    for placed in &arrangement.placed {
        if let Some(kind) = task.kinds.get(placed.piece) {
            plan.steps.extend(create(kind, placed));
        }
    }
    plan
}

/// The steps after which there is nothing.
pub(super) fn clear(division: &GpuDivision) -> impl Iterator<Item = Step> {
    division.instances.iter().flat_map(destroy)
}

fn place_of(instance: &Instance) -> InstanceAt {
    InstanceAt { profile: instance.profile, placement: instance.placement }
}

fn destroy(instance: &Instance) -> Vec<Step> {
    let all = instance.computes.iter().map(|compute| destroy_compute(instance, compute));
    all.chain([Step::DestroyInstance(place_of(instance))]).collect()
}

fn computes_that_go(instance: &Instance, within: &Arrangement) -> Vec<Step> {
    let stays = |at: usize| within.placed.iter().any(|placed| placed.keeps == Some(at));
    let going = instance.computes.iter().enumerate().filter(|(at, _)| !stays(*at));
    going.map(|(_, compute)| destroy_compute(instance, compute)).collect()
}

fn destroy_compute(instance: &Instance, compute: &Compute) -> Step {
    let at = ComputeAt { profile: compute.profile, placement: compute.placement };
    Step::DestroyCompute { within: place_of(instance), compute: at }
}

fn create(kind: &Kind<'_>, placed: &Placed) -> Vec<Step> {
    let at = InstanceAt { profile: kind.profile.id, placement: placed.placement };
    let there = placed.keeps.and_then(|there| kind.within.get(there)).and_then(Option::as_ref);
    let instance = there.is_none().then_some(Step::CreateInstance(at));
    let mut missing: Vec<&Placed> = there.unwrap_or(&kind.anew).placed.iter().collect();
    missing.retain(|compute| compute.keeps.is_none());
    // Where the driver chooses places, the largest come first, so that they find one.
    missing.sort_by_key(|compute| std::cmp::Reverse(compute.placement.size));
    let computes = missing.into_iter().filter_map(|compute| create_compute(kind, at, compute));
    instance.into_iter().chain(computes).collect()
}

fn create_compute(kind: &Kind<'_>, within: InstanceAt, placed: &Placed) -> Option<Step> {
    let profile = kind.profile.compute_profiles.get(placed.shape)?;
    let placement: Option<Placement> = profile.placements.as_ref().map(|_| placed.placement);
    Some(Step::CreateCompute { within, profile: profile.id, placement })
}
