//! A node under construction: a machine, its kubelet and its Pods.

use std::collections::{BTreeMap, BTreeSet};

use gpulet_inventory::host::HugePages;
use gpulet_inventory::kubelet::{
    Allocatable, ClaimedDevice, ContainerAllocation, KubeletDevice, KubeletSettings, MemoryBlock,
    NodeAllocation, PodAllocation,
};
use gpulet_inventory::numa::NumaNodeId;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::pod::{Keeper, Pod, PodPhase, QosClass};
use gpulet_inventory::topology::Topology;
use gpulet_topology::nrt::object::{Body, NODE_ZONE, Zone};
use gpulet_topology::nrt::{Account, Built, DeviceName, Hardware, Inputs, NoteReason, build, hazards};

use super::scheduler;
use crate::support::machine::Machine;

pub const GPU: &str = "nvidia.com/gpu";
pub const GIB: u64 = 1 << 30;

#[derive(Debug, Clone)]
pub struct Node {
    pub topology: Topology,
    pub huge_pages: Vec<HugePages>,
    pub allocation: Option<NodeAllocation>,
    pub settings: Option<KubeletSettings>,
    pub pods: Option<Vec<Pod>>,
    pub gpus_in_use: BTreeSet<PciAddress>,
    pub hardware_of: fn(DeviceName<'_>) -> Option<Hardware>,
}

impl Node {
    /// Without a kubelet.
    pub fn bare(machine: &Machine) -> Self {
        Self {
            topology: machine.topology(),
            huge_pages: Vec::new(),
            allocation: None,
            settings: None,
            pods: None,
            gpus_in_use: BTreeSet::new(),
            hardware_of: |_| None,
        }
    }

    /// With a kubelet that gives nothing exclusively.
    pub fn with_kubelet(machine: &Machine) -> Self {
        let mut node = Self::bare(machine);
        node.allocation = Some(NodeAllocation::default());
        node.settings = Some(settings());
        node
    }

    pub fn allocatable(&mut self) -> &mut Allocatable {
        &mut self.allocation.as_mut().unwrap().allocatable
    }

    pub fn settings(&mut self) -> &mut KubeletSettings {
        self.settings.as_mut().unwrap()
    }

    /// Adds a device that may be given.
    pub fn device(&mut self, resource: &str, id: &str, numa_nodes: Option<&[i64]>) {
        self.allocatable().devices.push(device(resource, id, numa_nodes));
    }

    /// Adds a Pod of one container, and returns the container.
    pub fn pod(&mut self, namespace: &str, name: &str) -> &mut ContainerAllocation {
        let container = ContainerAllocation { name: "main".to_owned(), ..ContainerAllocation::default() };
        let pods = &mut self.allocation.as_mut().unwrap().pods;
        pods.push(PodAllocation {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            containers: vec![container],
        });
        &mut pods.last_mut().unwrap().containers[0]
    }

    pub fn inputs(&self) -> Inputs<'_> {
        Inputs {
            topology: &self.topology,
            huge_pages: &self.huge_pages,
            allocation: self.allocation.as_ref(),
            settings: self.settings.as_ref(),
            pods: self.pods.as_deref(),
            gpus_in_use: &self.gpus_in_use,
            hardware_of: &self.hardware_of,
        }
    }

    /// The object, after all that holds for every object was looked at.
    pub fn built(&self) -> Built {
        let built = build(&self.inputs());
        assert_sound(&built);
        built
    }
}

/// What holds for whatever was built.
pub fn assert_sound(built: &Built) {
    assert_eq!(hazards(&built.body), Vec::<String>::new());
    scheduler::reads(&built.body);
    for account in built.why.iter().chain(&built.unplaced) {
        let sum =
            |shares: &[gpulet_topology::nrt::Share]| shares.iter().map(|share| share.amount).sum::<u64>();
        assert_eq!(account.capacity - sum(&account.kept), account.allocatable, "{account:?}");
        assert_eq!(account.allocatable - sum(&account.taken), account.available, "{account:?}");
    }
    let of_zones: Vec<(&str, &str, String)> = node_zones(&built.body)
        .flat_map(|zone| zone.resources.iter().map(move |resource| (zone, resource)))
        .map(|(zone, resource)| {
            (zone.name.as_str(), resource.name.as_str(), resource.available.as_str().to_owned())
        })
        .collect();
    let of_accounts: Vec<(&str, &str, String)> = built
        .why
        .iter()
        .map(|account| (account.zone.as_str(), account.resource.as_str(), account.available.to_string()))
        .collect();
    assert_eq!(of_zones, of_accounts);
}

