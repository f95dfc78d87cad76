//! Why a set is the best, for people.

use std::collections::BTreeSet;

use gpulet_inventory::locality::Level;
use gpulet_inventory::topology::{Device, Topology};

use super::free_sets;
use super::score::{Scorer, pairs_of};
use crate::label;

pub(super) fn of(topology: &Topology, set: &[usize], free: &[usize], scorer: &Scorer) -> String {
    let mut parts = Vec::new();
    if set.len() > 1 {
        parts.push(links(topology, set));
    }
    parts.push(numa(topology, set));
    if topology.nics.iter().any(|nic| nic.rdma.is_some()) {
        parts.push(match (scorer.with_near_nic(set), set.len()) {
            (0, _) => "no near NIC".to_owned(),
            (1, 1) => "a NIC near".to_owned(),
            (near, size) => format!("a near NIC of their own for {near} of {size}"),
        });
    }
    parts.push(leaves(topology, set, free));
    format!("{}: {}", label::gpus(topology, set), parts.join("; "))
}

fn links(topology: &Topology, set: &[usize]) -> String {
    let counts: Vec<u32> = pairs_of(set).map(|(one, other)| topology.nvlinks(one, other)).collect();
    let linked = counts.iter().filter(|links| **links > 0).count();
    let (fewest, most) = (counts.iter().min().unwrap_or(&0), counts.iter().max().unwrap_or(&0));
    match (fewest, most) {
        (_, 0) => format!("no NVLinks among them, {} on PCIe at the farthest", farthest(topology, set)),
        (0, _) => format!("NVLinks between {linked} of {} pairs", counts.len()),
        (1, 1) => "1 NVLink between every two".to_owned(),
        (fewest, most) if fewest == most => format!("{most} NVLinks between every two"),
        (fewest, most) => format!("{fewest} to {most} NVLinks between every two"),
    }
}

fn farthest(topology: &Topology, set: &[usize]) -> &'static str {
    let level = |(one, other)| topology.pair(Device::Gpu(one), Device::Gpu(other))?.best_known_level();
    pairs_of(set).filter_map(level).max().map_or("unknown", Level::as_str)
}

fn numa(topology: &Topology, set: &[usize]) -> String {
    let places = || set.iter().filter_map(|gpu| topology.gpus.get(*gpu)).map(|gpu| gpu.place.numa.node);
    let nodes: BTreeSet<_> = places().flatten().collect();
    let unknown = places().filter(Option::is_none).count();
    let mut text = match nodes.len() {
        0 => return "NUMA node unknown".to_owned(),
        1 => format!("NUMA node {}", label::list(nodes.iter().map(ToString::to_string))),
        _ => format!("NUMA nodes {}", label::list(nodes.iter().map(ToString::to_string))),
    };
    if unknown > 0 {
        text.push_str(&format!(", unknown for {unknown}"));
    }
    text
}

fn leaves(topology: &Topology, set: &[usize], free: &[usize]) -> String {
    let rest: Vec<usize> = free.iter().copied().filter(|gpu| !set.contains(gpu)).collect();
    if rest.is_empty() {
        return "leaves none free".to_owned();
    }
    let direct = |one: usize, other: usize| {
        let pair = topology.pair(Device::Gpu(one), Device::Gpu(other));
        pair.and_then(|pair| pair.nvlink).is_some_and(|nvlink| nvlink.links > 0 && !nvlink.through_switch)
    };
    let cut: usize = set.iter().map(|taken| rest.iter().filter(|left| direct(*taken, **left)).count()).sum();
    let mut text = format!("leaves {} free", rest.len());
    let together = free_sets::largest_free_sets(topology, &rest).numa_node.len();
    if together > 0 && together < rest.len() {
        text.push_str(&format!(", {together} of them on one NUMA node"));
    }
    match cut {
        0 => {}
        1 => text.push_str(", parting 1 NVLink pair"),
        _ => text.push_str(&format!(", parting {cut} NVLink pairs")),
    }
    text
}
