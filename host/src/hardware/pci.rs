//! The PCI tree as far as it concerns us (source: `/sys/bus/pci/devices`).
//!
//! Where a function hangs is told by the path of its directory. Usual is
//! `/sys/devices/pci0000:17/0000:17:01.0/0000:18:00.0`; but a root complex may stand below another device's directory
//! (Azure: `…/VMBUS:00/<guid>/pci0001:00`; behind Intel VMD: `…/0000:16:05.5/pci10000:00`), and its domain may have
//! more than four digits.

use std::collections::{BTreeMap, HashMap};

use gpulet_inventory::host::{PciDevice, PciKind, PciPath};
use gpulet_inventory::numa::NumaNodeId;
use gpulet_inventory::pci::PciAddress;

use super::acs;
use super::cpus::MAX_CPUS;
use super::identity::{self, Identity};
use super::link::{self, End};
use crate::reader::{Directory, Reader};
use crate::text::{index, list};

pub(super) const DEVICES: &str = "sys/bus/pci/devices";

/// NVIDIA Corporation.
const NVIDIA: u16 = 0x10de;

/// Base class and subclass of what we look for.
mod class {
    /// A controller with display outputs, and one without.
    pub(super) const VGA: u32 = 0x0300;
    pub(super) const THREE_D: u32 = 0x0302;
    pub(super) const PCI_BRIDGE: u32 = 0x0604;
    pub(super) const OTHER_BRIDGE: u32 = 0x0680;
    pub(super) const ETHERNET: u32 = 0x0200;
    pub(super) const INFINIBAND: u32 = 0x0207;
    /// Omni-Path.
    pub(super) const FABRIC: u32 = 0x0208;
    /// ConnectX-3 in InfiniBand mode, but also Wi-Fi.
    pub(super) const OTHER_NETWORK: u32 = 0x0280;
}

/// The most functions on the bus that are looked at, and of these the most that are read: what is concluded of them grows
/// faster than their number.
const MAX_LISTED: usize = 1 << 16;
pub(super) const MAX_FUNCTIONS: usize = 512;

/// The most bridges that are read.
const MAX_BRIDGES: usize = 4096;

/// The longest name of a driver or a root. The kernel's modules have shorter ones (`MODULE_NAME_LEN`).
const NAME_BYTES: usize = 63;

/// A function and its directory.
#[derive(Debug)]
pub(super) struct Function<'r> {
    pub(super) device: PciDevice,
    pub(super) directory: Directory<'r>,
}

/// What is found on the bus.
#[derive(Debug, Default)]
pub(super) struct Bus<'r> {
    /// GPUs, NVSwitches and NICs, by address.
    pub(super) functions: Vec<Function<'r>>,
    /// What each bridge says of itself.
    bridges: HashMap<PciAddress, Identity>,
}

/// A function that concerns us, not yet read.
struct Found<'r> {
    address: PciAddress,
    kind: PciKind,
    identity: Identity,
    directory: Directory<'r>,
}

pub(super) fn bus<'r>(reader: &'r Reader<'r>) -> Bus<'r> {
    let Some(devices) = reader.directory(DEVICES) else { return Bus::default() };
    let names = devices.names_up_to(MAX_LISTED);
    let found = names.iter().filter_map(|name| find(&devices, name));
    let (bridges, mut found): (Vec<_>, Vec<_>) = found.partition(|found| found.kind == PciKind::Bridge);
    // Names sort otherwise than addresses where a domain has more than four digits.
    found.sort_by_key(|found| found.address);
    if found.len() > MAX_FUNCTIONS {
        let problem = format!(
            "it has {} GPUs, NVSwitches and NICs; only {MAX_FUNCTIONS} are read, NICs and virtual functions last",
            found.len()
        );
        reader.odd(DEVICES, problem);
        found.sort_by_cached_key(|found| {
            (found.directory.link_name("physfn").is_some(), found.kind == PciKind::Nic)
        });
        found.truncate(MAX_FUNCTIONS);
        found.sort_by_key(|found| found.address);
    }
    Bus {
        functions: found.into_iter().map(function).collect(),
        bridges: bridges.into_iter().map(|bridge| (bridge.address, bridge.identity)).collect(),
    }
}

fn find<'r>(devices: &Directory<'r>, name: &str) -> Option<Found<'r>> {
    let Ok(address) = name.parse::<PciAddress>().map_err(|error| devices.odd(name, error)) else {
        return None;
    };
    let directory = devices.below(name)?;
    let identity = identity::read(&directory)?;
    Some(Found { address, kind: kind(&identity, &directory)?, identity, directory })
}

fn kind(identity: &Identity, directory: &Directory<'_>) -> Option<PciKind> {
    let is_nvidia = identity.vendor == NVIDIA;
    match identity.class {
        class::VGA | class::THREE_D => is_nvidia.then_some(PciKind::Gpu),
        class::PCI_BRIDGE => Some(PciKind::Bridge),
        class::OTHER_BRIDGE => is_nvidia.then_some(PciKind::NvSwitch),
        class::ETHERNET | class::INFINIBAND | class::FABRIC => Some(PciKind::Nic),
        class::OTHER_NETWORK => directory.below("infiniband").map(|_| PciKind::Nic),
        _ => None,
    }
}

