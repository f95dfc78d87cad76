//! PCIe switches from the bridges above devices.
//!
//! Below the root port, bridges come in twos: a switch shows one upstream port and, under it, its downstream ports.

use std::collections::HashMap;

use gpulet_inventory::host::{Host, PciDevice, PciKind, PciPath, PcieLink};
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::topology::{PcieSwitch, SlotLink};

/// Finds the switch with the upstream port at the end of a path.
pub(super) type Lookup<'a> = HashMap<(&'a str, &'a [PciAddress]), usize>;

/// All switches above a device, parents first, and the lookup by the path down to the upstream port.
pub(super) fn find(host: &Host) -> (Vec<PcieSwitch>, Lookup<'_>) {
    let mut paths: Vec<&PciPath> =
        host.pci.iter().filter(|device| device.kind != PciKind::Bridge).map(|device| &device.path).collect();
    paths.sort_unstable();
    let mut switches: Vec<PcieSwitch> = Vec::new();
    let mut lookup = Lookup::new();
    for path in paths {
        let mut parent = None;
        for (to_upstream, downstream) in ports(path) {
            let key = (path.root.as_str(), to_upstream);
            let number = *lookup.entry(key).or_insert(switches.len());
            if number == switches.len() {
                let Some(upstream) = to_upstream.last() else { continue };
                switches.push(PcieSwitch {
                    upstream: *upstream,
                    downstream: Vec::new(),
                    parent,
                    root: path.root.clone(),
                    link: None,
                    redirecting: Vec::new(),
                });
            }
            // Paths are sorted, so that all through one port stand together.
            if let Some(switch) = switches.get_mut(number)
                && switch.downstream.last() != Some(&downstream)
            {
                switch.downstream.push(downstream);
            }
            parent = Some(number);
        }
    }
    (switches, lookup)
}

/// Links of the upstream ports, and which downstream ports redirect.
pub(super) fn measure(switches: &mut [PcieSwitch], host: &Host) {
    let bridges: HashMap<PciAddress, &PciDevice> =
        host.pci.iter().filter(|d| d.kind == PciKind::Bridge).map(|d| (d.address, d)).collect();
    for switch in switches {
        switch.link = bridges.get(&switch.upstream).and_then(|upstream| {
            let above = upstream.path.bridges.last().and_then(|port| bridges.get(port));
            slot_link(upstream.link, above.and_then(|port| port.link))
        });
        let redirects =
            |port: &&PciAddress| bridges.get(*port).is_some_and(|d| d.acs_redirects == Some(true));
        switch.redirecting = switch.downstream.iter().filter(redirects).copied().collect();
        switch.downstream.sort_unstable();
        switch.redirecting.sort_unstable();
    }
}

/// The nearest switch above a device.
pub(super) fn nearest(path: &PciPath, lookup: &Lookup<'_>) -> Option<usize> {
    ports(path).last().and_then(|(to_upstream, _)| lookup.get(&(path.root.as_str(), to_upstream)).copied())
}

/// What a device's link does and could do, with the port above it.
pub(super) fn slot_link(device: Option<PcieLink>, port: Option<PcieLink>) -> Option<SlotLink> {
    let device = device?;
    let least = |one: Option<u32>, other: Option<u32>| match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (known, None) | (None, known) => known,
    };
    Some(SlotLink {
        width: device.width,
        possible_width: least(device.max_width, port.and_then(|port| port.max_width)),
        speed_mts: device.speed_mts,
        possible_speed_mts: least(device.max_speed_mts, port.and_then(|port| port.max_speed_mts)),
    })
}

/// The switches of a path from the root down: the path down to the upstream port, and the downstream port taken.
fn ports(path: &PciPath) -> impl Iterator<Item = (&[PciAddress], PciAddress)> {
    let pairs = path.bridges.get(1..).unwrap_or_default().chunks_exact(2);
    pairs.enumerate().filter_map(|(depth, pair)| {
        let to_upstream = path.bridges.get(..2 + 2 * depth)?;
        Some((to_upstream, *pair.last()?))
    })
}
