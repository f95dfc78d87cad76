//! Several GPUs.

use std::collections::BTreeMap;

use super::tables::{FOUR, ONE, SEVEN, THREE, a30, a100, divided, holder, used, uuid, wanted};
use crate::desired::Wanted;
use crate::observed::GpuDivision;
use crate::plan::{Outcome, plan};
use crate::step::Step;

fn numbered(number: u32, division: GpuDivision) -> GpuDivision {
    GpuDivision { gpu: uuid(number), ..division }
}

#[test]
fn each_gpu_has_its_own_plan() {
    let observed = [
        numbered(1, divided(a100(), &[(THREE, 0)])),
        numbered(2, divided(a100(), &[(THREE, 0)])),
        numbered(3, used(divided(a100(), &[(ONE, 0), (ONE, 4)]), &[0])),
        numbered(4, a30()),
    ];
    let goal = BTreeMap::from([
        (uuid(1), Wanted::On(wanted(&a100(), &[THREE]))),
        (uuid(2), Wanted::On(wanted(&a100(), &[FOUR]))),
        (uuid(3), Wanted::On(wanted(&a100(), &[SEVEN]))),
        (uuid(9), Wanted::Off),
    ]);
    let node = plan(&goal, &observed);
    assert!(!node.is_empty());
    let [same, other, blocked, left, absent] = &node.gpus[..] else { panic!("{node:?}") };
    assert!(matches!(&same.outcome, Outcome::Steps(plan) if plan.steps.is_empty()));
    assert_eq!(same.largest_placeable, Some(THREE));
    assert!(matches!(&other.outcome, Outcome::Steps(plan) if plan.steps.len() == 4));
    assert_eq!(other.largest_placeable, Some(THREE));
    assert!(matches!(&blocked.outcome, Outcome::Refused(refusal) if refusal.is_blocked()));
    // Between a 1g at the first unit and one at the fifth.
    assert_eq!(blocked.largest_placeable, Some(super::tables::TWO));
    assert_eq!(left.outcome, Outcome::LeftAlone);
    assert_eq!(left.largest_placeable, Some(0));
    assert!(matches!(&absent.outcome, Outcome::Refused(refusal) if refusal.reason() == "NoSuchGpu"));
    assert_eq!(node.refusals().count(), 2);
}

#[test]
fn what_ends_is_told_once() {
    let observed = [
        numbered(1, divided(a100(), &[(THREE, 0), (THREE, 4)])),
        numbered(2, used(divided(a100(), &[(ONE, 0), (ONE, 4)]), &[0])),
    ];
    let goal = BTreeMap::from([
        (uuid(1), Wanted::On(wanted(&a100(), &[THREE]))),
        (uuid(2), Wanted::On(wanted(&a100(), &[SEVEN]))),
    ]);
    let ends = plan(&goal, &observed).disruptions();
    let told: Vec<_> = ends
        .iter()
        .map(|one| (one.gpu.clone(), one.instance.unwrap().profile, one.holders.clone()))
        .collect();
    assert_eq!(told, [(uuid(1), THREE, vec![]), (uuid(2), ONE, vec![holder(100)])]);
}

#[test]
fn nothing_wanted_is_an_empty_plan() {
    let observed = [numbered(1, divided(a100(), &[(THREE, 0)]))];
    let node = plan(&BTreeMap::new(), &observed);
    assert!(node.is_empty() && node.disruptions().is_empty() && node.refusals().next().is_none());
}

/// Pipelines read it.
#[test]
fn a_plan_can_be_written() {
    let observed = [numbered(1, used(divided(a100(), &[(ONE, 0), (ONE, 4)]), &[0]))];
    let goal = |profiles: &[u32]| BTreeMap::from([(uuid(1), Wanted::On(wanted(&a100(), profiles)))]);
    let written = serde_json::to_value(plan(&goal(&[SEVEN]), &observed)).unwrap();
    let refused = &written["gpus"][0]["outcome"]["refused"];
    assert_eq!(refused["reason"], "blocked");
    assert_eq!(refused["instances"][0]["placement"]["start"], 0);
    let written = serde_json::to_value(plan(&goal(&[ONE]), &observed)).unwrap();
    let step = &written["gpus"][0]["outcome"]["steps"]["steps"][1];
    let read: Step = serde_json::from_value(step.clone()).unwrap();
    assert!(matches!(read, Step::DestroyInstance(at) if at.placement.start == 4));
}
