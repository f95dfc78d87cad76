//! MIG mode around the instances.

use gpulet_inventory::mig::MigMode;

use super::layouts::Layouts;
use super::model::carry_out;
use super::tables::{ONE, THREE, a100, divided, holder, used, wanted};
use crate::desired::Wanted;
use crate::observed::GpuDivision;
use crate::plan::plan_gpu;
use crate::refusal::Refusal;
use crate::step::Step;

fn in_mode(mut division: GpuDivision, current: bool, pending: bool) -> GpuDivision {
    division.mode = Some(MigMode { current, pending });
    division
}

#[test]
fn turning_it_on_comes_before_the_first_instance() {
    let division = in_mode(a100(), false, false);
    let plan = plan_gpu(&division, &Wanted::On(wanted(&division, &[THREE, THREE]))).unwrap();
    assert_eq!(plan.steps[0], Step::SetMode(true));
    assert_eq!(plan.steps.iter().filter(|step| matches!(step, Step::CreateInstance(_))).count(), 2);
    let mut after = division.clone();
    carry_out(&mut after, &Layouts::of(&a100()), &plan.steps);
    assert_eq!(after.instances.len(), 2);
    // What does not fit is told before the mode is touched; and it cannot be on and wait for someone to leave.
    let refusal = plan_gpu(&division, &Wanted::On(wanted(&division, &[THREE, THREE, ONE]))).unwrap_err();
    assert_eq!(refusal.reason(), "Infeasible");
}

#[test]
fn turning_it_off_comes_after_the_last_instance() {
    let division = divided(a100(), &[(ONE, 0), (THREE, 4)]);
    let plan = plan_gpu(&division, &Wanted::Off).unwrap();
    assert_eq!(plan.steps.last(), Some(&Step::SetMode(false)));
    let mut after = division.clone();
    carry_out(&mut after, &Layouts::of(&a100()), &plan.steps);
    assert!(after.instances.is_empty());
    assert_eq!(plan.largest_placeable, None);
}

/// No instance survives a change of mode, so each that is in use is in the way; and so is who uses the whole GPU.
#[test]
fn whoever_uses_it_is_in_the_way() {
    let division = used(divided(a100(), &[(ONE, 0), (ONE, 1), (THREE, 4)]), &[0, 2]);
    let Err(Refusal::Blocked { instances, .. }) = plan_gpu(&division, &Wanted::Off) else {
        panic!("blocked")
    };
    assert_eq!(instances.iter().map(|one| one.id.0).collect::<Vec<_>>(), [1, 3]);

    let mut division = in_mode(a100(), false, false);
    division.holders = vec![holder(7)];
    let refusal = plan_gpu(&division, &Wanted::On(Vec::new())).unwrap_err();
    assert!(refusal.to_string().ends_with("in use: by process 7 (python) of Pod ml/train-7"), "{refusal}");
    // Within MIG mode, who only watches the GPU is in no one's way.
    let division = in_mode(division, true, true);
    assert!(plan_gpu(&division, &Wanted::On(wanted(&division, &[ONE]))).is_ok());
}

/// What the next reset would undo is set once more, and nothing is lost by it.
#[test]
fn a_pending_change_is_taken_back() {
    let division = used(in_mode(divided(a100(), &[(THREE, 4)]), true, false), &[0]);
    let plan = plan_gpu(&division, &Wanted::On(wanted(&division, &[THREE]))).unwrap();
    assert_eq!(plan.steps, [Step::SetMode(true)]);
    let mut division = in_mode(a100(), false, true);
    division.holders = vec![holder(7)];
    assert_eq!(plan_gpu(&division, &Wanted::Off).unwrap().steps, [Step::SetMode(false)]);
}

#[test]
fn what_is_as_wanted_has_no_steps() {
    let off = in_mode(a100(), false, false);
    assert!(plan_gpu(&off, &Wanted::Off).unwrap().steps.is_empty());
    let empty = a100();
    assert!(plan_gpu(&empty, &Wanted::On(Vec::new())).unwrap().steps.is_empty());
    let none = GpuDivision { mode: None, profiles: Vec::new(), ..a100() };
    assert!(plan_gpu(&none, &Wanted::Off).unwrap().steps.is_empty());
}

#[test]
fn what_cannot_be_divided_is_told() {
    let none = GpuDivision { mode: None, profiles: Vec::new(), ..a100() };
    assert_eq!(plan_gpu(&none, &Wanted::On(Vec::new())).unwrap_err().reason(), "NotMigCapable");
    let old = GpuDivision { profiles: Vec::new(), ..in_mode(a100(), false, false) };
    // The mode alone can be had, after which the driver tells them.
    assert_eq!(plan_gpu(&old, &Wanted::On(Vec::new())).unwrap().steps, [Step::SetMode(true)]);
    let some = Wanted::On(wanted(&a100(), &[ONE]));
    assert_eq!(plan_gpu(&old, &some).unwrap_err().reason(), "NoProfiles");
}
