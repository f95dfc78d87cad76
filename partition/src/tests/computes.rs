//! Compute instances within GPU instances.

use gpulet_inventory::mig::{ComputeInstanceId, Placement};

use super::layouts::Layouts;
use super::model::carry_out;
use super::tables::{FOUR, SEVEN, THREE, a100, divided, holder};
use crate::desired::{Wanted, WantedInstance};
use crate::observed::{Compute, GpuDivision};
use crate::plan::{Plan, plan_gpu};
use crate::refusal::Refusal;
use crate::step::Step;

/// Compute profiles of one, two, three, four and seven slices.
const ONE_C: u32 = 0;
const TWO_C: u32 = 1;
const THREE_C: u32 = 2;

fn want(instances: &[(u32, &[u32])]) -> Wanted {
    let one = |(profile, computes): &(u32, &[u32])| WantedInstance {
        profile: *profile,
        computes: computes.to_vec(),
    };
    Wanted::On(instances.iter().map(one).collect())
}

fn compute(id: u32, profile: u32, start: u32, size: u32, pid: Option<u32>) -> Compute {
    let placement = Placement { start, size };
    Compute { id: ComputeInstanceId(id), profile, placement, holders: pid.map(holder).into_iter().collect() }
}

/// A GPU with one 3g that has these compute instances.
fn three_with(computes: Vec<Compute>) -> GpuDivision {
    let mut division = divided(a100(), &[(THREE, 4)]);
    division.instances[0].computes = computes;
    division
}

/// Plans and carries out; tells profile and first slice of the compute instances of the first GPU instance.
fn reach(division: &GpuDivision, wanted: &Wanted) -> (Plan, Vec<(u32, u32)>) {
    let plan = plan_gpu(division, wanted).unwrap();
    let mut after = division.clone();
    carry_out(&mut after, &Layouts::of(&a100()), &plan.steps);
    let mut within: Vec<(u32, u32)> =
        after.instances[0].computes.iter().map(|one| (one.profile, one.placement.start)).collect();
    within.sort_by_key(|(_, start)| *start);
    (plan, within)
}

#[test]
fn three_of_one_slice_share_a_gpu_instance() {
    let (plan, within) = reach(&a100(), &want(&[(THREE, &[ONE_C, ONE_C, ONE_C])]));
    assert_eq!(within, [(ONE_C, 0), (ONE_C, 1), (ONE_C, 2)]);
    assert_eq!(plan.steps.len(), 4);
}

/// The large one has one place, so the small one lies behind it, in whatever order they are asked for.
#[test]
fn the_large_one_finds_its_place() {
    for asked in [[ONE_C, TWO_C], [TWO_C, ONE_C]] {
        assert_eq!(reach(&a100(), &want(&[(THREE, &asked)])).1, [(TWO_C, 0), (ONE_C, 2)]);
    }
}

#[test]
fn what_does_not_fit_together_is_refused_and_nothing_is_created_without() {
    for computes in [&[TWO_C, TWO_C][..], &[THREE_C, ONE_C], &[ONE_C, ONE_C, ONE_C, ONE_C]] {
        let refusal = plan_gpu(&a100(), &want(&[(THREE, computes)])).unwrap_err();
        assert_eq!(refusal.reason(), "ComputesInfeasible");
        assert!(!refusal.is_blocked());
    }
}

#[test]
fn those_that_stay_are_not_touched() {
    let division = three_with(vec![compute(0, ONE_C, 0, 1, None), compute(1, ONE_C, 1, 1, Some(5))]);
    let (plan, within) = reach(&division, &want(&[(THREE, &[ONE_C, ONE_C, ONE_C])]));
    assert_eq!(within.len(), 3);
    assert_eq!(plan.kept.len(), 1);
    assert!(matches!(plan.steps[..], [Step::CreateCompute { .. }]), "{plan:?}");
    assert!(plan_gpu(&division, &want(&[(THREE, &[ONE_C, ONE_C])])).unwrap().steps.is_empty());
}

