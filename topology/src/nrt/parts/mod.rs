//! Zones for those who want to know more than how much each NUMA node has: PCIe switches, NVLink domains, GPUs, and NUMA
//! nodes that are only memory.
//!
//! They never carry resources: a scheduler adds up the resource names of all zones, and would take a Pod for one that needs
//! what no zone of type `Node` has. Nor is any of them named like a zone of that type.

mod gpus;
mod memory_nodes;
mod nvlink;
mod switches;

use std::collections::BTreeSet;

use super::built::NoteReason;
use super::inputs::Inputs;
use super::nodes::Nodes;
use super::notes::Notes;
use super::object::Zone;
use super::pods::Holder;

/// Costs between more than 16 zones of a type would be most of the object.
const MOST_COSTS: usize = 16 * 16;

/// The zones by type: PCIe switches, NVLink domains, GPUs, memory nodes; each type in the topology's order.
pub(super) fn zones(
    inputs: &Inputs<'_>,
    nodes: &Nodes<'_>,
    holders: &[Holder<'_>],
    notes: &mut Notes,
) -> Vec<Zone> {
    let topology = inputs.topology;
    let types = [
        switches::zones(topology, nodes),
        nvlink::zones(topology),
        gpus::zones(inputs, nodes, holders),
        memory_nodes::zones(topology, nodes),
    ];
    let mut names = BTreeSet::new();
    let mut zones = Vec::new();
    for mut of_type in types {
        // Of two devices that claim one address, the first has the name.
        of_type.retain(|zone| names.insert(zone.name.clone()));
        if of_type.iter().map(|zone| zone.costs.len()).sum::<usize>() > MOST_COSTS {
            let kind = of_type.first().map_or_else(String::new, |zone| zone.kind.clone());
            notes.add(NoteReason::CostsLeftOut, &kind, format!("{} zones", of_type.len()));
            of_type.iter_mut().for_each(|zone| zone.costs.clear());
        }
        zones.extend(of_type);
    }
    zones
}
