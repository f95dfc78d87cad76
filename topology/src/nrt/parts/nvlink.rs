//! Zones of type `NVLinkDomain`: GPUs of this node that reach each other by NVLink.

use gpulet_inventory::topology::{FabricPlace, NvlinkIsland, Topology};

use super::super::attribute::{self, Attributes};
use super::super::object::{Attribute, Zone};

/// One for each set of GPUs that NVLink joins.
pub(super) fn zones(topology: &Topology) -> Vec<Zone> {
    let zone = |(number, island): (usize, &NvlinkIsland)| Zone {
        name: format!("nvlink-{number}"),
        kind: "NVLinkDomain".to_owned(),
        attributes: attributes(island, topology),
        ..Zone::default()
    };
    topology.nvlink_islands.iter().enumerate().map(zone).collect()
}

fn attributes(island: &NvlinkIsland, topology: &Topology) -> Vec<Attribute> {
    let members = || island.gpus.iter().filter_map(|gpu| topology.gpus.get(*gpu));
    let mut attributes = Attributes::default();
    attributes.list(attribute::GPUS, members().map(attribute::gpu));
    attributes.add(attribute::THROUGH_SWITCH, island.through_switch);
    attributes.add(
        attribute::LINKS_PER_PAIR,
        match island.full_mesh && island.fewest_links == island.most_links {
            true => island.most_links.to_string(),
            false => {
                format!("{}-{}", if island.full_mesh { island.fewest_links } else { 0 }, island.most_links)
            }
        },
    );
    let mut cliques = members().map(|gpu| &gpu.fabric);
    if let Some(first @ FabricPlace::Clique { cluster_uuid, clique_id }) = cliques.next()
        && cliques.all(|other| other == first)
    {
        attributes.add(attribute::CLIQUE, format!("{cluster_uuid}.{clique_id}"));
    }
    attributes.finish()
}
