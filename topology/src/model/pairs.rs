//! How near every two devices are.

use gpulet_inventory::host::{Host, PciPath};
use gpulet_inventory::locality::{DriverLocality, Level};
use gpulet_inventory::topology::{Device, Pair, Place, PlacedGpu, PlacedNic};

use super::{numa, nvlink, positions};

/// All pairs in the order that [`gpulet_inventory::topology::Topology::pair`] expects.
pub(super) fn all(
    gpus: &[PlacedGpu],
    nics: &[PlacedNic],
    links: &nvlink::Links,
    locality: Option<&DriverLocality>,
    host: &Host,
) -> Vec<Pair> {
    let known = positions(locality);
    let in_driver: Vec<Option<usize>> =
        gpus.iter().map(|gpu| known.get(gpu.uuid.as_ref()?).copied()).collect();
    let devices: Vec<(Device, &Place)> = gpus
        .iter()
        .enumerate()
        .map(|(at, gpu)| (Device::Gpu(at), &gpu.place))
        .chain(nics.iter().enumerate().map(|(at, nic)| (Device::Nic(at), &nic.place)))
        .collect();
    let mut pairs = Vec::with_capacity(devices.len() * devices.len() / 2);
    for (at, (a, first)) in devices.iter().enumerate() {
        for (b, second) in devices.iter().skip(at + 1) {
            let (driver_level, nvlink) = match (a, b) {
                (Device::Gpu(one), Device::Gpu(other)) => {
                    (driver_level(locality, &in_driver, *one, *other), links.get(&(*one, *other)).copied())
                }
                _ => (None, None),
            };
            pairs.push(Pair { a: *a, b: *b, level: level(host, first, second), driver_level, nvlink });
        }
    }
    pairs
}

/// The level by sysfs: how far up the two paths meet, and what has to be passed until there.
fn level(host: &Host, first: &Place, second: &Place) -> Option<Level> {
    let (one, other) = (first.path.as_ref()?, second.path.as_ref()?);
    if one.root != other.root {
        let together = numa::together(host, &first.numa, &second.numa);
        return Some(if together { Level::Node } else { Level::Sys });
    }
    let slot = |place: &Place| (place.pci.domain, place.pci.bus, place.pci.device);
    if slot(first) == slot(second) {
        return Some(Level::Pix);
    }
    Some(below_one_root(one, other))
}

/// A switch is an upstream port and a downstream port; two devices of one switch differ in the downstream port only.
fn below_one_root(one: &PciPath, other: &PciPath) -> Level {
    let shared = one.bridges.iter().zip(&other.bridges).take_while(|(a, b)| a == b).count();
    let own = one.bridges.len().max(other.bridges.len()) - shared;
    match (shared, own) {
        (0, _) => Level::Phb,
        (_, 0 | 1) => Level::Pix,
        _ => Level::Pxb,
    }
}

/// The driver's answer, from either end; where the ends disagree, the farther.
fn driver_level(
    locality: Option<&DriverLocality>,
    in_driver: &[Option<usize>],
    one: usize,
    other: usize,
) -> Option<Level> {
    let all = &locality?.gpus;
    let position = |gpu: usize| in_driver.get(gpu).copied().flatten();
    let (one, other) = (position(one)?, position(other)?);
    let said = |from: usize, to: usize| all.get(from)?.levels.get(to)?.value().copied();
    // For two GPUs of one board nvidia-smi says PIX too.
    said(one, other).max(said(other, one)).map(|level| level.max(Level::Pix))
}
