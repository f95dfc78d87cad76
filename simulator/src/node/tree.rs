//! The PCIe tree of a description as a list of functions, each with its way from the root.

use std::collections::BTreeMap;

use gpulet_inventory::pci::PciAddress;

use super::board::PCIE_WIDTHS;
use super::description::{
    Bridge, Description, Device, GpuDescription, Link, NicDescription, NvSwitchDescription, OtherDescription,
    RootComplex, VirtualFunction,
};
use super::problem::{Fault, Problem};
use super::units::RootBus;

/// A PCI function and where it hangs.
#[derive(Debug, Clone)]
pub struct Function {
    /// Address.
    pub at: PciAddress,
    /// Bridges above it, from the root down.
    pub above: Vec<PciAddress>,
    /// Its hierarchy.
    pub root: RootBus,
    /// Directory of the hierarchy below `/sys/devices`.
    pub within: String,
    /// NUMA node, if the firmware tells.
    pub numa: Option<u32>,
    /// The adapter of which it is an SR-IOV function.
    pub physical: Option<PciAddress>,
    /// Its link as it runs while busy, and at most.
    pub link: FunctionLink,
    /// Highest generation and most lanes of device and port together.
    pub path_max: (u32, u32),
    /// What it is.
    pub kind: Kind,
    /// Place in the description.
    pub place: String,
}

/// Link of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionLink {
    /// Generation.
    pub generation: u32,
    /// Lanes.
    pub width: u32,
    /// Highest generation of the device.
    pub max_generation: u32,
    /// Most lanes of the device.
    pub max_width: u32,
}

/// What a function is.
#[derive(Debug, Clone)]
pub enum Kind {
    /// A bridge.
    Bridge,
    /// A GPU.
    Gpu(GpuDescription),
    /// A network adapter.
    Nic(NicDescription),
    /// An NVSwitch.
    NvSwitch(NvSwitchDescription),
    /// Anything else.
    Other(OtherDescription),
}

/// Lanes of a function without better knowledge.
const DEFAULT_WIDTH: u32 = 16;

/// Where the walk is.
#[derive(Clone)]
struct Above {
    root: RootBus,
    within: String,
    numa: Option<u32>,
    bridges: Vec<PciAddress>,
    physical: Option<PciAddress>,
    max: (u32, u32),
    place: String,
}

/// The walk through the tree.
pub(super) struct Walk<'a> {
    /// Highest generation and most lanes of a board, by its name.
    pub(super) board_max: &'a dyn Fn(&str) -> Option<(u32, u32)>,
    /// What was found.
    pub(super) functions: Vec<Function>,
    /// What is wrong.
    pub(super) problems: Vec<Problem>,
    /// Highest generation and most lanes of what does not say its own.
    default_max: (u32, u32),
    addresses: BTreeMap<PciAddress, String>,
    buses: BTreeMap<(u32, u8), String>,
}

impl<'a> Walk<'a> {
    /// Lists all functions of a node, with what is wrong with where they are.
    pub(super) fn through(
        description: &Description,
        board_max: &'a dyn Fn(&str) -> Option<(u32, u32)>,
    ) -> Self {
        let generation = description.pcie_generation;
        let mut walk = Self {
            board_max,
            functions: Vec::new(),
            problems: Vec::new(),
            default_max: (generation, DEFAULT_WIDTH),
            addresses: BTreeMap::new(),
            buses: BTreeMap::new(),
        };
        if !(1..=7).contains(&generation) {
            walk.refuse("pcie-generation", Fault::PcieGeneration { generation });
            // One problem is told once, not for every function.
            walk.default_max.0 = 1;
        }
        for (index, complex) in description.pci.iter().enumerate() {
            walk.root(complex, format!("pci[{index}]"));
        }
        walk
    }

    fn refuse(&mut self, place: &str, fault: Fault) {
        self.problems.push(Problem { place: place.to_owned(), fault });
    }

    fn root(&mut self, complex: &RootComplex, place: String) {
        let root = complex.root;
        if self.buses.insert((root.domain, root.bus), place.clone()).is_some() {
            self.refuse(&place, Fault::TwinRoots { root });
        }
        let above = Above {
            root,
            within: complex.within.clone(),
            numa: complex.numa,
            bridges: Vec::new(),
            physical: None,
            max: (7, 32),
            place,
        };
        for (index, device) in complex.devices.iter().enumerate() {
            let place = format!("{}.devices[{index}]", above.place);
            let at = address(device);
            if (at.domain, at.bus) != (root.domain, root.bus) {
                self.refuse(&place, Fault::NotOnRootBus { at, root });
            }
            self.device(device, &above, place);
        }
    }

