//! GPUs of each zone without a kubelet: what the driver counts, and what no process holds.

use gpulet_inventory::topology::PlacedGpu;

use super::built::NoteReason;
use super::devices::{Figures, share};
use super::figure::Figure;
use super::inputs::Inputs;
use super::nodes::Nodes;
use super::notes::Notes;

/// The resource that NVIDIA's device plugin gives GPUs the name of.
const GPU: &str = "nvidia.com/gpu";

/// Counts the GPUs; none on a machine without. A GPU counts as one, also in MIG mode.
pub(super) fn figures(inputs: &Inputs<'_>, nodes: &Nodes<'_>, notes: &mut Notes) -> Figures {
    let mut by_zone: Vec<Vec<&PlacedGpu>> = vec![Vec::new(); nodes.zones().len()];
    let mut unplaced = Vec::new();
    for gpu in &inputs.topology.gpus {
        let zone = gpu.place.numa.node.and_then(|node| nodes.zone_of(i64::from(node.0)));
        match zone.and_then(|zone| by_zone.get_mut(zone)) {
            Some(gpus) => gpus.push(gpu),
            None => {
                notes.add(NoteReason::DeviceWithoutZone, GPU, name(gpu));
                unplaced.push(gpu);
            }
        }
    }
    let mut figures = Figures::default();
    if by_zone.iter().any(|gpus| !gpus.is_empty()) {
        let of_zones = by_zone.iter().map(|gpus| figure(gpus, inputs));
        figures.placed.insert(GPU.to_owned(), of_zones.collect());
    }
    if !unplaced.is_empty() {
        figures.unplaced.insert(GPU.to_owned(), figure(&unplaced, inputs));
    }
    figures
}

fn figure(gpus: &[&PlacedGpu], inputs: &Inputs<'_>) -> Figure {
    let mut figure = Figure::of(gpus.len() as u64, "GPUs that the kernel or the driver shows");
    let mut held = Vec::new();
    for gpu in gpus {
        let reason = match (gpu.down, gpu.index) {
            (Some(reason), _) => Some(format!("does not answer: {reason}")),
            (None, None) => Some(format!(
                "not in the driver's list, kernel driver: {}",
                gpu.kernel_driver.as_deref().unwrap_or("none")
            )),
            (None, Some(_)) => None,
        };
        match reason {
            Some(reason) => drop(figure.keep(share(&reason, vec![name(gpu)]))),
            None if inputs.gpus_in_use.contains(&gpu.place.pci) => held.push(name(gpu)),
            None => {}
        }
    }
    if !held.is_empty() {
        figure.take(share("held by processes", held));
    }
    figure
}

/// UUID, else address.
fn name(gpu: &PlacedGpu) -> String {
    gpu.uuid.as_ref().map_or_else(|| gpu.place.pci.to_string(), ToString::to_string)
}
