//! The topology against the expected profile.

use std::collections::BTreeMap;

use gpulet_inventory::locality::Level;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::topology::{Device, Finding, Topology};

use super::Profile;

pub(super) fn all(_profile: &Profile, _topology: &Topology, _findings: &mut Vec<Finding>) {}

/// By NIC: the GPUs that reach it without a host bridge.
pub(super) fn near_gpus(topology: &Topology) -> BTreeMap<PciAddress, Vec<PciAddress>> {
    let near = |nic: usize| {
        let close = move |gpu: usize| {
            let pair = topology.pair(Device::Gpu(gpu), Device::Nic(nic));
            pair.and_then(|pair| pair.level).is_some_and(|level| level <= Level::Pxb)
        };
        topology.gpus.iter().enumerate().filter(move |(at, _)| close(*at)).map(|(_, gpu)| gpu.place.pci)
    };
    topology.nics.iter().enumerate().map(|(at, nic)| (nic.place.pci, near(at).collect())).collect()
}
