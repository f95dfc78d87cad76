//! A builder of machines: what the kernel and the driver would say of them.

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::host::{
    GpuMemoryNode, Host, Nic, PciDevice, PciKind, PciPath, PcieLink, Rdma, RdmaPort,
};
use gpulet_inventory::link::{NvLink, RemoteKind};
use gpulet_inventory::locality::{DriverLocality, GpuLocality, Level};
use gpulet_inventory::mig::{MigMode, MigState};
use gpulet_inventory::numa::{CpuSet, NumaNode, NumaNodeId};
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::reading::{Answer, Cause, Reading};
use gpulet_inventory::sample::Fabric;
use gpulet_inventory::topology::Topology;
use gpulet_topology::{GpuView, build};

pub const UNSUPPORTED: Answer = Answer { call: "nvmlTest", cause: Cause::Code(3) };
pub const LOST: Answer = Answer { call: "nvmlTest", cause: Cause::Code(15) };

/// One GPU as the driver sees it.
#[derive(Debug, Clone)]
pub struct Gpu {
    pub index: u32,
    pub uuid: GpuUuid,
    pub pci: PciAddress,
    pub name: String,
    pub down: Option<&'static str>,
    pub mig: Reading<MigState>,
    pub nvlinks: Reading<Vec<NvLink>>,
    pub fabric: Reading<Fabric>,
}

impl Gpu {
    fn view(&self) -> GpuView<'_> {
        GpuView {
            index: self.index,
            uuid: Some(&self.uuid),
            pci: self.pci,
            name: Some(&self.name),
            down: self.down,
            mig: Some(&self.mig),
            nvlinks: Some(&self.nvlinks),
            fabric: Some(&self.fabric),
        }
    }
}

/// A machine under construction.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    pub host: Host,
    pub gpus: Vec<Gpu>,
    pub locality: Option<DriverLocality>,
    pub gpu_name: String,
    next_bus: u8,
}

/// Where the next device goes: below `path`, on `numa`.
#[derive(Debug, Clone)]
pub struct Spot {
    pub path: PciPath,
    pub numa: Option<NumaNodeId>,
}

pub fn link(speed_mts: u32, width: u32) -> PcieLink {
    PcieLink {
        speed_mts: Some(speed_mts),
        width: Some(width),
        max_speed_mts: Some(speed_mts),
        max_width: Some(width),
    }
}

impl Machine {
    pub fn new(gpu_name: &str) -> Self {
        Self { gpu_name: gpu_name.to_owned(), ..Self::default() }
    }

    pub fn node(&mut self, id: u32, cpus: &str, gib: u64) {
        let cpus: CpuSet = cpus.parse().unwrap();
        self.host.numa_nodes.push(NumaNode {
            id: NumaNodeId(id),
            cpus,
            memory_bytes: Some(gib << 30),
            distances: Vec::new(),
        });
    }

    /// A root complex on a NUMA node.
    pub fn root(&mut self, numa: Option<u32>) -> Spot {
        let bus = self.bus();
        let path = PciPath { root: format!("pci0000:{bus:02x}"), bridges: Vec::new() };
        Spot { path, numa: numa.map(NumaNodeId) }
    }

    /// A root port, or another bridge, below a spot.
    pub fn port(&mut self, above: &Spot) -> Spot {
        let address = self.device(above, PciKind::Bridge);
        let mut below = above.clone();
        below.path.bridges.push(address);
        below
    }

    /// The upstream port of a switch; devices go below [`Machine::port`]s of it.
    pub fn switch(&mut self, above: &Spot) -> Spot {
        self.port(above)
    }

    /// A root port of a root complex of its own.
    pub fn slot(&mut self, numa: Option<u32>) -> Spot {
        let root = self.root(numa);
        self.port(&root)
    }

    pub fn gpu(&mut self, at: &Spot) -> usize {
        let pci = self.device(at, PciKind::Gpu);
        let index = self.gpus.len();
        self.gpus.push(Gpu {
            index: index as u32,
            uuid: format!("GPU-00000000-0000-0000-0000-{index:012x}").parse().unwrap(),
            pci,
            name: self.gpu_name.clone(),
            down: None,
            mig: Reading::Unsupported(UNSUPPORTED),
            nvlinks: Reading::Supported(Vec::new()),
            fabric: Reading::Unsupported(UNSUPPORTED),
        });
        index
    }

    pub fn nic(&mut self, at: &Spot, name: &str, rate_mbps: u64) -> PciAddress {
        let pci = self.device(at, PciKind::Nic);
        self.nic_at(pci, name, rate_mbps);
        pci
    }

    /// Another function of the card at `pci`.
    pub fn second_port(&mut self, pci: PciAddress, name: &str, rate_mbps: u64) {
        let mut device = self.host.pci.iter().find(|device| device.address == pci).unwrap().clone();
        device.address.function += 1;
        let pci = device.address;
        self.host.pci.push(device);
        self.nic_at(pci, name, rate_mbps);
    }

