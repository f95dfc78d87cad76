//! What a scheduler would stumble over in an object.
//!
//! Each rule is one that today's readers break on: the NodeResourceTopologyMatch plug-in takes the number in a zone's name
//! for an index (and panics at 64 and at gaps), places nothing where `cpu` or `memory` lack, adds up the resource names of
//! zones of every type, and takes a resource that a zone does not list for one that fits in none of its combinations.

use std::collections::{BTreeMap, BTreeSet};

use super::object::{Attribute, Body, NODE_ZONE, Quantity, Resource, Zone};

/// The first number that the scheduler plug-in has no room for.
const TOO_HIGH: usize = 64;
/// What a zone of type `Node` is called, before its number.
const NODE: &str = "node-";
/// Without these in a zone, no Guaranteed Pod is placed there.
const NATIVE: [&str; 2] = ["cpu", "memory"];
/// SLIT distances: less than 10 is no distance, 255 is unreachable.
const DISTANCES: std::ops::RangeInclusive<i64> = 10..=255;

/// Everything in the object that a reader would break on or take for something else; nothing in one that
/// [`build`](super::build) made. Quantities are expected as whole numbers without a unit.
pub fn hazards(body: &Body) -> Vec<String> {
    let mut found = Vec::new();
    attributes("the object", &body.attributes, &mut found);
    policies(&body.attributes, &mut found);
    unique("zone", "the object", body.zones.iter().map(|zone| zone.name.as_str()), &mut found);
    let nodes: Vec<&Zone> = body.zones.iter().filter(|zone| zone.kind == NODE_ZONE).collect();
    numbers(&nodes, &mut found);
    let names: BTreeSet<&str> = nodes.iter().map(|zone| zone.name.as_str()).collect();
    let listed: BTreeSet<&str> =
        nodes.iter().flat_map(|zone| &zone.resources).map(|resource| resource.name.as_str()).collect();
    for zone in &nodes {
        node_zone(zone, &names, &listed, &mut found);
    }
    let all: BTreeSet<&str> = body.zones.iter().map(|zone| zone.name.as_str()).collect();
    for zone in &body.zones {
        attributes(&zone.name, &zone.attributes, &mut found);
        if zone.kind != NODE_ZONE {
            other_zone(zone, &mut found);
        }
        if let Some(parent) = zone.parent.as_deref().filter(|parent| !all.contains(parent)) {
            found.push(format!("{}: its parent {parent} is no zone", zone.name));
        }
    }
    found
}

fn unique<'a>(what: &str, of: &str, names: impl Iterator<Item = &'a str>, found: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for name in names {
        if name.is_empty() {
            found.push(format!("{of}: a {what} without a name"));
        } else if !seen.insert(name) {
            found.push(format!("{of}: two {what}s are named {name}, and readers take the first"));
        }
    }
}

fn attributes(of: &str, attributes: &[Attribute], found: &mut Vec<String>) {
    unique("attribute", of, attributes.iter().map(|attribute| attribute.name.as_str()), found);
}

/// Values that the scheduler plug-in replaces by its defaults, without a word.
fn policies(attributes: &[Attribute], found: &mut Vec<String>) {
    let policies = ["none", "best-effort", "restricted", "single-numa-node"];
    for Attribute { name, value } in attributes {
        let known = match name.as_str() {
            "topologyManagerPolicy" => policies.contains(&value.as_str()),
            "topologyManagerScope" => ["container", "pod"].contains(&value.as_str()),
            "topologyManagerMaxNUMANodes" => value.parse::<u32>().is_ok_and(|most| most > 1),
            "nodeTopologyPodsFingerprintMethod" => {
                ["all", "with-exclusive-resources"].contains(&value.as_str())
            }
            "nodeTopologyPodsFingerprint" => value.starts_with("pfp0v001") && value.len() == 24,
            _ => true,
        };
        if !known {
            found.push(format!("attribute {name}: no reader knows the value {value:?}"));
        }
    }
}

fn number(name: &str) -> Option<usize> {
    let digits = name.strip_prefix(NODE)?;
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| plain)
}

fn numbers(nodes: &[&Zone], found: &mut Vec<String>) {
    for (at, zone) in nodes.iter().enumerate() {
        match number(&zone.name) {
            None => found.push(format!("{}: not named {NODE} and a number, so it is skipped", zone.name)),
            Some(number) if number >= TOO_HIGH => {
                found
                    .push(format!("{}: a scheduler panics at {TOO_HIGH} and skips what is above", zone.name));
            }
            Some(number) if number != at => found.push(format!(
                "{}: zone {at} of its type; a scheduler that takes its number for an index takes another",
                zone.name
            )),
            Some(_) => {}
        }
    }
}

fn node_zone(zone: &Zone, names: &BTreeSet<&str>, listed: &BTreeSet<&str>, found: &mut Vec<String>) {
    unique("resource", &zone.name, zone.resources.iter().map(|resource| resource.name.as_str()), found);
    let own: BTreeMap<&str, &Resource> =
        zone.resources.iter().map(|resource| (resource.name.as_str(), resource)).collect();
    for name in listed.iter().filter(|name| !own.contains_key(*name)) {
        found.push(format!("{}: does not list {name}, which other zones do; 0 must be said", zone.name));
    }
    for name in NATIVE.iter().filter(|name| !own.contains_key(*name)) {
        found.push(format!("{}: does not list {name}, so no Guaranteed Pod is placed there", zone.name));
    }
    for resource in own.values() {
        quantities(zone, resource, found);
    }
    unique("cost", &zone.name, zone.costs.iter().map(|cost| cost.name.as_str()), found);
    for cost in &zone.costs {
        if !names.contains(cost.name.as_str()) {
            found.push(format!("{}: a cost to {}, which is no zone of its type", zone.name, cost.name));
        }
        if !DISTANCES.contains(&cost.value) {
            found.push(format!("{}: a cost of {} to {}", zone.name, cost.value, cost.name));
        }
    }
    if !zone.costs.is_empty() && zone.costs.len() != names.len() {
        found.push(format!("{}: {} costs for {} zones", zone.name, zone.costs.len(), names.len()));
    }
}

fn quantities(zone: &Zone, resource: &Resource, found: &mut Vec<String>) {
    let of = |quantity: &Quantity| {
        let text = quantity.as_str();
        // Schedulers count in 64 bits with a sign.
        text.parse::<u64>().ok().filter(|amount| *amount <= i64::MAX as u64 && !text.starts_with('+'))
    };
    let all = [&resource.capacity, &resource.allocatable, &resource.available];
    match all.map(of) {
        [Some(capacity), Some(allocatable), Some(available)] => {
            if available > allocatable || allocatable > capacity {
                found.push(format!(
                    "{} {}: available {available}, allocatable {allocatable}, capacity {capacity}",
                    zone.name, resource.name
                ));
            }
        }
        _ => {
            let texts = all.map(Quantity::as_str).join(", ");
            found.push(format!("{} {}: {texts} are not whole numbers from 0 up", zone.name, resource.name));
        }
    }
}

fn other_zone(zone: &Zone, found: &mut Vec<String>) {
    if zone.kind.is_empty() {
        found.push(format!("{}: without a type", zone.name));
    }
    if !zone.resources.is_empty() {
        found.push(format!("{}: resources in a zone of type {}", zone.name, zone.kind));
    }
    if zone.name.starts_with(NODE) {
        found.push(format!("{}: named like a zone of type {NODE_ZONE}, and is a {}", zone.name, zone.kind));
    }
    unique("cost", &zone.name, zone.costs.iter().map(|cost| cost.name.as_str()), found);
}
