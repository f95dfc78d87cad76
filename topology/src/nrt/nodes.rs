//! Which NUMA nodes are zones, and under which names.
//!
//! A scheduler takes the number in a zone's name for an index: it must be below 64, and the numbers must have no gaps. The
//! kernel's numbers keep neither rule, so zones are numbered in their order, and the kernel's number is an attribute.

use gpulet_inventory::kubelet::KubeletSettings;
use gpulet_inventory::numa::{NumaNode, NumaNodeId};
use gpulet_inventory::topology::Topology;

use super::built::NoteReason;
use super::notes::Notes;
use super::object::Cost;

/// As many zones as the scheduler plug-in has room for; it falls over the 65th.
const MOST: usize = 64;

/// As many NUMA nodes as the kubelet's topology manager works with unless it is told otherwise.
const KUBELETS_MOST: usize = 8;

/// The distance of a node to itself in a SLIT; there is no smaller one.
const LOCAL: u32 = 10;

/// The NUMA nodes of a machine and the zones made of them.
pub(super) struct Nodes<'a> {
    /// Online nodes as the kernel orders them, each once.
    online: Vec<&'a NumaNode>,
    /// Those that are zones; the zone's number is its position here.
    zones: Vec<&'a NumaNode>,
}

impl<'a> Nodes<'a> {
    pub(super) fn of(topology: &'a Topology, notes: &mut Notes) -> Self {
        let mut online: Vec<&NumaNode> = topology.numa_nodes.iter().map(|area| &area.node).collect();
        online.sort_by_key(|node| node.id);
        online.dedup_by_key(|node| node.id);
        let mut zones: Vec<&NumaNode> = online.iter().copied().filter(|node| !node.cpus.is_empty()).collect();
        for node in zones.iter().skip(MOST) {
            notes.add(NoteReason::TooManyNodes, "zones", format!("NUMA node {}", node.id));
        }
        zones.truncate(MOST);
        if zones.is_empty() {
            notes.add(NoteReason::NoCpuNodes, "zones", "/sys/devices/system/node".to_owned());
        }
        Self { online, zones }
    }

    /// Notes a kubelet that aligns Pods on more NUMA nodes than its topology manager is made for.
    pub(super) fn note_policy(&self, settings: Option<&KubeletSettings>, notes: &mut Notes) {
        let Some(policy) = settings.map(|settings| settings.topology_manager_policy.as_str()) else { return };
        if !["none", ""].contains(&policy) && self.online.len() > KUBELETS_MOST {
            let thing = format!("{} NUMA nodes, topologyManagerPolicy {policy}", self.online.len());
            notes.add(NoteReason::ManyNumaNodes, "kubelet", thing);
        }
    }

    /// The nodes that are zones, in the zones' order.
    pub(super) fn zones(&self) -> &[&'a NumaNode] {
        &self.zones
    }

    /// All online nodes.
    pub(super) fn online(&self) -> &[&'a NumaNode] {
        &self.online
    }

    /// Which zone a NUMA node is, by the kernel's number as others tell it.
    pub(super) fn zone_of(&self, id: i64) -> Option<usize> {
        let id = NumaNodeId(u32::try_from(id).ok()?);
        self.zones.binary_search_by_key(&id, |node| node.id).ok()
    }

    /// The name of the zone that a NUMA node is.
    pub(super) fn name_of(&self, id: NumaNodeId) -> Option<String> {
        self.zone_of(i64::from(id.0)).map(zone_name)
    }

    /// How far it is from a node to each zone. Where the kernel does not tell all of them, none is told: a scheduler
    /// takes one that lacks for the longest way that there is.
    pub(super) fn costs(&self, node: &NumaNode) -> Vec<Cost> {
        let told = |node: &&NumaNode| node.distances.len() == self.online.len();
        if !self.zones.iter().chain([&node]).all(told) {
            return Vec::new();
        }
        // Columns follow the online nodes, whatever their numbers.
        let columns = self.online.iter().zip(&node.distances);
        let to_zone = columns.filter_map(|(other, distance)| Some((self.name_of(other.id)?, *distance)));
        to_zone.map(|(name, distance)| Cost { name, value: i64::from(distance.max(LOCAL)) }).collect()
    }
}

/// The name of the zone with this number.
pub(super) fn zone_name(number: usize) -> String {
    format!("node-{number}")
}
