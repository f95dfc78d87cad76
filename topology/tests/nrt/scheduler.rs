//! A reader that is as careless as the NodeResourceTopologyMatch plug-in: it takes a zone's number for an index where that
//! plug-in does, and so panics where it does.

use std::collections::BTreeMap;

use gpulet_topology::nrt::object::{Attribute, Body, Cost, Quantity, Resource, Zone};

/// A zone of type `Node` as the plug-in keeps it.
struct NumaNode {
    id: usize,
    available: BTreeMap<String, u64>,
    costs: BTreeMap<usize, i64>,
}

/// Reads the object in all the ways in which the plug-in does.
pub fn reads(body: &Body) {
    let nodes = numa_nodes(&body.zones);
    // LeastAllocated, MostAllocated and BalancedAllocation: one score for each zone, at its number.
    let mut scores = vec![0; nodes.len()];
    for node in &nodes {
        scores[node.id] += 1;
    }
    assert!(scores.iter().all(|score| *score == 1));
    // LeastNUMANodes: the sum over any two zones, each of which must list the resource.
    for one in &nodes {
        for other in &nodes {
            for (resource, available) in &one.available {
                let both = available.checked_add(other.available[resource]);
                assert!(both.is_some(), "{resource} overflows");
            }
            if !one.costs.is_empty() {
                assert!(one.costs[&other.id] >= 10);
            }
        }
    }
    // The filter: the bit of a zone's number in 64 bits.
    let mask = nodes.iter().fold(0u64, |mask, node| mask | (1 << node.id));
    assert_eq!(mask.count_ones() as usize, nodes.len());
}

/// Whether a Guaranteed container that asks for this fits one NUMA node, by the plug-in's filter; and which one.
pub fn fits(body: &Body, wanted: &[(&str, u64)]) -> Option<usize> {
    let nodes = numa_nodes(&body.zones);
    let mut mask = u64::MAX;
    for (resource, amount) in wanted {
        let listed = nodes.iter().any(|node| node.available.contains_key(*resource));
        if !listed && resource.contains('/') {
            continue;
        }
        let enough =
            nodes.iter().filter(|node| node.available.get(*resource).is_some_and(|there| there >= amount));
        mask &= enough.fold(0, |mask, node| mask | (1 << node.id));
    }
    (mask != 0).then(|| mask.trailing_zeros() as usize)
}

fn numa_nodes(zones: &[Zone]) -> Vec<NumaNode> {
    let mut zone_at = [0usize; 64];
    let mut nodes = Vec::new();
    for (at, zone) in zones.iter().enumerate().filter(|(_, zone)| zone.kind == "Node") {
        let Some(id) = id(&zone.name).filter(|id| *id <= 64) else { continue };
        zone_at[id] = at;
        let amount = |resource: &Resource| resource.available.as_str().parse().unwrap();
        let available = zone.resources.iter().map(|resource| (resource.name.clone(), amount(resource)));
        nodes.push(NumaNode { id, available: available.collect(), costs: BTreeMap::new() });
    }
    for node in &mut nodes {
        let costs = &zones[zone_at[node.id]].costs;
        node.costs = costs.iter().filter_map(|cost| Some((id(&cost.name)?, cost.value))).collect();
    }
    nodes
}

fn id(name: &str) -> Option<usize> {
    name.strip_prefix("node-")?.parse().ok()
}

fn zone(name: &str, resources: &[&str]) -> Zone {
    let one = |name: &&str| Resource {
        name: (*name).to_owned(),
        capacity: Quantity::from(1),
        allocatable: Quantity::from(1),
        available: Quantity::from(1),
    };
    Zone {
        name: name.to_owned(),
        kind: "Node".to_owned(),
        resources: resources.iter().map(one).collect(),
        ..Zone::default()
    }
}

fn body(zones: Vec<Zone>) -> Body {
    Body { attributes: vec![Attribute { name: "a".to_owned(), value: "b".to_owned() }], zones }
}

#[test]
#[should_panic(expected = "the len is 64 but the index is 64")]
fn it_panics_at_the_65th_zone() {
    reads(&body((0..65).map(|number| zone(&format!("node-{number}"), &["cpu"])).collect()));
}

#[test]
#[should_panic(expected = "the len is 2 but the index is 8")]
fn it_panics_at_a_gap() {
    reads(&body(vec![zone("node-0", &["cpu"]), zone("node-8", &["cpu"])]));
}

#[test]
#[should_panic(expected = "no entry found for key")]
fn it_needs_explicit_zeros() {
    reads(&body(vec![zone("node-0", &["cpu", "nvidia.com/gpu"]), zone("node-1", &["cpu"])]));
}

#[test]
fn it_reads_what_is_well_formed() {
    let mut zones = vec![zone("node-0", &["cpu"]), zone("node-1", &["cpu"])];
    for zone in &mut zones {
        zone.costs = (0..2).map(|other| Cost { name: format!("node-{other}"), value: 10 }).collect();
    }
    let body = body(zones);
    reads(&body);
    assert_eq!(fits(&body, &[("cpu", 1)]), Some(0));
    assert_eq!(fits(&body, &[("cpu", 2)]), None);
    assert_eq!(fits(&body, &[("cpu", 1), ("example.com/disk", 7)]), Some(0));
    assert_eq!(fits(&body, &[("memory", 1)]), None);
}
