//! Zones of type `GPU`.

use std::collections::{BTreeMap, BTreeSet};

use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::topology::{Device, FabricPlace, PlacedGpu, Topology};

use super::super::attribute::{self, Attributes};
use super::super::inputs::{DeviceName, Inputs};
use super::super::nodes::Nodes;
use super::super::object::{Attribute, Cost, Zone};
use super::super::pods::Holder;
use super::switches;
use crate::label;

/// The name of a GPU's zone.
pub(super) fn name(pci: PciAddress) -> String {
    format!("gpu-{pci}")
}

/// One for each GPU. What it costs to reach another is the level of the way over PCIe, as NVML numbers it: 10 for `PIX` to
/// 50 for `SYS`.
pub(super) fn zones(inputs: &Inputs<'_>, nodes: &Nodes<'_>, holders: &[Holder<'_>]) -> Vec<Zone> {
    let topology = inputs.topology;
    let claims = claims(inputs, holders);
    let zone = |(at, gpu): (usize, &PlacedGpu)| Zone {
        name: name(gpu.place.pci),
        kind: "GPU".to_owned(),
        parent: parent(gpu, topology, nodes),
        attributes: attributes(gpu, claims.get(&gpu.place.pci)),
        costs: costs(at, topology),
        resources: Vec::new(),
    };
    topology.gpus.iter().enumerate().map(zone).collect()
}

fn parent(gpu: &PlacedGpu, topology: &Topology, nodes: &Nodes<'_>) -> Option<String> {
    let switch = gpu.place.pcie_switch.and_then(|at| topology.pcie_switches.get(at));
    switch
        .map(|switch| switches::name(switch.upstream))
        .or_else(|| gpu.place.numa.node.and_then(|node| nodes.name_of(node)))
}

fn attributes(gpu: &PlacedGpu, claims: Option<&BTreeSet<String>>) -> Vec<Attribute> {
    let mut attributes = Attributes::default();
    attributes.add_known(attribute::UUID, gpu.uuid.as_ref());
    attributes.add_known(attribute::INDEX, gpu.index);
    attributes.add(attribute::PCI_ADDRESS, gpu.place.pci);
    attributes.add_known(attribute::PRODUCT, gpu.name.as_deref().map(label::name));
    attributes.add_known(attribute::NUMA_ID, gpu.place.numa.node);
    attributes.add(attribute::NUMA_SOURCE, gpu.place.numa.source.as_str());
    if let Some(link) = &gpu.place.link {
        attributes.add_known(attribute::PCIE_WIDTH, link.possible_width);
        attributes.add_known(attribute::PCIE_GENERATION, link.possible_speed_mts.and_then(label::generation));
    }
    if let FabricPlace::Clique { cluster_uuid, clique_id } = &gpu.fabric {
        attributes.add(attribute::CLIQUE, format!("{cluster_uuid}.{clique_id}"));
    }
    attributes.list(attribute::CLAIMS, claims.into_iter().flatten());
    attributes.finish()
}

fn costs(at: usize, topology: &Topology) -> Vec<Cost> {
    let cost = |(other, gpu): (usize, &PlacedGpu)| {
        let value = match at == other {
            true => 0,
            false => topology.pair(Device::Gpu(at), Device::Gpu(other))?.best_known_level()?.number(),
        };
        Some(Cost { name: name(gpu.place.pci), value: i64::from(value) })
    };
    topology.gpus.iter().enumerate().filter_map(cost).collect()
}

/// Claims by which containers have something of a PCI device.
fn claims(inputs: &Inputs<'_>, holders: &[Holder<'_>]) -> BTreeMap<PciAddress, BTreeSet<String>> {
    let mut claims: BTreeMap<PciAddress, BTreeSet<String>> = BTreeMap::new();
    for claim in holders.iter().flat_map(|holder| &holder.container.claims) {
        if let Some(hardware) = (inputs.hardware_of)(DeviceName::Claim(claim)) {
            let name = format!("{}/{}", claim.claim_namespace, claim.claim);
            claims.entry(hardware.pci).or_default().insert(name);
        }
    }
    claims
}