    fn nic_at(&mut self, pci: PciAddress, name: &str, rate_mbps: u64) {
        let rdma = name.contains("mlx5").then(|| Rdma {
            name: name.to_owned(),
            node_guid: Some(format!("b83f:d203:00{:02x}:00{:02x}", pci.bus, pci.function)),
            ports: vec![RdmaPort {
                number: 1,
                state: Some("ACTIVE".to_owned()),
                rate_mbps: Some(rate_mbps),
                link_layer: Some("InfiniBand".to_owned()),
            }],
        });
        let interfaces = if rdma.is_some() { Vec::new() } else { vec![name.to_owned()] };
        self.host.nics.push(Nic { pci, interfaces, rdma });
    }

    pub fn nvswitch(&mut self, at: &Spot) {
        self.device(at, PciKind::NvSwitch);
    }

    pub fn pci(&mut self, address: PciAddress) -> &mut PciDevice {
        self.host.pci.iter_mut().find(|device| device.address == address).unwrap()
    }

    /// Links of every GPU to NVSwitches.
    pub fn switched(&mut self, links: u32) {
        for gpu in &mut self.gpus {
            let one = |link| nvlink(link, RemoteKind::Switch, None);
            gpu.nvlinks = Reading::Supported((0..links).map(one).collect());
        }
    }

    /// Links between two GPUs, counted by both.
    pub fn linked(&mut self, a: usize, b: usize, links: u32) {
        self.linked_from(a, b, links);
        self.linked_from(b, a, links);
    }

    /// Links between two GPUs, counted by the first only.
    pub fn linked_from(&mut self, from: usize, to: usize, links: u32) {
        let pci = self.gpus[to].pci;
        let Reading::Supported(known) = &mut self.gpus[from].nvlinks else { panic!("no links") };
        for _ in 0..links {
            known.push(nvlink(known.len() as u32, RemoteKind::Gpu, Some(pci)));
        }
    }

    /// Puts down the last `links` links of a GPU.
    pub fn links_down(&mut self, gpu: usize, links: usize) {
        let Reading::Supported(known) = &mut self.gpus[gpu].nvlinks else { panic!("no links") };
        known.iter_mut().rev().take(links).for_each(|link| link.active = false);
    }

    /// Switches MIG mode on, which puts all links of the GPU down.
    pub fn mig_on(&mut self, gpu: usize) {
        self.links_down(gpu, usize::MAX);
        self.gpus[gpu].mig = Reading::Supported(MigState {
            mode: MigMode { current: true, pending: true },
            profiles: Reading::Supported(Vec::new()),
            instances: Reading::Supported(Vec::new()),
        });
    }

    /// Lets the driver say one level for every two GPUs of its own.
    pub fn driver_says(&mut self, level: impl Fn(usize, usize) -> Level) {
        let all = 0..self.gpus.len();
        let said = |a: usize, b: usize| if a == b { Level::Same } else { level(a, b) };
        let gpus = self.gpus.iter().enumerate().map(|(at, gpu)| GpuLocality {
            uuid: gpu.uuid.clone(),
            cpu_affinity: Reading::Unsupported(UNSUPPORTED),
            memory_affinity: Reading::Unsupported(UNSUPPORTED),
            own_numa_node: Reading::Unsupported(UNSUPPORTED),
            c2c_links: Reading::Unsupported(UNSUPPORTED),
            levels: all.clone().map(|other| Reading::Supported(said(at, other))).collect(),
        });
        self.locality = Some(DriverLocality { gpus: gpus.collect() });
    }

    pub fn own_memory(&mut self, gpu: usize, node: u32) {
        self.host.gpu_memory.push(GpuMemoryNode { pci: self.gpus[gpu].pci, numa_node: NumaNodeId(node) });
    }

    pub fn views(&self) -> Vec<GpuView<'_>> {
        self.gpus.iter().map(Gpu::view).collect()
    }

    pub fn topology(&self) -> Topology {
        build(&self.host, &self.views(), self.locality.as_ref())
    }

    fn device(&mut self, at: &Spot, kind: PciKind) -> PciAddress {
        let address = PciAddress { domain: 0, bus: self.bus(), device: 0, function: 0 };
        let cpus = self.host.numa_nodes.iter().find(|node| Some(node.id) == at.numa);
        self.host.pci.push(PciDevice {
            address,
            kind,
            vendor: 0x10de,
            device: 0x2330,
            path: at.path.clone(),
            numa_node: at.numa,
            local_cpus: cpus.map(|node| node.cpus.clone()),
            link: Some(link(32_000, 16)),
            driver: Some(if kind == PciKind::Bridge { "pcieport" } else { "nvidia" }.to_owned()),
            physical_function: None,
            acs_redirects: (kind == PciKind::Bridge).then_some(false),
        });
        address
    }

    fn bus(&mut self) -> u8 {
        self.next_bus += 1;
        self.next_bus
    }
}

pub fn nvlink(link: u32, kind: RemoteKind, pci: Option<PciAddress>) -> NvLink {
    NvLink {
        link,
        active: true,
        version: Reading::Supported(4),
        remote_kind: Reading::Supported(kind),
        remote_pci: pci.map_or(Reading::Unsupported(UNSUPPORTED), Reading::Supported),
        transmitted_bytes: Reading::Unsupported(UNSUPPORTED),
        received_bytes: Reading::Unsupported(UNSUPPORTED),
    }
}
