//! GPUs and NICs with their places.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::host::{Host, Nic, PciDevice, PciKind};
use gpulet_inventory::locality::{DriverLocality, GpuLocality};
use gpulet_inventory::numa::NumaNodeId;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::topology::{Place, PlacedGpu, PlacedNic, SeenBy};

use super::{GpuView, Room, fabric, numa, nvlink, switches};

/// Where devices of one host sit.
pub(super) struct Places<'a> {
    host: &'a Host,
    /// Devices by address; of two with one address, the first.
    devices: HashMap<PciAddress, &'a PciDevice>,
    /// Virtual functions by the device that they belong to.
    functions: HashMap<PciAddress, Vec<PciAddress>>,
    switches: &'a switches::Lookup<'a>,
    numa: numa::Finder<'a>,
}

impl<'a> Places<'a> {
    pub(super) fn new(host: &'a Host, switches: &'a switches::Lookup<'a>) -> Self {
        let mut devices = HashMap::new();
        let mut functions: HashMap<PciAddress, Vec<PciAddress>> = HashMap::new();
        for device in &host.pci {
            devices.entry(device.address).or_insert(device);
            if let Some(parent) = device.physical_function {
                functions.entry(parent).or_default().push(device.address);
            }
        }
        Self { host, devices, functions, switches, numa: numa::Finder::new(host) }
    }

    /// The place of a device that the kernel lists.
    pub(super) fn of(&self, device: &PciDevice, driver: Option<&GpuLocality>) -> Place {
        let port = device.path.bridges.last().and_then(|port| self.find(*port));
        Place {
            pci: device.address,
            path: Some(device.path.clone()),
            numa: self.numa.place(Some(device), driver),
            pcie_switch: switches::nearest(&device.path, self.switches),
            link: switches::slot_link(device.link, port.and_then(|port| port.link)),
            virtual_functions: self.functions.get(&device.address).cloned().unwrap_or_default(),
        }
    }

    /// The place of a device that the kernel does not list.
    fn unlisted(&self, pci: PciAddress, driver: Option<&GpuLocality>) -> Place {
        Place {
            pci,
            path: None,
            numa: self.numa.place(None, driver),
            pcie_switch: None,
            link: None,
            virtual_functions: Vec::new(),
        }
    }

    fn at(&self, pci: PciAddress, driver: Option<&GpuLocality>) -> Place {
        self.find(pci).map_or_else(|| self.unlisted(pci, driver), |device| self.of(device, driver))
    }

    /// Devices of a kind that are no virtual function of another device here, by address.
    pub(super) fn top_functions(&self, kind: PciKind) -> impl Iterator<Item = &'a PciDevice> {
        self.host.pci.iter().filter(move |device| device.kind == kind && !self.is_below_another(device))
    }

    /// In a virtual machine a virtual function is a device of its own, for its parent is not there.
    fn is_below_another(&self, device: &PciDevice) -> bool {
        let here = |parent: PciAddress| parent != device.address && self.find(parent).is_some();
        device.physical_function.is_some_and(here)
    }

    fn find(&self, pci: PciAddress) -> Option<&'a PciDevice> {
        self.devices.get(&pci).copied()
    }
}

