//! The PCI tree as far as it concerns us (source: `/sys/bus/pci/devices`).
//!
//! Where a function hangs is told by the path of its directory. Usual is
//! `/sys/devices/pci0000:17/0000:17:01.0/0000:18:00.0`; but a root complex may stand below another device's directory
//! (Azure: `…/VMBUS:00/<guid>/pci0001:00`; behind Intel VMD: `…/0000:16:05.5/pci10000:00`), and its domain may have
//! more than four digits.

use std::collections::BTreeMap;

use gpulet_inventory::host::{PciDevice, PciKind, PciPath};
use gpulet_inventory::numa::NumaNodeId;
use gpulet_inventory::pci::PciAddress;

use super::cpus::MAX_CPUS;
use super::{acs, link};
use crate::reader::{Directory, Reader};
use crate::text::{hexadecimal, id, index, list};

const DEVICES: &str = "sys/bus/pci/devices";

/// NVIDIA Corporation.
const NVIDIA: u16 = 0x10de;

/// Base class and subclass of what we look for.
mod class {
    /// A controller with display outputs, and one without.
    pub(super) const VGA: u32 = 0x0300;
    pub(super) const THREE_D: u32 = 0x0302;
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

/// A function that concerns us, not yet read.
struct Found<'r> {
    address: PciAddress,
    kind: PciKind,
    directory: Directory<'r>,
}

/// GPUs, NVSwitches and NICs, by address.
pub(super) fn functions<'r>(reader: &'r Reader<'r>) -> Vec<Function<'r>> {
    let Some(devices) = reader.directory(DEVICES) else { return Vec::new() };
    let names = devices.names_up_to(MAX_LISTED);
    let mut found: Vec<_> = names.iter().filter_map(|name| find(&devices, name)).collect();
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
    found.into_iter().filter_map(function).collect()
}

fn find<'r>(devices: &Directory<'r>, name: &str) -> Option<Found<'r>> {
    let Ok(address) = name.parse::<PciAddress>().map_err(|error| devices.odd(name, error)) else {
        return None;
    };
    let directory = devices.below(name)?;
    let class = directory.read("class", hexadecimal)? >> 8;
    Some(Found { address, kind: kind(class, &directory)?, directory })
}

fn function(found: Found<'_>) -> Option<Function<'_>> {
    let Found { address, kind, directory } = found;
    let PciPath { root, bridges } = path(directory.path());
    let path = PciPath { root: directory.shown(&root, NAME_BYTES), bridges };
    Some(Function { device: device(address, kind, path, &directory)?, directory })
}

fn kind(class: u32, directory: &Directory<'_>) -> Option<PciKind> {
    let is_nvidia = || directory.read("vendor", id) == Some(NVIDIA);
    match class {
        class::VGA | class::THREE_D => is_nvidia().then_some(PciKind::Gpu),
        class::OTHER_BRIDGE => is_nvidia().then_some(PciKind::NvSwitch),
        class::ETHERNET | class::INFINIBAND | class::FABRIC => Some(PciKind::Nic),
        class::OTHER_NETWORK => directory.below("infiniband").map(|_| PciKind::Nic),
        _ => None,
    }
}

fn device(address: PciAddress, kind: PciKind, path: PciPath, directory: &Directory<'_>) -> Option<PciDevice> {
    let physical_function = match kind {
        PciKind::Bridge => None,
        _ => directory
            .link_name("physfn")
            .and_then(|name| name.parse().map_err(|error| directory.odd("physfn", error)).ok()),
    };
    Some(PciDevice {
        address,
        kind,
        vendor: directory.read("vendor", id)?,
        device: directory.read("device", id)?,
        path,
        numa_node: directory.read("numa_node", index).flatten().map(NumaNodeId),
        local_cpus: directory.read("local_cpulist", list(MAX_CPUS)),
        link: link::read(directory),
        driver: directory.link_name("driver").map(|name| directory.shown(&name, NAME_BYTES)),
        physical_function,
        acs_redirects: if kind == PciKind::Bridge { acs::redirects(directory) } else { None },
    })
}

/// The functions and every bridge above one of them, by address.
pub(super) fn with_bridges<'r>(reader: &'r Reader<'r>, functions: Vec<Function<'r>>) -> Vec<PciDevice> {
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
            devices.insert(*address, device(*address, PciKind::Bridge, above, &directory));
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
