//! Layouts that tools which try profiles one after the other, or let the driver choose places, reach late or never.

use super::layouts::Layouts;
use super::model::carry_out;
use super::tables::{FOUR, ONE, ONE_DOUBLE, ONE_ME, THREE, TWO, a100, divided, holder, used, wanted};
use crate::desired::{Wanted, WantedInstance};
use crate::observed::GpuDivision;
use crate::plan::{Plan, plan_gpu};
use crate::refusal::Refusal;
use crate::step::Step;

/// Plans and carries out; tells the plan, and where all lies afterwards.
fn reach(division: &GpuDivision, profiles: &[u32]) -> (Plan, Vec<(u32, u32)>) {
    let plan = plan_gpu(division, &Wanted::On(wanted(division, profiles))).unwrap();
    let mut after = division.clone();
    carry_out(&mut after, &Layouts::of(&a100()), &plan.steps);
    let mut places: Vec<(u32, u32)> =
        after.instances.iter().map(|one| (one.profile, one.placement.start)).collect();
    places.sort_by_key(|(_, start)| *start);
    (plan, places)
}

/// Each has one layout only. Whatever the order in which they are asked for, they land there.
#[test]
fn what_has_one_layout_lands_in_it() {
    let traps: [&[(u32, u32)]; 16] = [
        &[(FOUR, 0), (TWO, 4)],
        &[(THREE, 0), (THREE, 4)],
        &[(FOUR, 0), (THREE, 4)],
        &[(FOUR, 0), (TWO, 4), (ONE, 6)],
        &[(FOUR, 0), (ONE_DOUBLE, 4), (ONE_DOUBLE, 6)],
        &[(FOUR, 0), (TWO, 4), (ONE_DOUBLE, 6)],
        &[(TWO, 0), (TWO, 2), (TWO, 4)],
        &[(TWO, 0), (TWO, 2), (THREE, 4)],
        &[(FOUR, 0), (ONE, 4), (ONE, 5), (ONE, 6)],
        &[(FOUR, 0), (ONE, 4), (ONE, 5), (ONE_DOUBLE, 6)],
        &[(TWO, 0), (TWO, 2), (TWO, 4), (ONE, 6)],
        &[(ONE_DOUBLE, 0), (ONE_DOUBLE, 2), (ONE_DOUBLE, 4), (ONE_DOUBLE, 6)],
        &[(TWO, 0), (TWO, 2), (TWO, 4), (ONE_DOUBLE, 6)],
        &[(ONE, 0), (ONE, 1), (ONE, 2), (ONE, 3), (THREE, 4)],
        &[(ONE, 0), (ONE, 1), (ONE, 2), (ONE, 3), (ONE, 4), (ONE, 5), (ONE, 6)],
        &[(ONE, 0), (ONE, 1), (ONE, 2), (ONE, 3), (ONE, 4), (ONE, 5), (ONE_DOUBLE, 6)],
    ];
    for trap in traps {
        let mut asked: Vec<u32> = trap.iter().map(|(profile, _)| *profile).collect();
        for _ in 0..asked.len() {
            assert_eq!(reach(&a100(), &asked).1, trap, "{asked:?}");
            asked.rotate_left(1);
        }
    }
}

/// `nvidia-smi mig -cgi 19,19,14,9` fails, since the driver puts the small ones where the large one must lie.
#[test]
fn small_ones_named_first_leave_room_for_the_large_one() {
    let (plan, _) = reach(&a100(), &[ONE, ONE, TWO, THREE]);
    assert_eq!(plan.steps.iter().filter(|step| matches!(step, Step::CreateInstance(_))).count(), 4);
}

/// A running 1g that is wanted too stays, and everything else comes to lie around it.
#[test]
fn what_runs_and_is_wanted_stays() {
    let division = used(divided(a100(), &[(ONE, 0), (THREE, 4)]), &[0]);
    let (plan, places) = reach(&division, &[TWO, ONE, TWO]);
    assert_eq!(plan.kept.len(), 1);
    assert_eq!(places, [(ONE, 0), (TWO, 2), (TWO, 4)]);
}

/// A 1g in use at the first unit, and one at the fifth: seven slices are free in part, and no 4g can be placed.
#[test]
fn what_is_in_use_and_in_the_way_is_named() {
    let division = used(divided(a100(), &[(ONE, 0), (ONE, 4)]), &[0, 1]);
    let refusal = plan_gpu(&division, &Wanted::On(wanted(&division, &[FOUR, ONE, ONE]))).unwrap_err();
    let Refusal::Blocked { instances, holders, .. } = &refusal else { panic!("{refusal}") };
    // The one at the fifth unit can stay.
    assert_eq!(instances.iter().map(|one| one.id.0).collect::<Vec<_>>(), [1]);
    assert!(holders.is_empty());
    assert_eq!(refusal.reason(), "Blocked");
    assert_eq!(
        refusal.to_string(),
        "GPU-00000000-0000-0000-0000-000000000001 cannot be changed while it is in use: GPU instance 1 \
         (1g.5gb at 0:1) by process 100 (python) of Pod ml/train-100"
    );
}

