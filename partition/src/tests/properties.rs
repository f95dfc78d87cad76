//! Compute instances and grids of any kind, sampled: what no table enumerates.

use std::sync::LazyLock;

use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId, Placement};
use proptest::collection::vec;
use proptest::prelude::*;

use super::layouts::Layouts;
use super::model::{are_apart, carry_out, layout};
use super::tables::{a100, holder};
use crate::desired::{Wanted, WantedInstance};
use crate::observed::{Compute, GpuDivision, Instance};
use crate::plan::plan_gpu;
use crate::refusal::Refusal;

/// Profile and place, and the same of compute instances, each of which may be in use.
pub(super) type Wish = (usize, usize, Vec<(usize, usize, bool)>);

static LAYOUTS: LazyLock<Layouts> = LazyLock::new(|| Layouts::of(&a100()));

/// Instances that are there, placed one after the other where they fit, with compute instances placed likewise.
pub(super) fn there(wishes: &[Wish]) -> GpuDivision {
    let mut division = a100();
    for (number, (profile, place, computes)) in (1..).zip(wishes) {
        let offered = division.profiles[profile % division.profiles.len()].clone();
        let placement = offered.placements[place % offered.placements.len()];
        let mut instance = Instance {
            id: GpuInstanceId(number),
            profile: offered.id,
            placement,
            computes: Vec::new(),
            holders: Vec::new(),
        };
        for (number, (profile, place, busy)) in (0..).zip(computes) {
            let own = &offered.compute_profiles[profile % offered.compute_profiles.len()];
            let placements = own.placements.as_ref().unwrap();
            let placement = placements[place % placements.len()];
            let apart = |other: &Compute| are_apart(other.placement, placement);
            if instance.computes.iter().all(apart) {
                let holders = if *busy { vec![holder(number)] } else { Vec::new() };
                let id = ComputeInstanceId(number);
                instance.computes.push(Compute { id, profile: own.id, placement, holders });
            }
        }
        division.instances.push(instance);
        let is_free = apart_from_others(&division.instances) && LAYOUTS.legal(layout(&division, &LAYOUTS));
        if !is_free {
            division.instances.pop();
        }
    }
    division
}

fn apart_from_others(instances: &[Instance]) -> bool {
    let Some((last, rest)) = instances.split_last() else { return true };
    rest.iter().all(|other| are_apart(other.placement, last.placement))
}

pub(super) fn wishes() -> impl Strategy<Value = Vec<Wish>> {
    let compute = (0_usize..5, 0_usize..7, prop::bool::weighted(0.3));
    vec((0_usize..7, 0_usize..7, vec(compute, 0..4)), 0..6)
}

/// What is there, as something to want.
pub(super) fn as_wanted(division: &GpuDivision) -> Vec<WantedInstance> {
    let one = |instance: &Instance| {
        let mut computes: Vec<u32> = instance.computes.iter().map(|compute| compute.profile).collect();
        computes.sort_unstable();
        WantedInstance { profile: instance.profile, computes }
    };
    let mut all: Vec<WantedInstance> = division.instances.iter().map(one).collect();
    all.sort();
    all
}

/// In use, by what stays.
pub(super) fn busy(division: &GpuDivision) -> Vec<(u32, Placement, u32, Placement)> {
    let of = |instance: &Instance| {
        let busy = instance.computes.iter().filter(|compute| !compute.holders.is_empty());
        busy.map(|compute| (instance.profile, instance.placement, compute.profile, compute.placement))
            .collect::<Vec<_>>()
    };
    division.instances.iter().flat_map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// From anything to anything with compute instances: it is reached, and nothing in use is touched; or it is told who is
    /// in the way, and without those it is reached.
    #[test]
    fn any_layout_is_reached_or_blocked(from in wishes(), to in wishes()) {
        let (from, goal) = (there(&from), as_wanted(&there(&to)));
        match plan_gpu(&from, &Wanted::On(goal.clone())) {
            Ok(plan) => {
                let mut after = from.clone();
                carry_out(&mut after, &LAYOUTS, &plan.steps);
                prop_assert_eq!(as_wanted(&after), goal.clone());
                prop_assert_eq!(busy(&after), busy(&from));
                prop_assert!(plan_gpu(&after, &Wanted::On(goal)).unwrap().steps.is_empty());
            }
            Err(Refusal::Blocked { instances, .. }) => {
                prop_assert!(!instances.is_empty());
                let mut freed = from;
                for instance in &mut freed.instances {
                    if instances.iter().any(|named| named.id == instance.id) {
                        prop_assert!(instance.is_busy());
                        instance.computes.iter_mut().for_each(|compute| compute.holders.clear());
                    }
                }
                prop_assert!(plan_gpu(&freed, &Wanted::On(goal)).is_ok());
            }
            Err(other) => prop_assert!(false, "a layout that exists is refused: {}", other),
        }
    }

    /// What is there and wanted needs no step, whoever uses it.
    #[test]
    fn what_is_there_needs_nothing(from in wishes()) {
        let division = there(&from);
        let plan = plan_gpu(&division, &Wanted::On(as_wanted(&division))).unwrap();
        prop_assert!(plan.steps.is_empty());
        prop_assert_eq!(plan.kept.len(), division.instances.len());
    }

    /// Whatever a driver may report, and whatever may be asked for, there is an answer.
    #[test]
    fn nonsense_is_answered(
        starts in vec((0_u32..80, 0_u32..80), 0..6),
        there in vec((0_u32..6, any::<u32>(), any::<u32>()), 0..4),
        goal in vec((0_u32..6, vec(0_u32..6, 0..4)), 0..6),
        engines in any::<[u32; 4]>(),
    ) {
        let mut division = a100();
        for (id, profile) in (0..).zip(&mut division.profiles) {
            profile.id = id;
            profile.placements = starts.iter().map(|(start, size)| Placement { start: *start, size: *size }).collect();
            profile.engines.decoders = engines[0];
            profile.engines.encoders = engines[1];
        }
        for (number, (profile, start, size)) in (0..).zip(there) {
            division.instances.push(Instance {
                id: GpuInstanceId(number),
                profile,
                placement: Placement { start, size },
                computes: Vec::new(),
                holders: vec![holder(1)],
            });
        }
        let goal = goal.into_iter().map(|(profile, computes)| WantedInstance { profile, computes }).collect();
        let answer = plan_gpu(&division, &Wanted::On(goal));
        prop_assert!(answer.is_ok() || !answer.unwrap_err().reason().is_empty());
    }
}
