//! Zones of type `PCIeSwitch`.

use std::collections::BTreeSet;

use gpulet_inventory::locality::Level;
use gpulet_inventory::numa::NumaNodeId;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::topology::{PcieSwitch, Place, Topology};

use super::super::attribute::{self, Attributes};
use super::super::nodes::Nodes;
use super::super::object::{Attribute, Cost, Zone};
use crate::label;

/// The name of a switch's zone.
pub(super) fn name(upstream: PciAddress) -> String {
    format!("pcie-switch-{upstream}")
}

/// One for each switch. What it costs to reach another is the level of the way over PCIe, as NVML numbers it: 20 for `PXB`
/// to 50 for `SYS`; told between switches with a GPU or NIC of their own, for the rest is in their parents.
pub(super) fn zones(topology: &Topology, nodes: &Nodes<'_>) -> Vec<Zone> {
    let numa: Vec<Option<NumaNodeId>> =
        (0..topology.pcie_switches.len()).map(|at| numa_node(at, topology)).collect();
    let with_devices = with_devices(topology);
    let zone = |(at, switch): (usize, &PcieSwitch)| {
        let node = numa.get(at).copied().flatten();
        let above = switch.parent.and_then(|above| topology.pcie_switches.get(above));
        Zone {
            name: name(switch.upstream),
            kind: "PCIeSwitch".to_owned(),
            parent: above
                .map(|above| name(above.upstream))
                .or_else(|| node.and_then(|node| nodes.name_of(node))),
            attributes: attributes(at, switch, topology),
            costs: costs(at, &with_devices, topology, &numa),
            resources: Vec::new(),
        }
    };
    topology.pcie_switches.iter().enumerate().map(zone).collect()
}

fn attributes(at: usize, switch: &PcieSwitch, topology: &Topology) -> Vec<Attribute> {
    let below = |place: &Place| place.pcie_switch == Some(at);
    let mut attributes = Attributes::default();
    attributes.add(attribute::PCIE_ROOT, label::name(&switch.root));
    if let Some(link) = &switch.link {
        attributes.add_known(attribute::PCIE_WIDTH, link.possible_width);
        attributes.add_known(attribute::PCIE_GENERATION, link.possible_speed_mts.and_then(label::generation));
    }
    let gpus = topology.gpus.iter().filter(|gpu| below(&gpu.place));
    attributes.list(attribute::GPUS, gpus.map(attribute::gpu));
    let nics = topology.nics.iter().filter(|nic| below(&nic.place));
    attributes.list(attribute::NICS, nics.map(|nic| nic.name()));
    attributes.finish()
}

/// The NUMA node of all that is below a switch, if it is one.
fn numa_node(at: usize, topology: &Topology) -> Option<NumaNodeId> {
    let places = topology.gpus.iter().map(|gpu| &gpu.place).chain(topology.nics.iter().map(|nic| &nic.place));
    let below = places.chain(&topology.nvswitches).filter(|place| {
        place.pcie_switch.is_some_and(|nearest| above(nearest, topology).any(|switch| switch == at))
    });
    let nodes: BTreeSet<NumaNodeId> = below.filter_map(|place| place.numa.node).collect();
    nodes.first().copied().filter(|_| nodes.len() == 1)
}

/// A switch and those above it. A switch stands after the one above it, so this ends.
fn above(at: usize, topology: &Topology) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(at), |at| topology.pcie_switches.get(*at)?.parent.filter(|parent| parent < at))
}

/// Switches that a GPU or NIC is nearest to.
fn with_devices(topology: &Topology) -> BTreeSet<usize> {
    let gpus = topology.gpus.iter().filter_map(|gpu| gpu.place.pcie_switch);
    gpus.chain(topology.nics.iter().filter_map(|nic| nic.place.pcie_switch)).collect()
}

fn costs(
    at: usize,
    with_devices: &BTreeSet<usize>,
    topology: &Topology,
    numa: &[Option<NumaNodeId>],
) -> Vec<Cost> {
    if !with_devices.contains(&at) {
        return Vec::new();
    }
    let cost = |other: &usize| {
        let name = name(topology.pcie_switches.get(*other)?.upstream);
        Some(Cost { name, value: i64::from(level(at, *other, topology, numa)?.number()) })
    };
    with_devices.iter().filter_map(cost).collect()
}

fn level(one: usize, other: usize, topology: &Topology, numa: &[Option<NumaNodeId>]) -> Option<Level> {
    if one == other {
        return Some(Level::Same);
    }
    let (a, b) = (topology.pcie_switches.get(one)?, topology.pcie_switches.get(other)?);
    let joined = above(one, topology).any(|mine| above(other, topology).any(|its| its == mine));
    let (here, there) = (numa.get(one).copied().flatten(), numa.get(other).copied().flatten());
    match (joined, a.root == b.root, here, there) {
        (true, ..) => Some(Level::Pxb),
        (_, true, ..) => Some(Level::Phb),
        (_, _, Some(here), Some(there)) if here == there => Some(Level::Node),
        (_, _, Some(_), Some(_)) => Some(Level::Sys),
        _ => None,
    }
}
