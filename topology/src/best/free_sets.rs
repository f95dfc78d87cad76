//! The largest sets of free GPUs that share something.

use std::collections::BTreeMap;

use gpulet_inventory::topology::{LargestFreeSets, Topology};

/// The largest sets among the free GPUs; among equals the one with the lowest positions.
pub fn largest_free_sets(topology: &Topology, free: &[usize]) -> LargestFreeSets {
    let mut free: Vec<usize> = free.iter().copied().filter(|gpu| *gpu < topology.gpus.len()).collect();
    free.sort_unstable();
    free.dedup();
    let mut by_node: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    let mut by_switch: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for gpu in &free {
        let Some(placed) = topology.gpus.get(*gpu) else { continue };
        if let Some(node) = placed.place.numa.node {
            by_node.entry(node).or_default().push(*gpu);
        }
        let mut above = placed.place.pcie_switch;
        while let Some(switch) = above {
            by_switch.entry(switch).or_default().push(*gpu);
            let parent = topology.pcie_switches.get(switch).and_then(|switch| switch.parent);
            above = parent.filter(|parent| *parent < switch);
        }
    }
    LargestFreeSets {
        numa_node: largest(by_node.into_values()),
        pcie_switch: largest(by_switch.into_values()),
        nvlink_island: largest(islands(topology, &free).into_iter().filter(|island| island.len() > 1)),
    }
}

fn largest(sets: impl Iterator<Item = Vec<usize>>) -> Vec<usize> {
    let mut best = Vec::new();
    for set in sets {
        if set.len() > best.len() || (set.len() == best.len() && set < best) {
            best = set;
        }
    }
    best
}

/// Free GPUs that reach each other without going through one that is not free.
fn islands(topology: &Topology, free: &[usize]) -> Vec<Vec<usize>> {
    let mut open: Vec<usize> = free.to_vec();
    let mut islands = Vec::new();
    while let Some(start) = open.first().copied() {
        let mut island = vec![start];
        open.retain(|gpu| *gpu != start);
        let mut next = 0;
        while let Some(gpu) = island.get(next).copied() {
            let (joined, rest) = open.iter().partition(|other| topology.nvlinks(gpu, **other) > 0);
            open = rest;
            island.extend::<Vec<usize>>(joined);
            next += 1;
        }
        island.sort_unstable();
        islands.push(island);
    }
    islands
}