    fn device(&mut self, device: &Device, above: &Above, place: String) {
        match device {
            Device::Bridge(bridge) => self.bridge(bridge, above, place),
            Device::Switch(switch) => {
                let ports = switch.ports.iter().cloned().map(Device::Bridge).collect();
                let upstream = Bridge { at: switch.at, link: switch.link, devices: ports };
                self.bridge(&upstream, above, place);
            }
            Device::Gpu(gpu) => {
                let max = (self.board_max)(&gpu.board).unwrap_or(self.default_max);
                self.function(gpu.at, gpu.link, max, Kind::Gpu(gpu.clone()), above, place);
            }
            Device::Nic(nic) => {
                self.function(
                    nic.at,
                    nic.link,
                    self.default_max,
                    Kind::Nic(nic.clone()),
                    above,
                    place.clone(),
                );
                for (index, function) in nic.virtual_functions.iter().enumerate() {
                    self.virtual_function(
                        nic,
                        function,
                        above,
                        format!("{place}.virtual-functions[{index}]"),
                    );
                }
            }
            Device::Nvswitch(switch) => {
                // An NVSwitch is managed over two lanes of generation 4 at most.
                self.function(
                    switch.at,
                    Link::default(),
                    (4, 2),
                    Kind::NvSwitch(switch.clone()),
                    above,
                    place,
                );
            }
            Device::Other(other) => {
                if other.class > 0xff_ffff {
                    self.refuse(&place, Fault::PciClass { class: other.class });
                }
                self.function(
                    other.at,
                    other.link,
                    self.default_max,
                    Kind::Other(other.clone()),
                    above,
                    place,
                );
            }
        }
    }

    fn bridge(&mut self, bridge: &Bridge, above: &Above, place: String) {
        let max = self.function(bridge.at, bridge.link, self.default_max, Kind::Bridge, above, place.clone());
        let mut below = above.clone();
        below.bridges.push(bridge.at);
        below.max = max;
        below.place.clone_from(&place);
        let Some(first) = bridge.devices.first().map(address) else { return };
        if first.domain != bridge.at.domain || first.bus <= bridge.at.bus {
            self.refuse(&place, Fault::BusOrder { at: first, above: bridge.at.bus });
        }
        if let Some(other) = self.buses.insert((first.domain, first.bus), place.clone()) {
            self.refuse(&place, Fault::SharedBus { domain: first.domain, bus: first.bus, other });
        }
        for (index, device) in bridge.devices.iter().enumerate() {
            let place = format!("{}.devices[{index}]", below.place);
            let at = address(device);
            if (at.domain, at.bus) != (first.domain, first.bus) {
                self.refuse(&place, Fault::NotOnBridgeBus { at, domain: first.domain, bus: first.bus });
            }
            self.device(device, &below, place);
        }
    }

    fn virtual_function(
        &mut self,
        nic: &NicDescription,
        function: &VirtualFunction,
        above: &Above,
        place: String,
    ) {
        let (at, PciAddress { domain, bus, .. }) = (function.at, nic.at);
        if (at.domain, at.bus) != (domain, bus) {
            self.refuse(&place, Fault::NotOnBridgeBus { at, domain, bus });
        }
        let own = NicDescription {
            at,
            rdma: function.rdma.clone(),
            net: function.net.clone(),
            device: function.device,
            virtual_functions: Vec::new(),
            ..nic.clone()
        };
        let above = Above { physical: Some(nic.at), ..above.clone() };
        self.function(at, nic.link, self.default_max, Kind::Nic(own), &above, place);
    }

    /// Notes a function; answers the most that what hangs below it can have.
    fn function(
        &mut self,
        at: PciAddress,
        link: Link,
        device_max: (u32, u32),
        kind: Kind,
        above: &Above,
        place: String,
    ) -> (u32, u32) {
        let max = (link.max_generation.unwrap_or(device_max.0), link.max_width.unwrap_or(device_max.1));
        let path_max = (max.0.min(above.max.0), max.1.min(above.max.1));
        let now = (link.generation.unwrap_or(path_max.0), link.width.unwrap_or(path_max.1));
        for (generation, most) in [(max.0, 7), (now.0, path_max.0)] {
            if !(1..=most).contains(&generation) {
                self.refuse(&place, Fault::PcieGeneration { generation });
            }
        }
        for (width, most) in [(max.1, 32), (now.1, path_max.1)] {
            if !PCIE_WIDTHS.contains(&width) || width > most {
                self.refuse(&place, Fault::PcieWidth { width });
            }
        }
        if let Some(other) = self.addresses.insert(at, place.clone()) {
            self.refuse(&place, Fault::SharedAddress { at, other });
        }
        self.functions.push(Function {
            at,
            above: above.bridges.clone(),
            root: above.root,
            within: above.within.clone(),
            numa: above.numa,
            physical: above.physical,
            link: FunctionLink { generation: now.0, width: now.1, max_generation: max.0, max_width: max.1 },
            path_max,
            kind,
            place,
        });
        max
    }
}

fn address(device: &Device) -> PciAddress {
    match device {
        Device::Bridge(bridge) => bridge.at,
        Device::Switch(switch) => switch.at,
        Device::Gpu(gpu) => gpu.at,
        Device::Nic(nic) => nic.at,
        Device::Nvswitch(switch) => switch.at,
        Device::Other(other) => other.at,
    }
}
