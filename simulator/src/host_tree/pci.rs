//! `/sys/devices/pci…` and `/sys/bus/pci`: every PCI function in its place.

use std::path::{Path, PathBuf};

use gpulet_inventory::numa::CpuSet;
use gpulet_inventory::pci::PciAddress;

use super::tree::Tree;
use crate::node::Node;
use crate::node::board::NVIDIA;
use crate::node::description::{LinkLayer, NicDescription};
use crate::node::tree::{Function, Kind};

/// Where a function's directory is.
pub(super) fn directory(function: &Function) -> PathBuf {
    let mut path = PathBuf::from("sys/devices").join(&function.within).join(function.root.to_string());
    path.extend(function.above.iter().chain([&function.at]).map(ToString::to_string));
    path
}

/// Speed of a generation as the kernel writes it.
pub(super) fn speed(generation: u32) -> &'static str {
    match generation {
        1 => "2.5 GT/s PCIe",
        2 => "5.0 GT/s PCIe",
        3 => "8.0 GT/s PCIe",
        4 => "16.0 GT/s PCIe",
        5 => "32.0 GT/s PCIe",
        6 => "64.0 GT/s PCIe",
        7 => "128.0 GT/s PCIe",
        _ => "Unknown",
    }
}

/// What the configuration space says of a function.
struct Ids {
    class: u32,
    vendor: u16,
    device: u16,
    subsystem_vendor: u16,
    subsystem_device: u16,
}

/// Broadcom switch port.
const SWITCH_PORT: (u16, u16) = (0x1000, 0xc030);

fn ids(node: &Node, function: &Function) -> Ids {
    let own = |class, (vendor, device)| Ids {
        class,
        vendor,
        device,
        subsystem_vendor: vendor,
        subsystem_device: device,
    };
    match &function.kind {
        Kind::Bridge if function.above.is_empty() => own(0x06_0400, node.description().cpu.root_port()),
        Kind::Bridge => own(0x06_0400, SWITCH_PORT),
        Kind::Nic(nic) => {
            let class = match nic.link_layer {
                LinkLayer::Infiniband => 0x02_0700,
                LinkLayer::Ethernet | LinkLayer::Unspecified => 0x02_0000,
            };
            own(class, (nic.vendor, nic.device))
        }
        Kind::NvSwitch(switch) => own(0x06_8000, (NVIDIA, switch.device)),
        Kind::Other(other) => own(other.class, (other.vendor, other.device)),
        Kind::Gpu(gpu) => {
            let board =
                node.gpus().iter().find(|found| found.description.at == gpu.at).map(|found| &found.board);
            let ids = board.map(|board| &board.pci);
            let mut own = own(ids.map_or(0, |ids| ids.class), (NVIDIA, ids.map_or(0, |ids| ids.device)));
            own.subsystem_device = ids.map_or(0, |ids| ids.subsystem);
            own
        }
    }
}

/// Adds every function.
pub(super) fn add(tree: &mut Tree, node: &Node) {
    for function in node.functions() {
        one(tree, node, function);
    }
}