/// The idle one makes way, the one in use does not; and where it would have to, it is named.
#[test]
fn one_in_use_stays_within_its_gpu_instance() {
    let division = three_with(vec![compute(0, ONE_C, 0, 1, None), compute(1, ONE_C, 2, 1, Some(5))]);
    let (plan, within) = reach(&division, &want(&[(THREE, &[TWO_C, ONE_C])]));
    assert_eq!(within, [(TWO_C, 0), (ONE_C, 2)]);
    assert!(matches!(plan.steps[..], [Step::DestroyCompute { .. }, Step::CreateCompute { .. }]), "{plan:?}");
    for goal in [want(&[(THREE, &[THREE_C])]), want(&[(FOUR, &[ONE_C])]), want(&[(SEVEN, &[4])]), want(&[])] {
        let refusal = plan_gpu(&division, &goal);
        let Err(Refusal::Blocked { instances, .. }) = &refusal else { panic!("{refusal:?}") };
        assert_eq!(instances[0].holders, [holder(5)]);
    }
}

/// Of two GPU instances of the same profile, the one becomes which that has to change least, or can.
#[test]
fn each_becomes_what_it_is_nearest_to() {
    let mut division = divided(a100(), &[(THREE, 0), (THREE, 4)]);
    division.instances[0].computes = vec![compute(0, ONE_C, 0, 1, Some(1)), compute(1, ONE_C, 1, 1, None)];
    let wanted = want(&[(THREE, &[THREE_C]), (THREE, &[ONE_C, ONE_C])]);
    assert!(plan_gpu(&division, &wanted).unwrap().steps.is_empty());
    division.instances.reverse();
    assert!(plan_gpu(&division, &wanted).unwrap().steps.is_empty());
    // Both have to be whole: the one in use cannot.
    assert!(
        plan_gpu(&division, &want(&[(THREE, &[THREE_C]), (THREE, &[THREE_C])])).unwrap_err().is_blocked()
    );
}

/// Where it is not known which of them is used, none is touched.
#[test]
fn all_stay_where_it_is_not_known_which_is_used() {
    let mut division = three_with(vec![compute(0, ONE_C, 0, 1, None), compute(1, ONE_C, 1, 1, None)]);
    division.instances[0].holders = vec![holder(9)];
    assert!(plan_gpu(&division, &want(&[(THREE, &[ONE_C])])).unwrap_err().is_blocked());
    assert_eq!(plan_gpu(&division, &want(&[(THREE, &[ONE_C, ONE_C, ONE_C])])).unwrap().steps.len(), 1);
}

/// Before a GPU instance exists its places may be untold. Then the driver chooses, the largest first.
#[test]
fn without_places_the_driver_chooses() {
    let mut division = a100();
    for compute in division.profiles.iter_mut().flat_map(|profile| &mut profile.compute_profiles) {
        compute.placements = None;
    }
    let plan = plan_gpu(&division, &want(&[(THREE, &[ONE_C, TWO_C])])).unwrap();
    let Step::CreateInstance(within) = plan.steps[0] else { panic!("{plan:?}") };
    let create = |profile| Step::CreateCompute { within, profile, placement: None };
    assert_eq!(plan.steps[1..], [create(TWO_C), create(ONE_C)]);
    let refusal = plan_gpu(&division, &want(&[(THREE, &[TWO_C, TWO_C])])).unwrap_err();
    assert_eq!(refusal.reason(), "ComputesInfeasible");
}

/// People approve it.
#[test]
fn steps_can_be_told() {
    let division = three_with(vec![compute(0, ONE_C, 1, 1, None)]);
    let told = |wanted: &Wanted| {
        let plan = plan_gpu(&division, wanted).unwrap();
        plan.steps.iter().map(|step| step.told(&division)).collect::<Vec<_>>()
    };
    assert_eq!(
        told(&want(&[(THREE, &[THREE_C])])),
        [
            "destroy compute instance 1c.3g.20gb at 1:1 in 3g.20gb at 4:4",
            "create compute instance 3g.20gb at 0:3 in 3g.20gb at 4:4",
        ]
    );
    assert_eq!(
        told(&want(&[(FOUR, &[ONE_C])]))[1..],
        [
            "destroy GPU instance 3g.20gb at 4:4",
            "create GPU instance 4g.20gb at 0:4",
            "create compute instance 1c.4g.20gb at 0:1 in 4g.20gb at 0:4",
        ]
    );
    assert_eq!(told(&Wanted::Off).last().unwrap(), "turn MIG mode off");
}
