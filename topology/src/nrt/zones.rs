//! The object from its inputs.

use std::collections::BTreeMap;

use gpulet_inventory::numa::NumaNode;
use gpulet_inventory::topology::{NumaPlace, Topology};

use super::attribute::{self, Attributes};
use super::attributes;
use super::built::{Account, Built};
use super::figure::Figure;
use super::inputs::Inputs;
use super::nodes::{Nodes, zone_name};
use super::notes::Notes;
use super::object::{Body, NODE_ZONE, Resource, Zone};
use super::{cpu, devices, driver_gpus, memory, parts, pods};

/// Builds the object. Whatever the input, this gives an answer that no scheduler stumbles over: what does not fit in is
/// left out and told as a note.
pub fn build(inputs: &Inputs<'_>) -> Built {
    let mut notes = Notes::default();
    let nodes = Nodes::of(inputs.topology, &mut notes);
    nodes.note_policy(inputs.settings, &mut notes);
    let holders = pods::holders(inputs);
    // Every zone has a figure for every resource: where one lacked, schedulers would not add it up with its neighbours.
    let mut figures: BTreeMap<String, Vec<Figure>> = memory::figures(inputs, &nodes, &holders, &mut notes);
    figures.insert("cpu".to_owned(), cpu::figures(inputs, &nodes, &holders, &mut notes));
    let devices = match inputs.allocation {
        Some(_) => devices::figures(inputs, &nodes, &holders, &mut notes),
        None => driver_gpus::figures(inputs, &nodes, &mut notes),
    };
    figures.extend(devices.placed);
    let unplaced = devices.unplaced.into_iter().map(|(resource, figure)| figure.account("-", &resource));
    let unplaced = unplaced.collect();
    let why = accounts(figures);
    let resources = |zone: &str| why.iter().filter(|account| account.zone == zone).map(resource).collect();
    let mut zones: Vec<Zone> = nodes
        .zones()
        .iter()
        .enumerate()
        .map(|(number, node)| {
            node_zone(&zone_name(number), node, &nodes, inputs.topology, resources(&zone_name(number)))
        })
        .collect();
    zones.extend(parts::zones(inputs, &nodes, &holders, &mut notes));
    let body = Body { attributes: attributes::of(inputs, &mut notes), zones };
    Built { body, notes: notes.finish(), why, unplaced }
}

/// By zone, then by resource.
fn accounts(figures: BTreeMap<String, Vec<Figure>>) -> Vec<Account> {
    let mut by_zone: BTreeMap<usize, Vec<Account>> = BTreeMap::new();
    for (resource, figures) in figures {
        for (number, figure) in figures.into_iter().enumerate() {
            by_zone.entry(number).or_default().push(figure.account(&zone_name(number), &resource));
        }
    }
    by_zone.into_values().flatten().collect()
}

fn resource(account: &Account) -> Resource {
    Resource {
        name: account.resource.clone(),
        capacity: account.capacity.into(),
        allocatable: account.allocatable.into(),
        available: account.available.into(),
    }
}

fn node_zone(
    name: &str,
    node: &NumaNode,
    nodes: &Nodes<'_>,
    topology: &Topology,
    resources: Vec<Resource>,
) -> Zone {
    let here = |numa: &NumaPlace| numa.node == Some(node.id);
    let mut attributes = Attributes::default();
    attributes.add(attribute::NUMA_ID, node.id);
    attributes.add(attribute::CPUS, &node.cpus);
    attributes
        .list(attribute::GPUS, topology.gpus.iter().filter(|gpu| here(&gpu.place.numa)).map(attribute::gpu));
    attributes.list(
        attribute::NICS,
        topology.nics.iter().filter(|nic| here(&nic.place.numa)).map(|nic| nic.name()),
    );
    Zone {
        name: name.to_owned(),
        kind: NODE_ZONE.to_owned(),
        parent: None,
        attributes: attributes.finish(),
        costs: nodes.costs(node),
        resources,
    }
}