fn one(tree: &mut Tree, node: &Node, function: &Function) {
    let path = directory(function);
    let ids = ids(node, function);
    tree.file(path.join("class"), format!("{:#08x}", ids.class));
    tree.file(path.join("vendor"), format!("{:#06x}", ids.vendor));
    tree.file(path.join("device"), format!("{:#06x}", ids.device));
    tree.file(path.join("subsystem_vendor"), format!("{:#06x}", ids.subsystem_vendor));
    tree.file(path.join("subsystem_device"), format!("{:#06x}", ids.subsystem_device));
    tree.file(path.join("enable"), 1);
    tree.file(path.join("numa_node"), function.numa.map_or(-1, i64::from));
    tree.file(path.join("local_cpulist"), local_cpus(node, function));
    let link = function.link;
    tree.file(path.join("max_link_speed"), speed(link.max_generation));
    tree.file(path.join("max_link_width"), link.max_width);
    // A GPU's link changes with what it does: it comes with the driver's files.
    if function.physical.is_some() {
        // The registers that tell how a link runs are the adapter's only.
        tree.file(path.join("current_link_speed"), speed(0));
        tree.file(path.join("current_link_width"), 0);
    } else if !matches!(function.kind, Kind::Gpu(_)) {
        tree.file(path.join("current_link_speed"), speed(link.generation));
        tree.file(path.join("current_link_width"), link.width);
    }
    tree.link(path.join("subsystem"), "sys/bus/pci");
    tree.link(format!("sys/bus/pci/devices/{}", function.at), &path);
    match &function.kind {
        Kind::Bridge => {
            buses(tree, node, function, &path);
            bind(tree, node, function, Some("pcieport"));
        }
        Kind::Nic(nic) => {
            bind(tree, node, function, Some(&nic.driver));
            virtual_functions(tree, function, nic, &path);
        }
        Kind::Other(other) => bind(tree, node, function, other.driver.as_deref()),
        Kind::Gpu(_) => {
            tree.file(path.join("reset"), "");
            tree.file(path.join("reset_method"), "flr bus");
        }
        // Its binding comes with the driver's files too, as a GPU's does.
        Kind::NvSwitch(_) => {}
    }
}

/// Links between an adapter and its SR-IOV functions.
fn virtual_functions(tree: &mut Tree, function: &Function, nic: &NicDescription, path: &Path) {
    let sibling = |at: PciAddress| directory(&Function { at, ..function.clone() });
    if let Some(physical) = function.physical {
        tree.link(path.join("physfn"), sibling(physical));
    }
    if nic.virtual_functions.is_empty() {
        return;
    }
    tree.file(path.join("sriov_totalvfs"), nic.virtual_functions.len().max(16));
    tree.file(path.join("sriov_numvfs"), nic.virtual_functions.len());
    for (index, function) in nic.virtual_functions.iter().enumerate() {
        tree.link(path.join(format!("virtfn{index}")), sibling(function.at));
    }
}

fn local_cpus(node: &Node, function: &Function) -> CpuSet {
    let near = node.description().numa.iter().filter(|numa| function.numa.is_none_or(|id| id == numa.id));
    near.flat_map(|numa| numa.cpus.iter()).collect()
}

/// Numbers of the buses behind a bridge.
fn buses(tree: &mut Tree, node: &Node, bridge: &Function, path: &Path) {
    let below = node.functions().iter().filter(|function| function.above.contains(&bridge.at));
    let buses: Vec<u8> = below.map(|function| function.at.bus).collect();
    if let (Some(first), Some(last)) = (buses.iter().min(), buses.iter().max()) {
        tree.file(path.join("secondary_bus_number"), first);
        tree.file(path.join("subordinate_bus_number"), last);
    }
}

/// Binds a function to a kernel driver, or leaves it without one.
pub(super) fn bind(tree: &mut Tree, node: &Node, function: &Function, driver: Option<&str>) {
    let path = directory(function);
    tree.file(path.join("uevent"), uevent(&ids(node, function), function.at, driver));
    if let Some(driver) = driver {
        let driver = format!("sys/bus/pci/drivers/{driver}");
        tree.link(format!("{driver}/{}", function.at), &path);
        tree.link(path.join("driver"), driver);
    }
}

/// What the kernel tells of a function in one file.
fn uevent(ids: &Ids, at: PciAddress, driver: Option<&str>) -> String {
    let Ids { class, vendor, device, subsystem_vendor, subsystem_device } = ids;
    let driver = driver.map(|driver| format!("DRIVER={driver}\n")).unwrap_or_default();
    let (base, sub, interface) = (class >> 16, class >> 8 & 0xff, class & 0xff);
    format!(
        "{driver}PCI_CLASS={class:04X}\nPCI_ID={vendor:04X}:{device:04X}\n\
         PCI_SUBSYS_ID={subsystem_vendor:04X}:{subsystem_device:04X}\nPCI_SLOT_NAME={at}\n\
         MODALIAS=pci:v{vendor:08X}d{device:08X}sv{subsystem_vendor:08X}sd{subsystem_device:08X}\
         bc{base:02X}sc{sub:02X}i{interface:02X}"
    )
}