/// The driver's GPUs in its order, then those that only the kernel sees.
pub(super) fn gpus(
    places: &Places<'_>,
    views: &[GpuView<'_>],
    locality: Option<&DriverLocality>,
    room: &mut Room,
) -> Vec<PlacedGpu> {
    let positions = super::positions(locality);
    let said = |uuid: &GpuUuid| locality?.gpus.get(*positions.get(uuid)?);
    let driven_at: HashSet<PciAddress> = views.iter().map(|view| view.pci).collect();
    let unlisted = places.top_functions(PciKind::Gpu).filter(|gpu| !driven_at.contains(&gpu.address));
    let listed = room.keep(views.iter().collect());
    let unlisted = room.keep(unlisted.collect());
    let listed = listed.into_iter().map(|view| driven(places, view, view.uuid.and_then(said)));
    listed.chain(unlisted.into_iter().map(|device| undriven(places, device))).collect()
}

fn driven(places: &Places<'_>, view: &GpuView<'_>, driver: Option<&GpuLocality>) -> PlacedGpu {
    let device = places.find(view.pci);
    let own = driver.and_then(|driver| driver.own_numa_node.value()).map(|node| NumaNodeId(*node));
    PlacedGpu {
        label: format!("GPU{}", view.index),
        index: Some(view.index),
        uuid: view.uuid.cloned(),
        name: view.name.map(str::to_owned),
        seen_by: if device.is_some() { SeenBy::Both } else { SeenBy::Driver },
        down: view.down,
        kernel_driver: device.and_then(|device| device.driver.clone()),
        place: places.at(view.pci, driver),
        driver_cpus: driver.and_then(|driver| driver.cpu_affinity.value()).cloned(),
        driver_numa_nodes: driver.and_then(|driver| driver.memory_affinity.value()).cloned(),
        memory_node: memory_node(places.host, view.pci).or(own),
        c2c_links: driver.and_then(|driver| driver.c2c_links.value()).copied(),
        mig_mode: view.mig.and_then(|mig| mig.value()).map(|mig| mig.mode.current),
        nvlinks: nvlink::count(view),
        fabric: fabric::of_gpu(view),
    }
}

fn undriven(places: &Places<'_>, device: &PciDevice) -> PlacedGpu {
    PlacedGpu {
        label: device.address.to_string(),
        index: None,
        uuid: None,
        name: None,
        seen_by: SeenBy::Kernel,
        down: None,
        kernel_driver: device.driver.clone(),
        place: places.of(device, None),
        driver_cpus: None,
        driver_numa_nodes: None,
        memory_node: memory_node(places.host, device.address),
        c2c_links: None,
        mig_mode: None,
        nvlinks: nvlink::unlisted(),
        fabric: fabric::unlisted(),
    }
}

fn memory_node(host: &Host, pci: PciAddress) -> Option<NumaNodeId> {
    host.gpu_memory.iter().find(|memory| memory.pci == pci).map(|memory| memory.numa_node)
}

/// All NICs, numbered: RDMA devices in the natural order of their names (as `nvidia-smi` numbers them), then others.
pub(super) fn nics(places: &Places<'_>, room: &mut Room) -> Vec<PlacedNic> {
    let host = places.host;
    let hidden = |pci| places.find(pci).is_some_and(|device| places.is_below_another(device));
    let with_driver: HashSet<PciAddress> = host.nics.iter().map(|nic| nic.pci).collect();
    let known = host.nics.iter().filter(|nic| !hidden(nic.pci));
    let without_driver =
        places.top_functions(PciKind::Nic).filter(|device| !with_driver.contains(&device.address));
    let mut found: Vec<(PciAddress, Option<&Nic>)> = known
        .map(|nic| (nic.pci, Some(nic)))
        .chain(without_driver.map(|device| (device.address, None)))
        .collect();
    found.sort_by(|(one_pci, one), (other_pci, other)| {
        let by_name = match (rdma_name(*one), rdma_name(*other)) {
            (Some(one), Some(other)) => natural(one).cmp(&natural(other)),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        };
        by_name.then(one_pci.cmp(other_pci))
    });
    let kept = room.keep(found).into_iter().enumerate();
    kept.map(|(number, (pci, nic))| nic_at(places, number, pci, nic)).collect()
}

fn rdma_name(nic: Option<&Nic>) -> Option<&str> {
    Some(&nic?.rdma.as_ref()?.name)
}

fn nic_at(places: &Places<'_>, number: usize, pci: PciAddress, nic: Option<&Nic>) -> PlacedNic {
    let rdma = nic.and_then(|nic| nic.rdma.as_ref());
    PlacedNic {
        label: format!("NIC{number}"),
        rdma: rdma.map(|rdma| rdma.name.clone()),
        node_guid: rdma.and_then(|rdma| rdma.node_guid.clone()),
        ports: rdma.map(|rdma| rdma.ports.clone()).unwrap_or_default(),
        interfaces: nic.map(|nic| nic.interfaces.clone()).unwrap_or_default(),
        place: places.at(pci, None),
    }
}

/// `mlx5_10` comes after `mlx5_9`.
fn natural(name: &str) -> (&str, u64, &str) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name.get(stem.len()..).and_then(|digits| digits.parse().ok()).unwrap_or(0);
    (stem, number, name)
}
