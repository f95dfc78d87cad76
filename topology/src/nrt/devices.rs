//! Devices of device plugins in each zone.
//!
//! A device counts in the zone of every NUMA node that its plugin names, as for the kubelet's topology manager, which takes
//! it for near to each of them; one that a container has is gone from all of these. A device without a NUMA node counts in
//! none: when the kubelet looks for devices on one NUMA node, it does not find that one either. A resource of which no
//! device has a place is in no zone at all, which schedulers read as: anywhere on the node.

use std::collections::{BTreeMap, BTreeSet};

use gpulet_inventory::kubelet::KubeletDevice;

use super::built::{NoteReason, Share};
use super::figure::Figure;
use super::inputs::{DeviceName, Hardware, Inputs};
use super::nodes::Nodes;
use super::notes::Notes;
use super::pods::Holder;

/// The figures of devices.
#[derive(Default)]
pub(super) struct Figures {
    /// Of each zone, in their order, by resource.
    pub(super) placed: BTreeMap<String, Vec<Figure>>,
    /// Of the devices that are in no zone, by resource.
    pub(super) unplaced: BTreeMap<String, Figure>,
}

/// Counts the devices that the kubelet may give and has given.
pub(super) fn figures(
    inputs: &Inputs<'_>,
    nodes: &Nodes<'_>,
    holders: &[Holder<'_>],
    notes: &mut Notes,
) -> Figures {
    let mut resources: BTreeMap<&str, Devices<'_>> = BTreeMap::new();
    for device in inputs.allocation.into_iter().flat_map(|allocation| &allocation.allocatable.devices) {
        if is_extended(&device.resource) {
            resources.entry(&device.resource).or_default().add(device, nodes, notes).healthy = true;
        } else {
            notes.add(NoteReason::OddResourceName, &device.resource, device.id.clone());
        }
    }
    for holder in holders {
        for device in &holder.container.devices {
            if is_extended(&device.resource) {
                let known = resources.entry(&device.resource).or_default().add(device, nodes, notes);
                known.held_by.get_or_insert_with(|| holder.name());
            }
        }
    }
    let claims = claimed(inputs, holders);
    let mut figures = Figures::default();
    for (resource, mut devices) in resources {
        devices.take_claimed(resource, inputs, &claims);
        devices.note(resource, notes);
        if devices.by_id.values().any(|device| !device.zones.is_empty()) {
            let zones = 0..nodes.zones().len();
            let of_zones = zones.map(|zone| devices.figure(|device| device.zones.contains(&zone)));
            figures.placed.insert(resource.to_owned(), of_zones.collect());
        }
        if devices.by_id.values().any(|device| device.zones.is_empty()) {
            let unplaced = devices.figure(|device| device.zones.is_empty());
            figures.unplaced.insert(resource.to_owned(), unplaced);
        }
    }
    figures
}

/// Extended resources have a domain in their names, so that none is taken for `cpu`, `memory` or huge pages.
fn is_extended(resource: &str) -> bool {
    resource.split_once('/').is_some_and(|(domain, name)| !domain.is_empty() && !name.is_empty())
        && !resource.chars().any(char::is_control)
}

/// Hardware that containers have by claims, and whose it is.
fn claimed(inputs: &Inputs<'_>, holders: &[Holder<'_>]) -> Vec<(Hardware, String)> {
    let mut claimed = Vec::new();
    for holder in holders {
        for claim in &holder.container.claims {
            if let Some(hardware) = (inputs.hardware_of)(DeviceName::Claim(claim)) {
                claimed.push((
                    hardware,
                    format!("{}, claim {}/{}", holder.name(), claim.claim_namespace, claim.claim),
                ));
            }
        }
    }
    claimed.sort();
    claimed
}

/// The devices of one resource.
#[derive(Default)]
struct Devices<'a> {
    by_id: BTreeMap<&'a str, Known>,
}

/// What is known of one device.
#[derive(Default)]
struct Known {
    /// Zones of the NUMA nodes that its plugin names.
    zones: BTreeSet<usize>,
    /// The kubelet may give it.
    healthy: bool,
    /// Who has it. The kubelet gives a device to one container; a second would be a container that takes over from it.
    held_by: Option<String>,
}

impl<'a> Devices<'a> {
    fn add(&mut self, device: &'a KubeletDevice, nodes: &Nodes<'_>, notes: &mut Notes) -> &mut Known {
        let known = self.by_id.entry(&device.id).or_default();
        for node in device.numa_nodes.iter().flatten() {
            match nodes.zone_of(*node) {
                Some(zone) => drop(known.zones.insert(zone)),
                None => notes.add(
                    NoteReason::UnknownNumaNode,
                    &device.resource,
                    format!("{} on NUMA node {node}", device.id),
                ),
            }
        }
        known
    }

    /// Gives devices to claims that have the same hardware, so that it is not offered twice.
    fn take_claimed(&mut self, resource: &str, inputs: &Inputs<'_>, claims: &[(Hardware, String)]) {
        if claims.is_empty() {
            return;
        }
        for (id, device) in self.by_id.iter_mut().filter(|(_, device)| device.held_by.is_none()) {
            let Some(hardware) = (inputs.hardware_of)(DeviceName::Plugin { resource, id }) else { continue };
            let claim = claims.iter().find(|(claimed, _)| claimed.overlaps(&hardware));
            device.held_by = claim.map(|(_, whose)| whose.clone());
        }
    }

    fn note(&self, resource: &str, notes: &mut Notes) {
        for (id, device) in &self.by_id {
            if device.zones.is_empty() {
                notes.add(NoteReason::DeviceWithoutZone, resource, (*id).to_owned());
            }
            if let (false, Some(whose)) = (device.healthy, &device.held_by) {
                notes.add(NoteReason::DeviceGone, resource, format!("{id} of {whose}"));
            }
        }
    }

    /// The figure of those devices that are `here`.
    fn figure(&self, here: impl Fn(&Known) -> bool) -> Figure {
        let here = || self.by_id.iter().filter(|(_, device)| here(device));
        let mut figure = Figure::of(here().count() as u64, "devices that the plugin has told the kubelet of");
        let (mut gone, mut taken): (Vec<String>, BTreeMap<&str, Vec<String>>) = Default::default();
        for (id, device) in here() {
            match &device.held_by {
                _ if !device.healthy => gone.push((*id).to_owned()),
                Some(whose) => taken.entry(whose).or_default().push((*id).to_owned()),
                None => {}
            }
        }
        if !gone.is_empty() {
            figure.keep(share("held, and not healthy any more", gone));
        }
        for (whose, ids) in taken {
            figure.take(share(whose, ids));
        }
        figure
    }
}

/// So many devices, with their names.
pub(super) fn share(whose: &str, ids: Vec<String>) -> Share {
    Share { whose: whose.to_owned(), amount: ids.len() as u64, which: ids }
}
