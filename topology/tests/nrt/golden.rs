//! Three whole objects, as they were looked at once.

use std::fmt::Write;

use gpulet_topology::nrt::object::{Attribute, Body};

use super::node::{GIB, GPU, Node, block, device, distances, pages};
use crate::support::machine::Machine;
use crate::support::machines;

fn assert_golden(body: &Body, expected: &str) {
    let text = shown(body);
    assert!(text == expected, "the object is now:\n{text}");
    let written = serde_json::to_string(body).unwrap();
    assert_eq!(&serde_json::from_str::<Body>(&written).unwrap(), body);
}

/// The object so that a person can look at it: a line for each attribute and resource, the latter with capacity, allocatable
/// and available.
fn shown(body: &Body) -> String {
    let mut text = String::new();
    let attributes = |attributes: &[Attribute], indent: &str, text: &mut String| {
        for Attribute { name, value } in attributes {
            writeln!(text, "{indent}{name}={value}").unwrap();
        }
    };
    attributes(&body.attributes, "", &mut text);
    for zone in &body.zones {
        let parent = zone.parent.as_ref().map_or(String::new(), |parent| format!(" in {parent}"));
        writeln!(text, "\n{} {}{parent}", zone.kind, zone.name).unwrap();
        attributes(&zone.attributes, "  ", &mut text);
        let costs: Vec<String> =
            zone.costs.iter().map(|cost| format!("{}:{}", cost.name, cost.value)).collect();
        if !costs.is_empty() {
            writeln!(text, "  costs {}", costs.join(" ")).unwrap();
        }
        for resource in &zone.resources {
            let figures = [&resource.capacity, &resource.allocatable, &resource.available];
            let figures: Vec<&str> = figures.into_iter().map(|figure| figure.as_str()).collect();
            writeln!(text, "  {} {}", resource.name, figures.join(" ")).unwrap();
        }
    }
    text
}

/// Static managers, two Pods, huge pages, a plugin for NICs.
#[test]
fn a_dgx_h100_under_load() {
    let mut machine = machines::dgx_h100();
    distances(&mut machine, 21);
    let mut node = Node::with_kubelet(&machine);
    node.settings().memory_manager_policy = "Static".to_owned();
    node.settings().reserved_cpus = Some("0-1,112-113".parse().unwrap());
    node.allocatable().cpus = "2-111,114-223".parse().unwrap();
    node.huge_pages = (0..2).flat_map(|numa| [pages(numa, 2 << 20, 1024), pages(numa, 1 << 30, 0)]).collect();
    node.allocatable().memory = (0..2)
        .flat_map(|numa| [block("memory", 1004 * GIB, &[numa]), block("hugepages-2Mi", 2 * GIB, &[numa])])
        .collect();
    for (at, gpu) in machine.gpus.iter().enumerate() {
        node.device(GPU, gpu.uuid.as_str(), Some(&[at as i64 / 4]));
    }
    node.device("rdma/hca", "mlx5_4", Some(&[1]));
    for (pod, gpu) in [("train-0", 0), ("train-1", 5)] {
        let numa = gpu as i64 / 4;
        let container = node.pod("ml", pod);
        container.cpus = format!("{}-{}", 56 * numa + 4, 56 * numa + 11).parse().unwrap();
        container.memory = vec![block("memory", 64 * GIB, &[numa])];
        container.devices = vec![device(GPU, machine.gpus[gpu].uuid.as_str(), Some(&[numa]))];
    }
    assert_golden(&node.built().body, include_str!("dgx-h100.txt"));
}

/// 34 NUMA nodes of which two have CPUs; nothing managed.
#[test]
fn a_gb200_tray_at_rest() {
    let mut machine = machines::gb200_tray();
    distances(&mut machine, 80);
    let mut node = Node::with_kubelet(&machine);
    node.settings().topology_manager_policy = "best-effort".to_owned();
    node.settings().topology_manager_options =
        [("max-allowable-numa-nodes".to_owned(), "34".to_owned())].into();
    node.settings().cpu_manager_policy = "none".to_owned();
    node.settings().reserved_milli_cpus = 2000;
    node.settings().reserved_memory_bytes = 4 * GIB;
    for (at, gpu) in machine.gpus.iter().enumerate() {
        node.device(GPU, gpu.uuid.as_str(), Some(&[at as i64 / 2]));
    }
    assert_golden(&node.built().body, include_str!("gb200-tray.txt"));
}

/// Numbers with gaps, a memory-only node, and no kubelet.
#[test]
fn a_machine_with_gaps_without_kubernetes() {
    let mut machine = Machine::new("Tesla V100-SXM2-32GB");
    machine.node(0, "0-79", 256);
    machine.node(8, "80-159", 256);
    machine.node(250, "", 32);
    distances(&mut machine, 40);
    for numa in [0, 8] {
        let slot = machine.slot(Some(numa));
        machine.gpu(&slot);
    }
    machine.linked(0, 1, 3);
    let mut node = Node::bare(&machine);
    node.gpus_in_use.insert(machine.gpus[1].pci);
    assert_golden(&node.built().body, include_str!("sparse.txt"));
}
