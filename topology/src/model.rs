//! The topology from what the kernel and the driver say.

mod devices;
mod fabric;
mod numa;
mod nvlink;
mod pairs;
mod room;
mod switches;
mod view;

use std::collections::HashMap;

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::host::{Host, PciKind};
use gpulet_inventory::locality::DriverLocality;
use gpulet_inventory::topology::Topology;
use room::Room;

pub use view::GpuView;

/// Concludes the topology from the kernel's facts, the driver's GPUs and the driver's second opinion.
///
/// A GPU is in it when the kernel or the driver sees it. Whatever the input, this gives an answer: what nobody says
/// is absent, and devices beyond the 256th (GPUs first, then NICs, then NVSwitches) are left out and told as an oddity.
pub fn build(host: &Host, gpus: &[GpuView<'_>], locality: Option<&DriverLocality>) -> Topology {
    let (mut pcie_switches, lookup) = switches::find(host);
    switches::measure(&mut pcie_switches, host);
    let places = devices::Places::new(host, &lookup);
    let mut room = Room::new();
    let placed_gpus = devices::gpus(&places, gpus, locality, &mut room);
    let nics = devices::nics(&places, &mut room);
    let nvswitches = room.keep(places.top_functions(PciKind::NvSwitch).collect());
    let links = nvlink::between(&placed_gpus, gpus);
    let pairs = pairs::all(&placed_gpus, &nics, &links, locality, host);
    let nvlink_islands = nvlink::islands(placed_gpus.len(), &links);
    let clique = fabric::of_node(&placed_gpus);
    Topology {
        numa_nodes: numa::areas(host, &placed_gpus),
        gpus: placed_gpus,
        nics,
        pcie_switches,
        nvswitches: nvswitches.into_iter().map(|device| places.of(device, None)).collect(),
        pairs,
        nvlink_islands,
        clique,
        oddities: host.oddities.iter().cloned().chain(room.oddity()).collect(),
    }
}

/// Where each GPU stands in what the driver says; of two with one UUID, the first.
fn positions(locality: Option<&DriverLocality>) -> HashMap<&GpuUuid, usize> {
    let mut positions = HashMap::new();
    for (at, gpu) in locality.into_iter().flat_map(|all| &all.gpus).enumerate() {
        positions.entry(&gpu.uuid).or_insert(at);
    }
    positions
}
