//! From any layout to any multiset, whatever is in use: what the planner says is held against all layouts that there are.

use std::cmp::Reverse;

use super::layouts::Layouts;
use super::model::{carry_out, layout};
use super::tables::{
    FOUR, ONE, SEVEN, THREE, TWO, a30, a100, divided, rtx_pro_6000, seven_slices, used, wanted,
};
use crate::desired::Wanted;
use crate::observed::GpuDivision;
use crate::plan::plan_gpu;
use crate::refusal::Refusal;
use crate::step::Step;

/// Which of the instances are in use.
type Busy = fn(instances: u32, number: u64) -> Vec<u64>;

/// Every subset.
fn every(instances: u32, _: u64) -> Vec<u64> {
    (0..1 << instances).collect()
}

/// None, and another one each time.
fn some(instances: u32, number: u64) -> Vec<u64> {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    vec![0, mixed % (1 << instances)]
}

/// Checks every plan; tells how many there were.
fn check(empty: &GpuDivision, busy: Busy) -> u64 {
    let layouts = Layouts::of(empty);
    let mut plans = 0;
    let goals: Vec<(&Vec<u32>, Wanted)> =
        layouts.by_counts.keys().map(|counts| (counts, goal(empty, counts))).collect();
    for current in &layouts.all {
        let spots = layouts.members(*current).map(|spot| layouts.spots[spot]);
        let spots: Vec<(u32, u32)> = spots.map(|(at, start)| (empty.profiles[at].id, start)).collect();
        let idle = divided(empty.clone(), &spots);
        for subset in busy(current.count_ones(), *current) {
            let positions: Vec<usize> = (0..spots.len()).filter(|at| subset & 1 << at != 0).collect();
            let division = used(idle.clone(), &positions);
            let held: Vec<usize> = layouts.members(*current).collect();
            let held = positions.iter().fold(0, |all, at| all | 1 << held[*at]);
            for (counts, goal) in &goals {
                check_one(&layouts, &division, (*current, held), (counts, goal));
                plans += 1;
            }
        }
    }
    plans
}

fn goal(division: &GpuDivision, counts: &[u32]) -> Wanted {
    let times = |(profile, count): (&crate::observed::Profile, &u32)| {
        vec![profile.id; usize::try_from(*count).unwrap()]
    };
    let ids: Vec<u32> = division.profiles.iter().zip(counts).flat_map(times).collect();
    Wanted::On(wanted(division, &ids))
}

fn check_one(
    layouts: &Layouts,
    division: &GpuDivision,
    (current, held): (u64, u64),
    (counts, goal): (&[u32], &Wanted),
) {
    let goals = &layouts.by_counts[counts];
    let fewest_lost = goals.iter().map(|(goal, _)| (held & !goal).count_ones()).min().unwrap();
    match plan_gpu(division, goal) {
        Ok(plan) => {
            let mut after = division.clone();
            carry_out(&mut after, layouts, &plan.steps);
            let reached = layout(&after, layouts);
            let found = goals.iter().find(|(goal, _)| *goal == reached);
            let room = found.unwrap_or_else(|| panic!("{counts:?}: {plan:?}")).1;
            assert!(after.instances.iter().all(|instance| instance.computes.len() == 1));
            assert_eq!(held & !reached, 0, "what is in use stays where it is");
            // As little as possible is destroyed; and then as much room as possible is left.
            let possible = goals.iter().filter(|(goal, _)| held & !goal == 0);
            let best = possible.map(|(goal, room)| ((current & !goal).count_ones(), Reverse(*room)));
            let cost = ((current & !reached).count_ones(), Reverse(room));
            assert_eq!(Some(cost), best.min());
            let destroyed = plan.steps.iter().filter(|step| matches!(step, Step::DestroyInstance(_))).count();
            assert_eq!(
                destroyed,
                usize::try_from(cost.0).unwrap(),
                "nothing is destroyed to be created again"
            );
            assert_eq!(plan.steps.is_empty(), current == reached);
            let weight = |id| division.profile(id).map(|found| (found.multiprocessors, found.memory_bytes));
            assert_eq!(plan.largest_placeable.and_then(weight), room);
        }
        Err(Refusal::Blocked { instances, .. }) => {
            assert!(fewest_lost > 0, "nothing is in the way: {counts:?} {current:b}");
            assert_eq!(
                instances.len(),
                usize::try_from(fewest_lost).unwrap(),
                "no smaller set is in the way"
            );
            let freed = instances.iter().fold(held, |held, one| {
                let named = division.instances.iter().position(|there| there.id == one.id).unwrap();
                held & !(1 << layouts.members(current).nth(named).unwrap())
            });
            assert!(goals.iter().any(|(goal, _)| freed & !goal == 0), "without these there is a way");
            assert!(instances.iter().all(|one| !one.holders.is_empty()));
        }
        Err(other) => panic!("{counts:?} is a layout: {other}"),
    }
}

#[test]
fn seven_slices_base_profiles() {
    assert_eq!(check(&seven_slices(&[ONE, TWO, THREE, FOUR, SEVEN]), every), 166_326);
}

#[test]
fn seven_slices_all_profiles() {
    assert_eq!(check(&a100(), some), 2 * 2319 * 128);
}

#[test]
fn four_slices() {
    assert_eq!(check(&a30(), every), 8620);
}

#[test]
fn twelve_units() {
    assert_eq!(check(&rtx_pro_6000(), every), 737_955);
}

/// What is no layout is refused, whatever is there.
#[test]
fn what_does_not_fit_is_refused() {
    let gpus = [seven_slices(&[ONE, TWO, THREE, FOUR, SEVEN]), a30(), rtx_pro_6000()];
    for empty in gpus {
        let layouts = Layouts::of(&empty);
        let most: Vec<u32> = empty.profiles.iter().map(|profile| profile.max_instances).collect();
        let mut refused = 0;
        for counts in within(&most, 4) {
            if layouts.by_counts.contains_key(&counts) {
                continue;
            }
            let refusal = plan_gpu(&empty, &goal(&empty, &counts)).expect_err("it does not fit");
            assert!(!refusal.is_blocked());
            assert!(matches!(refusal, Refusal::Infeasible { .. } | Refusal::TooMany { .. }), "{refusal}");
            refused += 1;
        }
        assert!(refused > 50, "{refused}");
    }
}

/// All counts up to one more than there can be of each, of no more than so many in all.
fn within(most: &[u32], total: u32) -> Vec<Vec<u32>> {
    let Some((last, rest)) = most.split_last() else { return vec![Vec::new()] };
    let mut all = Vec::new();
    for counts in within(rest, total) {
        let left = total - counts.iter().sum::<u32>();
        for count in 0..=left.min(last + 1) {
            all.push(counts.iter().copied().chain([count]).collect());
        }
    }
    all
}
