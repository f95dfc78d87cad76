//! The topology from what the kernel and the driver say.

mod devices;
mod fabric;
mod numa;
mod nvlink;
mod pairs;
mod switches;
mod view;

use gpulet_inventory::host::{Host, PciKind};
use gpulet_inventory::locality::DriverLocality;
use gpulet_inventory::topology::Topology;

pub use view::GpuView;

/// Concludes the topology from the kernel's facts, the driver's GPUs and the driver's second opinion.
///
/// A GPU is in it when the kernel or the driver sees it. Whatever the input, this gives an answer: what nobody says
/// is absent.
pub fn build(host: &Host, gpus: &[GpuView<'_>], locality: Option<&DriverLocality>) -> Topology {
    let (mut pcie_switches, lookup) = switches::find(host);
    switches::measure(&mut pcie_switches, host);
    let places = devices::Places { host, switches: &lookup, numa: numa::Finder::new(host) };
    let placed_gpus = devices::gpus(&places, gpus, locality);
    let nics = devices::nics(&places);
    let nvswitches = devices::top_functions(host, PciKind::NvSwitch).map(|d| places.of(d, None)).collect();
    let links = nvlink::between(&placed_gpus, gpus);
    let pairs = pairs::all(&placed_gpus, &nics, &links, locality, host);
    let nvlink_islands = nvlink::islands(placed_gpus.len(), &links);
    let clique = fabric::of_node(&placed_gpus);
    Topology {
        numa_nodes: numa::areas(host, &placed_gpus),
        gpus: placed_gpus,
        nics,
        pcie_switches,
        nvswitches,
        pairs,
        nvlink_islands,
        clique,
        oddities: host.oddities.clone(),
    }
}