pub fn node_zones(body: &Body) -> impl Iterator<Item = &Zone> {
    body.zones.iter().filter(|zone| zone.kind == NODE_ZONE)
}

pub fn account<'a>(built: &'a Built, zone: &str, resource: &str) -> &'a Account {
    let found = built.why.iter().find(|account| account.zone == zone && account.resource == resource);
    found.unwrap_or_else(|| panic!("no {resource} in {zone}"))
}

/// Capacity, allocatable, available.
pub fn figures(built: &Built, zone: &str, resource: &str) -> (u64, u64, u64) {
    let account = account(built, zone, resource);
    (account.capacity, account.allocatable, account.available)
}

/// `available` of each zone.
pub fn available(built: &Built, resource: &str) -> Vec<u64> {
    built.why.iter().filter(|account| account.resource == resource).map(|account| account.available).collect()
}

pub fn reasons(built: &Built) -> Vec<NoteReason> {
    built.notes.iter().map(|note| note.reason).collect()
}

pub fn attribute<'a>(
    attributes: &'a [gpulet_topology::nrt::object::Attribute],
    name: &str,
) -> Option<&'a str> {
    attributes.iter().find(|attribute| attribute.name == name).map(|attribute| attribute.value.as_str())
}

pub fn zone<'a>(built: &'a Built, name: &str) -> &'a Zone {
    built.body.zones.iter().find(|zone| zone.name == name).unwrap_or_else(|| panic!("no zone {name}"))
}

pub fn device(resource: &str, id: &str, numa_nodes: Option<&[i64]>) -> KubeletDevice {
    KubeletDevice {
        resource: resource.to_owned(),
        id: id.to_owned(),
        numa_nodes: numa_nodes.map(<[i64]>::to_vec),
    }
}

pub fn block(kind: &str, bytes: u64, numa_nodes: &[i64]) -> MemoryBlock {
    MemoryBlock { kind: kind.to_owned(), bytes, numa_nodes: numa_nodes.to_vec() }
}

pub fn pages(numa_node: u32, page_bytes: u64, total: u64) -> HugePages {
    HugePages { numa_node: NumaNodeId(numa_node), page_bytes, total, free: total }
}

pub fn claim(name: &str, device: &str) -> ClaimedDevice {
    ClaimedDevice {
        claim_namespace: "ml".to_owned(),
        claim: name.to_owned(),
        driver: "gpu.nvidia.com".to_owned(),
        pool: "worker".to_owned(),
        device: device.to_owned(),
        share_id: None,
        cdi_devices: Vec::new(),
    }
}

pub fn api_pod(namespace: &str, name: &str, phase: PodPhase) -> Pod {
    Pod {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: format!("{namespace}-{name}"),
        config_hash: None,
        keeper: Keeper::Other,
        deployed_by: Vec::new(),
        role: None,
        phase,
        qos: QosClass::Guaranteed,
        deleting: false,
        containers: Vec::new(),
    }
}

pub fn settings() -> KubeletSettings {
    KubeletSettings {
        topology_manager_policy: "single-numa-node".to_owned(),
        topology_manager_scope: "container".to_owned(),
        topology_manager_options: BTreeMap::new(),
        cpu_manager_policy: "static".to_owned(),
        memory_manager_policy: "None".to_owned(),
        ..KubeletSettings::default()
    }
}

/// Two NUMA nodes of 8 CPUs and 64 GiB each, with two GPUs each.
pub fn two_sockets() -> Machine {
    let mut m = Machine::new("NVIDIA L40S");
    m.node(0, "0-3,8-11", 64);
    m.node(1, "4-7,12-15", 64);
    for gpu in 0..4 {
        let slot = m.slot(Some(gpu / 2));
        m.gpu(&slot);
    }
    distances(&mut m, 21);
    m
}

/// Local 10, all else `remote`.
pub fn distances(machine: &mut Machine, remote: u32) {
    let online = machine.host.numa_nodes.len();
    for (at, node) in machine.host.numa_nodes.iter_mut().enumerate() {
        node.distances = (0..online).map(|other| if at == other { 10 } else { remote }).collect();
    }
}
