//! GPUs and NICs with their places.

use std::cmp::Ordering;

use gpulet_inventory::host::{Host, Nic, PciDevice, PciKind};
use gpulet_inventory::locality::{DriverLocality, GpuLocality};
use gpulet_inventory::numa::NumaNodeId;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::topology::{Place, PlacedGpu, PlacedNic, SeenBy};

use super::{GpuView, fabric, numa, nvlink, switches};

/// Where devices of one host sit.
pub(super) struct Places<'a> {
    pub(super) host: &'a Host,
    pub(super) switches: &'a switches::Lookup<'a>,
    pub(super) numa: numa::Finder<'a>,
}

impl Places<'_> {
    /// The place of a device that the kernel lists.
    pub(super) fn of(&self, device: &PciDevice, driver: Option<&GpuLocality>) -> Place {
        let port = device.path.bridges.last().and_then(|port| find(self.host, *port));
        let functions = self.host.pci.iter().filter(|d| d.physical_function == Some(device.address));
        Place {
            pci: device.address,
            path: Some(device.path.clone()),
            numa: self.numa.place(Some(device), driver),
            pcie_switch: switches::nearest(&device.path, self.switches),
            link: switches::slot_link(device.link, port.and_then(|port| port.link)),
            virtual_functions: functions.map(|function| function.address).collect(),
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
        find(self.host, pci).map_or_else(|| self.unlisted(pci, driver), |device| self.of(device, driver))
    }
}

/// Devices of a kind that are no virtual function of another device here, by address.
pub(super) fn top_functions(host: &Host, kind: PciKind) -> impl Iterator<Item = &PciDevice> {
    host.pci.iter().filter(move |device| device.kind == kind && !is_below_another(host, device))
}

/// In a virtual machine a virtual function is a device of its own, for its parent is not there.
fn is_below_another(host: &Host, device: &PciDevice) -> bool {
    device.physical_function.is_some_and(|parent| parent != device.address && find(host, parent).is_some())
}

fn find(host: &Host, pci: PciAddress) -> Option<&PciDevice> {
    host.pci.iter().find(|device| device.address == pci)
}

/// The driver's GPUs in its order, then those that only the kernel sees.
pub(super) fn gpus(
    places: &Places<'_>,
    views: &[GpuView<'_>],
    locality: Option<&DriverLocality>,
) -> Vec<PlacedGpu> {
    let listed = views.iter().map(|view| {
        let driver = locality.and_then(|all| all.gpus.iter().find(|gpu| Some(&gpu.uuid) == view.uuid));
        driven(places, view, driver)
    });
    let unlisted = top_functions(places.host, PciKind::Gpu)
        .filter(|device| views.iter().all(|view| view.pci != device.address))
        .map(|device| undriven(places, device));
    listed.chain(unlisted).collect()
}

fn driven(places: &Places<'_>, view: &GpuView<'_>, driver: Option<&GpuLocality>) -> PlacedGpu {
    let device = find(places.host, view.pci);
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
pub(super) fn nics(places: &Places<'_>) -> Vec<PlacedNic> {
    let host = places.host;
    let hidden = |pci| find(host, pci).is_some_and(|device| is_below_another(host, device));
    let known = host.nics.iter().filter(|nic| !hidden(nic.pci));
    let without_driver = top_functions(host, PciKind::Nic)
        .filter(|device| host.nics.iter().all(|nic| nic.pci != device.address));
    let mut nics: Vec<PlacedNic> = known
        .map(|nic| nic_at(places, nic.pci, Some(nic)))
        .chain(without_driver.map(|device| nic_at(places, device.address, None)))
        .collect();
    nics.sort_by(|one, other| {
        let by_name = match (&one.rdma, &other.rdma) {
            (Some(one), Some(other)) => natural(one).cmp(&natural(other)),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        };
        by_name.then(one.place.pci.cmp(&other.place.pci))
    });
    for (number, nic) in nics.iter_mut().enumerate() {
        nic.label = format!("NIC{number}");
    }
    nics
}

fn nic_at(places: &Places<'_>, pci: PciAddress, nic: Option<&Nic>) -> PlacedNic {
    let rdma = nic.and_then(|nic| nic.rdma.as_ref());
    PlacedNic {
        label: String::new(),
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
