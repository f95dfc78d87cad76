//! Each rule finds what it is for, and nothing in an object that is sound.

use gpulet_topology::nrt::hazards;
use gpulet_topology::nrt::object::{Attribute, Body, Cost, Quantity, Zone};

use super::node::{GPU, Node, two_sockets};

fn sound() -> Body {
    let mut node = Node::with_kubelet(&two_sockets());
    node.device(GPU, "GPU-0", Some(&[0]));
    node.built().body
}

/// What is found after a change.
fn found(change: impl Fn(&mut Body)) -> String {
    let mut body = sound();
    change(&mut body);
    hazards(&body).join("\n")
}

fn quantity(text: &str) -> Quantity {
    serde_json::from_value(serde_json::Value::String(text.to_owned())).unwrap()
}

#[test]
fn a_sound_object_has_none() {
    assert_eq!(hazards(&sound()), Vec::<String>::new());
    assert_eq!(hazards(&Body::default()), Vec::<String>::new());
}

#[test]
fn zones_must_be_named_numbered_and_dense() {
    assert!(found(|body| body.zones[0].name = "numa-0".to_owned()).contains("skipped"));
    assert!(found(|body| body.zones[1].name = "node-8".to_owned()).contains("index"));
    assert!(found(|body| body.zones[1].name = "node-64".to_owned()).contains("panics at 64"));
    assert!(found(|body| body.zones[1].name = "node-0".to_owned()).contains("two zones are named node-0"));
    assert!(found(|body| body.zones[1].name = "node-+1".to_owned()).contains("skipped"));
    assert!(found(|body| body.zones.swap(0, 1)).contains("index"));
    assert!(found(|body| body.zones[0].name.clear()).contains("without a name"));
}

#[test]
fn every_node_zone_lists_every_resource_once() {
    assert!(found(|body| drop(body.zones[1].resources.pop())).contains("0 must be said"));
    assert!(
        found(|body| body.zones[1].resources.retain(|one| one.name != "memory"))
            .contains("no Guaranteed Pod")
    );
    let twice = |body: &mut Body| {
        let resource = body.zones[0].resources[0].clone();
        body.zones[0].resources.push(resource);
    };
    assert!(found(twice).contains("two resources are named cpu"));
}

#[test]
fn quantities_are_whole_and_in_order() {
    for odd in ["-1", "1.5", "4Gi", "", "many", "+1", "9223372036854775808"] {
        assert!(
            found(|body| body.zones[0].resources[0].available = quantity(odd)).contains("whole numbers"),
            "{odd}"
        );
    }
    assert!(found(|body| body.zones[0].resources[0].available = quantity("999")).contains("allocatable 8"));
    assert!(found(|body| body.zones[0].resources[0].capacity = quantity("7")).contains("capacity 7"));
}

#[test]
fn costs_are_distances_to_zones_of_the_type() {
    let cost = |name: &str, value| Cost { name: name.to_owned(), value };
    assert!(found(|body| body.zones[0].costs[1] = cost("gpu-0", 20)).contains("no zone of its type"));
    assert!(found(|body| body.zones[0].costs[1] = cost("node-1", 0)).contains("a cost of 0"));
    assert!(found(|body| body.zones[0].costs[1] = cost("node-0", 20)).contains("two costs are named node-0"));
    assert!(found(|body| drop(body.zones[0].costs.pop())).contains("1 costs for 2 zones"));
}

#[test]
fn other_zones_have_no_resources_and_other_names() {
    let at = |body: &Body| body.zones.iter().position(|zone| zone.kind == "GPU").unwrap();
    let with_resources = |body: &mut Body| {
        let at = at(body);
        body.zones[at].resources = body.zones[0].resources.clone();
    };
    assert!(found(with_resources).contains("resources in a zone of type GPU"));
    let named = |name: &'static str| {
        move |body: &mut Body| {
            let at = at(body);
            body.zones[at].name = name.to_owned();
        }
    };
    assert!(found(named("node-7")).contains("named like a zone of type Node"));
    let orphan = |body: &mut Body| {
        let at = at(body);
        body.zones[at].parent = Some("socket-0".to_owned());
    };
    assert!(found(orphan).contains("socket-0 is no zone"));
    assert!(
        found(|body| body.zones.push(Zone { name: "x".to_owned(), ..Zone::default() }))
            .contains("without a type")
    );
}

#[test]
fn attributes_are_known_and_told_once() {
    let add = |name: &'static str, value: &'static str| {
        move |body: &mut Body| {
            body.attributes.retain(|attribute| attribute.name != name || name == "cpuManagerPolicy");
            body.attributes.push(Attribute { name: name.to_owned(), value: value.to_owned() });
        }
    };
    assert!(found(add("cpuManagerPolicy", "static")).contains("two attributes"));
    for (name, value) in [
        ("topologyManagerPolicy", "SingleNUMANode"),
        ("topologyManagerScope", "Pod"),
        ("topologyManagerMaxNUMANodes", "1"),
        ("nodeTopologyPodsFingerprint", "pfp0v001"),
        ("nodeTopologyPodsFingerprintMethod", "some"),
    ] {
        assert!(found(add(name, value)).contains("no reader knows"), "{name}");
    }
}
