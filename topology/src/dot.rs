//! The topology for Graphviz.

use std::collections::BTreeSet;
use std::fmt::Write;

use gpulet_inventory::numa::NumaNodeId;
use gpulet_inventory::topology::{Device, Place, Topology};

use crate::label;

/// The topology in the DOT language: NUMA nodes as clusters, PCIe links as lines down from the root complexes, NVLinks
/// as thick lines with their number.
pub fn dot(topology: &Topology) -> String {
    let mut text = String::from(
        "graph topology {\n  graph [rankdir=TB, fontname=\"sans-serif\", compound=true];\n  \
         node [shape=box, style=\"rounded,filled\", fillcolor=white, fontname=\"sans-serif\"];\n  \
         edge [fontname=\"sans-serif\"];\n",
    );
    let nodes: BTreeSet<Option<NumaNodeId>> = topology
        .devices()
        .filter_map(|device| place(topology, device))
        .map(|place| place.numa.node)
        .collect();
    for node in nodes {
        cluster(topology, node, &mut text);
    }
    pcie(topology, &mut text);
    nvlinks(topology, &mut text);
    text.push_str("}\n");
    text
}

fn place(topology: &Topology, device: Device) -> Option<&Place> {
    match device {
        Device::Gpu(gpu) => topology.gpus.get(gpu).map(|gpu| &gpu.place),
        Device::Nic(nic) => topology.nics.get(nic).map(|nic| &nic.place),
    }
}

/// A quoted string of the DOT language, of one line or several. Names in it are made fit by [`label::name`] before.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

fn cluster(topology: &Topology, node: Option<NumaNodeId>, text: &mut String) {
    let name = node.map_or_else(|| "unknown".to_owned(), |node| node.to_string());
    let cpus = node
        .and_then(|id| topology.numa_node(id))
        .map(|area| format!("\nCPUs {}", label::cut(&area.node.cpus.to_string(), 40)));
    let title = format!("{}{}", label::numa_node(node), cpus.unwrap_or_default());
    let _ = writeln!(
        text,
        "  subgraph \"cluster_numa_{name}\" {{\n    labelloc=b;\n    label={};",
        quoted(&title)
    );
    for device in topology.devices() {
        if place(topology, device).is_some_and(|place| place.numa.node == node) {
            let _ = writeln!(text, "    {}", declared(topology, device));
        }
    }
    text.push_str("  }\n");
}

fn declared(topology: &Topology, device: Device) -> String {
    let (words, colour) = match device {
        Device::Gpu(at) => {
            let Some(gpu) = topology.gpus.get(at) else { return String::new() };
            let state = gpu.down.map(|reason| format!("down: {reason}"));
            let words = [gpu.name.as_deref().map(label::name), Some(gpu.place.pci.to_string()), state];
            (
                words.into_iter().flatten().collect::<Vec<_>>(),
                match (gpu.down, label::fault(gpu)) {
                    (_, Some(_)) => "lightpink",
                    (Some(_), None) => "lightgrey",
                    (None, None) => "palegreen",
                },
            )
        }
        Device::Nic(at) => {
            let Some(nic) = topology.nics.get(at) else { return String::new() };
            let words = [Some(label::name(&nic.name())), Some(nic.place.pci.to_string()), label::rate(nic)];
            (words.into_iter().flatten().collect(), "navajowhite")
        }
    };
    let shown = format!("{}\n{}", topology.label(device), words.join("\n"));
    format!("{} [label={}, fillcolor={colour}];", name(device), quoted(&shown))
}

fn name(device: Device) -> String {
    match device {
        Device::Gpu(gpu) => format!("gpu_{gpu}"),
        Device::Nic(nic) => format!("nic_{nic}"),
    }
}

/// Root complexes and switches stand outside the clusters: one may serve several NUMA nodes.
fn pcie(topology: &Topology, text: &mut String) {
    let mut roots = BTreeSet::new();
    for (at, switch) in topology.pcie_switches.iter().enumerate() {
        let shown = format!("PCIe switch\n{}", switch.upstream);
        let _ = writeln!(text, "  switch_{at} [label={}, fillcolor=lightblue];", quoted(&shown));
        let above = match switch.parent {
            Some(parent) => format!("switch_{parent}"),
            None => {
                roots.insert(switch.root.as_str());
                quoted(&label::name(&switch.root))
            }
        };
        let _ = writeln!(text, "  {above} -- switch_{at}{};", width(switch.link.as_ref()));
    }
    for device in topology.devices() {
        let Some(place) = place(topology, device) else { continue };
        let above = match (place.pcie_switch, &place.path) {
            (Some(switch), _) => format!("switch_{switch}"),
            (None, Some(path)) => {
                roots.insert(path.root.as_str());
                quoted(&label::name(&path.root))
            }
            (None, None) => continue,
        };
        let _ = writeln!(text, "  {above} -- {}{};", name(device), width(place.link.as_ref()));
    }
    for (at, place) in topology.nvswitches.iter().enumerate() {
        let shown = format!("NVSwitch\n{}", place.pci);
        let _ = writeln!(text, "  nvswitch_{at} [label={}, fillcolor=plum];", quoted(&shown));
        if let Some(switch) = place.pcie_switch {
            let _ = writeln!(text, "  switch_{switch} -- nvswitch_{at}{};", width(place.link.as_ref()));
        }
    }
    for root in roots {
        let _ = writeln!(text, "  {} [fillcolor=lightgray];", quoted(&label::name(root)));
    }
}

fn width(link: Option<&gpulet_inventory::topology::SlotLink>) -> String {
    let Some((link, width)) = link.and_then(|link| Some((link, label::width(link)?))) else {
        return String::new();
    };
    let colour = if link.is_narrow() { ", color=red, fontcolor=red, style=dashed" } else { "" };
    format!(" [label={}{colour}]", quoted(&width))
}

fn nvlinks(topology: &Topology, text: &mut String) {
    const LINE: &str = "color=purple, penwidth=3, constraint=false";
    for (at, island) in topology.nvlink_islands.iter().enumerate().filter(|(_, island)| island.through_switch)
    {
        let _ = writeln!(text, "  nvlink_{at} [label=\"NVLink switches\", fillcolor=plum];");
        for gpu in &island.gpus {
            let links = topology.gpus.get(*gpu).map_or(0, |gpu| gpu.nvlinks.to_switches);
            let _ =
                writeln!(text, "  gpu_{gpu} -- nvlink_{at} [label=\"NV{links}\", color=purple, penwidth=3];");
        }
    }
    for pair in &topology.pairs {
        if let Some(nvlink) = pair.nvlink.filter(|nvlink| !nvlink.through_switch && nvlink.links > 0) {
            let (a, b) = (name(pair.a), name(pair.b));
            let _ = writeln!(text, "  {a} -- {b} [label=\"NV{}\", {LINE}];", nvlink.links);
        }
    }
}
