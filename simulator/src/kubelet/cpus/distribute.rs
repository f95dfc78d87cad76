//! `distribute-cpus-across-numa`: where one NUMA node is not enough, as many CPUs from each of several.

use std::collections::BTreeMap;

use super::take::{Order, Taking, packed};
use super::topology::{Part, Topology};
use super::{Cpus, NotEnough};
use crate::kubelet::hints::combinations;

/// How the CPUs are spread over some NUMA nodes.
struct Plan {
    nodes: Vec<u32>,
    /// As many from each.
    each: usize,
    /// Who gives one group more, in turns, until there are enough.
    rest: Vec<u32>,
    /// How unlike the nodes' free CPUs are afterwards.
    unlike: f64,
}

/// Takes `wanted` CPUs in groups (cores, or single CPUs) from as few NUMA nodes as can give equally many.
pub(super) fn distributed(
    topology: &Topology,
    available: &Cpus,
    wanted: usize,
    group: usize,
    order: Order,
) -> Result<Cpus, NotEnough> {
    let group = group.max(1);
    let taking = Taking::new(topology, available, wanted);
    if !wanted.is_multiple_of(group) || wanted == 0 || wanted > taking.free_cpus() {
        return packed(topology, available, wanted, order);
    }
    let nodes = taking.nodes();
    let free: BTreeMap<u32, usize> =
        nodes.iter().map(|node| (*node, taking.free_in(Part::Node, *node).len())).collect();
    let groups_wanted = wanted / group;
    let groups_of_node = topology.places.len().div_ceil(group).div_ceil(topology.node_count().max(1)).max(1);
    for count in groups_wanted.div_ceil(groups_of_node)..=groups_wanted.min(nodes.len()) {
        let mut best: Option<Plan> = None;
        combinations(&nodes, count, &mut Vec::new(), &mut |chosen| {
            // The first perfect balance is final.
            if best.as_ref().is_some_and(|best| best.unlike == 0.0) {
                return;
            }
            if let Some(plan) = plan(&free, chosen, wanted, group)
                && best.as_ref().is_none_or(|best| plan.unlike < best.unlike)
            {
                best = Some(plan);
            }
        });
        if let Some(plan) = best {
            return carry_out(topology, taking, &plan, group, order);
        }
    }
    packed(topology, available, wanted, order)
}

fn plan(free: &BTreeMap<u32, usize>, chosen: &[u32], wanted: usize, group: usize) -> Option<Plan> {
    let free_of = |node: &u32| free.get(node).copied().unwrap_or(0);
    let each = wanted / chosen.len() / group * group;
    let in_groups: usize = chosen.iter().map(|node| free_of(node) / group * group).sum();
    if in_groups < wanted || chosen.iter().any(|node| free_of(node) < each) {
        return None;
    }
    let mut after = free.clone();
    for left in chosen.iter().filter_map(|node| Some((*node, free_of(node).checked_sub(each)?))) {
        after.insert(left.0, left.1);
    }
    let missing = wanted - each * chosen.len();
    let (unlike, rest) = if missing == 0 {
        (deviation(&after), Vec::new())
    } else {
        spread_rest(&after, chosen, missing, group)?
    };
    Some(Plan { nodes: chosen.to_vec(), each, rest, unlike })
}

/// From which of the nodes what is missing is taken, so that the nodes' free CPUs are as alike as can be; rather from
/// many.
fn spread_rest(
    after: &BTreeMap<u32, usize>,
    chosen: &[u32],
    missing: usize,
    group: usize,
) -> Option<(f64, Vec<u32>)> {
    let free_of = |node: &u32| after.get(node).copied().unwrap_or(0);
    let can: Vec<u32> = chosen.iter().copied().filter(|node| free_of(node) >= group).collect();
    let mut best: Option<(f64, Vec<u32>)> = None;
    for count in (1..=can.len()).rev() {
        combinations(&can, count, &mut Vec::new(), &mut |subset| {
            let in_groups: usize = subset.iter().map(|node| free_of(node) / group * group).sum();
            if in_groups < missing {
                return;
            }
            let (mut left, mut missing) = (after.clone(), missing);
            while missing > 0 {
                for node in subset {
                    if let Some(free) = left.get_mut(node).filter(|free| missing > 0 && **free >= group) {
                        *free -= group;
                        missing -= group;
                    }
                }
            }
            let unlike = deviation(&left);
            if best.as_ref().is_none_or(|(best, _)| unlike < *best) {
                best = Some((unlike, subset.to_vec()));
            }
        });
    }
    best
}

fn carry_out(
    topology: &Topology,
    mut taking: Taking<'_>,
    plan: &Plan,
    group: usize,
    order: Order,
) -> Result<Cpus, NotEnough> {
    for node in &plan.nodes {
        let cpus = packed(topology, &taking.free_in(Part::Node, *node), plan.each, order)?;
        taking.take(&cpus);
    }
    while taking.wanted > 0 {
        let before = taking.wanted;
        for node in &plan.rest {
            let free = taking.free_in(Part::Node, *node);
            if taking.wanted > 0 && free.len() >= group {
                taking.take(&packed(topology, &free, group, order)?);
            }
        }
        if taking.wanted == before {
            return Err(NotEnough { requested: taking.wanted, available: taking.free_cpus() });
        }
    }
    Ok(taking.taken)
}

/// Standard deviation, to three decimal places as the kubelet has it.
fn deviation(free: &BTreeMap<u32, usize>) -> f64 {
    let rounded = |x: f64| (x * 1000.0).round() / 1000.0;
    let count = free.len().max(1) as f64;
    let mean = rounded(free.values().map(|free| *free as f64).sum::<f64>() / count);
    let squares: f64 = free.values().map(|free| (*free as f64 - mean).powi(2)).sum();
    rounded((squares / count).sqrt())
}
