//! A GPU that does what it is told, and refuses what a driver refuses.

use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId, Placement};

use crate::observed::{Compute, GpuDivision, Instance};
use crate::step::{InstanceAt, Step};

use super::layouts::Layouts;

/// Carries out steps one after the other.
///
/// # Panics
/// When a step is one that a driver would refuse.
pub(super) fn carry_out(division: &mut GpuDivision, layouts: &Layouts, steps: &[Step]) {
    for step in steps {
        carry_out_one(division, layouts, step).unwrap_or_else(|refusal| panic!("{step:?}: {refusal}"));
    }
}

/// Carries out one step, or refuses it as a driver would: of something that is absent or in use, or where there is no room.
pub(super) fn carry_out_one(
    division: &mut GpuDivision,
    layouts: &Layouts,
    step: &Step,
) -> Result<(), &'static str> {
    match step {
        Step::SetMode(on) => set_mode(division, *on),
        Step::DestroyCompute { within, compute } => {
            let instance = find(division, within)?;
            let held = !instance.holders.is_empty();
            let at = instance.computes.iter().position(|there| there.at() == *compute).ok_or("absent")?;
            permit(!held && instance.computes[at].holders.is_empty(), "in use")?;
            instance.computes.remove(at);
            Ok(())
        }
        Step::DestroyInstance(at) => {
            let instance = find(division, at)?;
            permit(instance.computes.is_empty() && instance.holders.is_empty(), "in use")?;
            division.instances.retain(|instance| instance.at() != *at);
            Ok(())
        }
        Step::CreateInstance(at) => create_instance(division, layouts, at),
        Step::CreateCompute { within, profile, placement } => {
            create_compute(division, within, *profile, placement.ok_or("places are told")?)
        }
    }
}

fn permit(is_permitted: bool, refusal: &'static str) -> Result<(), &'static str> {
    is_permitted.then_some(()).ok_or(refusal)
}

fn set_mode(division: &mut GpuDivision, on: bool) -> Result<(), &'static str> {
    let mode = division.mode.as_mut().ok_or("no such mode")?;
    let is_free = division.instances.is_empty() && division.holders.is_empty();
    permit(mode.current == on || is_free, "in use")?;
    (mode.current, mode.pending) = (on, on);
    Ok(())
}

fn create_instance(
    division: &mut GpuDivision,
    layouts: &Layouts,
    at: &InstanceAt,
) -> Result<(), &'static str> {
    permit(division.mode.is_some_and(|mode| mode.current), "not in MIG mode")?;
    let offered = division.profile(at.profile).ok_or("no such profile")?;
    permit(offered.placements.contains(&at.placement), "no such place")?;
    let taken = division.instances.iter().map(|instance| instance.placement);
    permit(taken.into_iter().all(|placement| are_apart(placement, at.placement)), "no room")?;
    division.instances.push(Instance {
        id: GpuInstanceId(division.instances.iter().map(|instance| instance.id.0).max().unwrap_or(0) + 1),
        profile: at.profile,
        placement: at.placement,
        computes: Vec::new(),
        holders: Vec::new(),
    });
    if !layouts.legal(layout(division, layouts)) {
        division.instances.pop();
        return Err("no room");
    }
    Ok(())
}

fn create_compute(
    division: &mut GpuDivision,
    within: &InstanceAt,
    profile: u32,
    placement: Placement,
) -> Result<(), &'static str> {
    let offered = division.profile(within.profile).ok_or("no such profile")?;
    let own = offered.compute_profiles.iter().find(|own| own.id == profile).ok_or("no such profile")?;
    let told = own.placements.as_ref().ok_or("places are told")?;
    permit(told.contains(&placement), "no such place")?;
    let instance = find(division, within)?;
    let apart = |other: &Compute| are_apart(other.placement, placement);
    permit(instance.computes.iter().all(apart), "no room")?;
    let id = instance.computes.iter().map(|compute| compute.id.0 + 1).max().unwrap_or(0);
    instance.computes.push(Compute { id: ComputeInstanceId(id), profile, placement, holders: Vec::new() });
    Ok(())
}

pub(super) fn are_apart(one: Placement, other: Placement) -> bool {
    one.start + one.size <= other.start || other.start + other.size <= one.start
}

fn find<'a>(division: &'a mut GpuDivision, at: &InstanceAt) -> Result<&'a mut Instance, &'static str> {
    division.instances.iter_mut().find(|instance| instance.at() == *at).ok_or("absent")
}

/// The layout as a set of spots.
pub(super) fn layout(division: &GpuDivision, layouts: &Layouts) -> u64 {
    let spot = |instance: &Instance| {
        let profile = division.profiles.iter().position(|profile| profile.id == instance.profile).unwrap();
        layouts.spots.iter().position(|spot| *spot == (profile, instance.placement.start)).unwrap()
    };
    division.instances.iter().fold(0, |layout, instance| layout | 1 << spot(instance))
}