/// Of two places that cost the same, the one is taken beside which more fits.
#[test]
fn room_is_left_for_the_largest() {
    let (plan, places) = reach(&a100(), &[ONE]);
    assert!(places[0].1 >= 4, "a 4g fits beside it: {places:?}");
    assert_eq!(plan.largest_placeable, Some(FOUR));
    let (plan, places) = reach(&a100(), &[THREE]);
    assert_eq!((plan.largest_placeable, places), (Some(FOUR), vec![(THREE, 4)]));
}

/// A GPU instance that has no compute instance is made use of where it is wanted, and removed where it is not.
#[test]
fn orphans_are_reused_or_removed() {
    let mut division = divided(a100(), &[(THREE, 0), (THREE, 4)]);
    division.instances.iter_mut().for_each(|orphan| orphan.computes.clear());
    let (plan, places) = reach(&division, &[THREE, FOUR]);
    assert_eq!(places, [(FOUR, 0), (THREE, 4)]);
    assert_eq!(plan.kept.len(), 1);
    let (plan, _) = reach(&division, &[THREE, THREE]);
    assert!(plan.steps.iter().all(|step| matches!(step, Step::CreateCompute { .. })), "{plan:?}");
    let (plan, _) = reach(&division, &[]);
    assert!(plan.steps.iter().all(|step| matches!(step, Step::DestroyInstance(_))), "{plan:?}");
}

/// Of an orphan and one that is whole, the whole one stays.
#[test]
fn an_orphan_goes_before_a_whole_one() {
    for orphan in [0, 1] {
        let mut division = divided(a100(), &[(THREE, 0), (THREE, 4)]);
        division.instances[orphan].computes.clear();
        let (plan, _) = reach(&division, &[THREE]);
        assert_eq!(plan.steps.len(), 1, "{plan:?}");
        assert_eq!(plan.kept[0].placement, division.instances[1 - orphan].placement);
    }
}

/// Someone may hold a GPU instance after its compute instance is gone.
#[test]
fn an_orphan_in_use_stays() {
    let mut division = divided(a100(), &[(THREE, 0)]);
    division.instances[0].holders.push(holder(7));
    division.instances[0].computes.clear();
    assert!(plan_gpu(&division, &Wanted::On(Vec::new())).unwrap_err().is_blocked());
    let (plan, _) = reach(&division, &[THREE, THREE]);
    assert_eq!(plan.kept.len(), 1);
}

/// What the driver does not offer, though it exists, covers its units, stays while it is in use, and goes else.
#[test]
fn what_is_of_no_known_profile_is_removed_unless_in_use() {
    let mut division = divided(a100(), &[(THREE, 4)]);
    division.profiles.retain(|profile| profile.id != THREE);
    let plan = plan_gpu(&division, &Wanted::On(wanted(&division, &[FOUR]))).unwrap();
    assert!(plan.kept.is_empty() && plan.steps.len() == 4, "{plan:?}");
    let division = used(division, &[0]);
    assert!(plan_gpu(&division, &Wanted::On(wanted(&division, &[FOUR]))).unwrap_err().is_blocked());
}

#[test]
fn media_extensions_move_with_the_instance_that_has_them() {
    let division = divided(a100(), &[(ONE_ME, 0), (ONE, 1)]);
    let (plan, places) = reach(&division, &[ONE_ME, ONE, FOUR]);
    assert_eq!(plan.kept.len(), 0);
    assert_eq!(places[0], (FOUR, 0));
    let two = plan_gpu(&a100(), &Wanted::On(wanted(&a100(), &[ONE_ME, ONE_ME]))).unwrap_err();
    assert_eq!(two.reason(), "TooMany");
}

#[test]
fn an_unknown_profile_is_told_with_those_that_there_are() {
    let unknown = vec![WantedInstance { profile: 47, computes: vec![0] }];
    let refusal = plan_gpu(&a100(), &Wanted::On(unknown)).unwrap_err();
    assert_eq!(refusal.reason(), "UnknownProfile");
    assert!(refusal.to_string().contains("it has 1g.5gb (19), 1g.5gb+me (20)"), "{refusal}");
    let unknown = vec![WantedInstance { profile: THREE, computes: vec![3] }];
    let refusal = plan_gpu(&a100(), &Wanted::On(unknown)).unwrap_err();
    assert_eq!(refusal.reason(), "UnknownComputeProfile");
    assert!(
        refusal.to_string().contains("they have 1c.3g.20gb (0), 2c.3g.20gb (1), 3g.20gb (2)"),
        "{refusal}"
    );
}
