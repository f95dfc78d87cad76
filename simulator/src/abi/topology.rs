//! How near two GPUs are: as the kernel's own tree of PCI devices says, unless the description has the driver say
//! otherwise.

use std::ffi::c_uint;
use std::fs;
use std::path::Path;

use nvml_wrapper_sys::bindings::nvmlDevice_t;

use super::call::Gpu;
use super::code::{Answer, UNKNOWN};
use super::handle::Object;
use super::out::{Array, Out};
use crate::state::GpuIdentity;

/// `NVML_TOPOLOGY_*`
const INTERNAL: c_uint = 0;
const SINGLE: c_uint = 10;
const MULTIPLE: c_uint = 20;
const HOST_BRIDGE: c_uint = 30;
const NODE: c_uint = 40;
const SYSTEM: c_uint = 50;

/// Where a device hangs: the components of its path from the root complex on, and its NUMA node.
struct Place {
    path: Vec<String>,
    numa: String,
}

impl Place {
    fn of(host: &Path, gpu: &GpuIdentity) -> Answer<Self> {
        let address = format!("{:04x}:{:02x}:{:02x}.0", gpu.pci_domain, gpu.pci_bus, gpu.pci_device);
        let device = host.join("sys/bus/pci/devices").join(address);
        let path = from_root_complex(&device.canonicalize().map_err(|_| UNKNOWN)?);
        let numa = fs::read_to_string(device.join("numa_node")).map_err(|_| UNKNOWN)?;
        Ok(Self { path, numa: numa.trim().to_owned() })
    }
}

/// The components from the root complex on: the last `pciDDDD:BB`, for controllers such as Intel's VMD have a domain of
/// their own below the machine's.
fn from_root_complex(path: &Path) -> Vec<String> {
    let hexadecimal = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    let is_root = |name: &String| {
        let parts = name.strip_prefix("pci").and_then(|rest| rest.split_once(':'));
        parts.is_some_and(|(domain, bus)| hexadecimal(domain) && hexadecimal(bus))
    };
    let mut names: Vec<String> = path.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    let root = names.iter().rposition(is_root).unwrap_or(names.len());
    names.split_off(root)
}

/// The level of what two devices have in common.
fn level(a: &Place, b: &Place) -> c_uint {
    let shared = a.path.iter().zip(&b.path).take_while(|(a, b)| a == b).count();
    // What lies below the common part, the device itself included. Below one switch that is its port and the device.
    let below = (a.path.len() - shared).max(b.path.len() - shared);
    match (shared, below) {
        (_, 0) => INTERNAL,
        (0, _) if a.numa == b.numa => NODE,
        (0, _) => SYSTEM,
        // The root complex only.
        (1, _) => HOST_BRIDGE,
        (_, ..=2) => SINGLE,
        _ => MULTIPLE,
    }
}

fn level_to(gpu: &Gpu<'_>, peer: u32) -> Answer<c_uint> {
    let other = gpu.node.gpu_state(peer)?;
    // What the driver tells is not always what the tree says.
    if let Some(told) = gpu.state.identity.told_levels.get(&peer) {
        return Ok(*told);
    }
    let host = gpu.node.session.host();
    Ok(level(&Place::of(host, &gpu.state.identity)?, &Place::of(host, &other.identity)?))
}

pub(super) fn common_ancestor(gpu: &Gpu<'_>, other: nvmlDevice_t, out: Out<c_uint>) -> Answer {
    out.set(level_to(gpu, gpu.node.peer(other)?)?)
}

/// The other GPUs that are as near as the level says, not nearer or farther. Without an array: how many they are.
pub(super) fn nearest(
    gpu: &Gpu<'_>,
    wanted: c_uint,
    count: Out<c_uint>,
    devices: Array<nvmlDevice_t>,
) -> Answer {
    let mut found = Vec::new();
    for peer in (0..gpu.node.state.gpus.len() as u32).filter(|peer| *peer != gpu.index) {
        if level_to(gpu, peer) == Ok(wanted) {
            found.push(gpu.node.handle(Object::Gpu(peer)).pointer());
        }
    }
    if devices.is_null() {
        return count.set(found.len() as c_uint);
    }
    devices.list(&count, &found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str, numa: &str) -> Place {
        Place { path: path.split('/').map(str::to_owned).collect(), numa: numa.to_owned() }
    }

    #[test]
    fn the_root_complex_is_the_last_one_whatever_the_directories_above_are_called() {
        let below = |path: &str| from_root_complex(Path::new(path)).join("/");
        assert_eq!(
            below("/tmp/pci-node/host/sys/devices/pci0000:15/0000:15:01.0"),
            "pci0000:15/0000:15:01.0"
        );
        let vmd = "/sys/devices/pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0";
        assert_eq!(below(vmd), "pci10000:e0/10000:e0:06.0");
        assert_eq!(below("/sys/devices/platform"), "");
    }

    #[test]
    fn levels_are_those_of_the_drivers_own_tools() {
        let own = place("pci0000:15/15:01.0/16:00.0/17:00.0/1b:00.0", "0");
        for (other, numa, expected) in [
            ("pci0000:15/15:01.0/16:00.0/17:00.0/1b:00.0", "0", INTERNAL),
            ("pci0000:15/15:01.0/16:00.0/17:01.0/1c:00.0", "0", SINGLE),
            ("pci0000:15/15:01.0/16:00.0/17:01.0/3f:00.0/40:01.0/43:00.0", "0", MULTIPLE),
            ("pci0000:15/15:02.0/20:00.0", "0", HOST_BRIDGE),
            ("pci0000:4c/4c:01.0/52:00.0", "0", NODE),
            ("pci0000:97/97:01.0/9d:00.0", "1", SYSTEM),
        ] {
            assert_eq!(level(&own, &place(other, numa)), expected, "{other}");
        }
    }
}
