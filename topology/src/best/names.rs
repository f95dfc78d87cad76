//! GPUs by the names that people use.

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::topology::Topology;

use super::BestError;

/// Positions of the GPUs in a list such as `0,2-3`, `GPU4`, `GPU-8f6d2c3a-…` or `0000:3b:00.0`, ascending. Numbers
/// are the driver's.
///
/// # Errors
/// When a name fits no GPU.
pub fn parse_gpus(topology: &Topology, list: &str) -> Result<Vec<usize>, BestError> {
    let mut gpus = Vec::new();
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        match range(name) {
            Some((first, last)) => gpus.extend(between(topology, first, last)?),
            None => gpus.push(one(topology, name).ok_or_else(|| unknown(topology, &[name.to_owned()]))?),
        }
    }
    gpus.sort_unstable();
    gpus.dedup();
    Ok(gpus)
}

/// The GPUs with these numbers and all between them.
fn between(topology: &Topology, first: u16, last: u16) -> Result<Vec<usize>, BestError> {
    let (mut gpus, mut missing) = (Vec::new(), Vec::new());
    for index in (first..=last).map(|index| index.to_string()) {
        match one(topology, &index) {
            Some(position) => gpus.push(position),
            None => missing.push(index),
        }
    }
    if missing.is_empty() { Ok(gpus) } else { Err(unknown(topology, &missing)) }
}

/// More than four digits are no GPU's number, and would make for a long loop.
fn range(name: &str) -> Option<(u16, u16)> {
    let (first, last) = name.split_once('-')?;
    let number = |digits: &str| {
        let plain = (1..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| digits.parse().ok()).flatten()
    };
    Some((number(first)?, number(last)?)).filter(|(first, last)| first <= last)
}

fn one(topology: &Topology, name: &str) -> Option<usize> {
    let position =
        |test: &dyn Fn(&gpulet_inventory::topology::PlacedGpu) -> bool| topology.gpus.iter().position(test);
    if let Ok(index) = name.parse::<u32>() {
        return position(&|gpu| gpu.index == Some(index));
    }
    if let Ok(uuid) = name.parse::<GpuUuid>() {
        return position(&|gpu| gpu.uuid.as_ref() == Some(&uuid));
    }
    if let Ok(pci) = name.parse::<PciAddress>() {
        return position(&|gpu| gpu.place.pci == pci);
    }
    position(&|gpu| gpu.label.eq_ignore_ascii_case(name))
}

/// How many names that fit no GPU are told.
const TOLD: usize = 4;

fn unknown(topology: &Topology, names: &[String]) -> BestError {
    let known = match topology.gpus.as_slice() {
        [] => "none".to_owned(),
        gpus => crate::label::list(gpus.iter().map(|gpu| &gpu.label)),
    };
    let quoted = |name: &String| format!("`{}`", name.chars().take(64).collect::<String>());
    let mut told: Vec<String> = names.iter().take(TOLD).map(quoted).collect();
    if let Some(more) = names.len().checked_sub(TOLD).filter(|more| *more > 0) {
        told.push(format!("{more} more"));
    }
    BestError::UnknownGpu { names: crate::label::list(told), known }
}