fn function(found: Found<'_>) -> Function<'_> {
    let Found { address, kind, identity, directory } = found;
    let PciPath { root, bridges } = path(directory.path());
    let path = PciPath { root: directory.shown(&root, NAME_BYTES), bridges };
    let physical = directory.link_name("physfn");
    let device = PciDevice {
        local_cpus: directory.read("local_cpulist", list(MAX_CPUS)),
        link: link::read(&directory, End::Lower),
        physical_function: physical
            .and_then(|name| name.parse().map_err(|error| directory.odd("physfn", error)).ok()),
        ..plain(address, kind, identity, path, &directory)
    };
    Function { device, directory }
}

fn bridge(address: PciAddress, identity: Identity, path: PciPath, directory: &Directory<'_>) -> PciDevice {
    // Below the root port bridges come in twos: the upstream port of a switch, and a downstream one.
    let end = if path.bridges.len() % 2 == 1 { End::Lower } else { End::Upper };
    PciDevice {
        link: link::read(directory, end),
        acs_redirects: acs::redirects(directory),
        ..plain(address, PciKind::Bridge, identity, path, directory)
    }
}

/// What every function has.
fn plain(
    address: PciAddress,
    kind: PciKind,
    identity: Identity,
    path: PciPath,
    directory: &Directory<'_>,
) -> PciDevice {
    let Identity { vendor, device, driver, class: _ } = identity;
    PciDevice {
        address,
        kind,
        vendor,
        device,
        path,
        numa_node: directory.read("numa_node", index).flatten().map(NumaNodeId),
        local_cpus: None,
        link: None,
        driver: driver.map(|name| directory.shown(&name, NAME_BYTES)),
        physical_function: None,
        acs_redirects: None,
    }
}

/// The functions and every bridge above one of them, by address.
pub(super) fn with_bridges<'r>(reader: &'r Reader<'r>, bus: Bus<'r>) -> Vec<PciDevice> {
    let Bus { functions, bridges: mut identities } = bus;
    let mut devices = BTreeMap::new();
    for function in &functions {
        let path = &function.device.path;
        for (depth, address) in path.bridges.iter().enumerate() {
            if devices.contains_key(address) {
                continue;
            }
            if devices.len() == MAX_BRIDGES {
                reader.odd(DEVICES, format!("it has more bridges than the {MAX_BRIDGES} that are read"));
                break;
            }
            let directory = function.directory.above(path.bridges.len() - depth);
            let bridges = path.bridges.iter().take(depth).copied().collect();
            let above = PciPath { root: path.root.clone(), bridges };
            let identity = identities.remove(address).or_else(|| identity::read(&directory));
            devices.insert(*address, identity.map(|identity| bridge(*address, identity, above, &directory)));
        }
    }
    let functions = functions.into_iter().map(|function| (function.device.address, Some(function.device)));
    devices.extend(functions);
    devices.into_values().flatten().collect()
}

/// Where the function with this directory hangs.
fn path(directory: &str) -> PciPath {
    let (above, _) = directory.rsplit_once('/').unwrap_or_default();
    let mut bridges: Vec<PciAddress> = Vec::new();
    let mut root = "";
    for part in above.rsplit('/') {
        match part.parse() {
            Ok(bridge) => bridges.push(bridge),
            Err(_) => {
                root = part;
                break;
            }
        }
    }
    bridges.reverse();
    PciPath { root: root.to_owned(), bridges }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path_of(at: &str) -> (String, Vec<String>) {
        let path = path(at);
        (path.root, path.bridges.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn roots_and_bridges() {
        for (at, root, bridges) in [
            ("sys/devices/pci0000:17/0000:17:01.0/0000:18:00.0", "pci0000:17", &["0000:17:01.0"][..]),
            ("sys/devices/pci0000:00/0000:00:02.0", "pci0000:00", &[]),
            (
                "sys/devices/pci0000:16/0000:16:05.5/pci10000:00/10000:00:02.0/10000:01:00.0",
                "pci10000:00",
                &["10000:00:02.0"],
            ),
            (
                "sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500-0001-0000-3130-444531303244/pci0001:00/0001:00:00.0",
                "pci0001:00",
                &[],
            ),
            (
                "sys/devices/platform/13f40000.pcie/0008:00:00.0/0008:01:00.0",
                "13f40000.pcie",
                &["0008:00:00.0"],
            ),
            ("0000:01:00.0", "", &[]),
        ] {
            assert_eq!(
                path_of(at),
                (root.to_owned(), bridges.iter().map(|b| (*b).to_owned()).collect()),
                "{at}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_path_has_an_answer(parts in proptest::collection::vec("pci0000:00|0000:0[0-9]:00[.]0|.{0,5}", 0..8)) {
            let (_, bridges) = path_of(&parts.join("/"));
            prop_assert!(bridges.len() <= parts.join("/").matches('/').count());
        }
    }
}
