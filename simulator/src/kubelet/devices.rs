//! The device manager: which devices plugins offer, and who has which.

use std::collections::{BTreeMap, BTreeSet};

use super::hints::{Hint, Mask, Opinion};
use super::pod::{Container, Pod};
use super::rejection::Rejection;

/// Device names.
pub(super) type Ids = BTreeSet<String>;

/// A device as its plugin offers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The plugin's name for it, such as a GPU's UUID.
    pub id: String,
    /// The kernel's numbers of its NUMA nodes; `None`: the plugin tells none.
    pub numa: Option<Vec<i64>>,
    /// Whether the plugin calls it healthy.
    pub healthy: bool,
}

/// Which of several devices are taken that are equally good by the kubelet's rules. A real kubelet leaves it to the order
/// of Go's maps, that is, to chance. Named are those that go first; the others follow in the order of their names.
pub type Choice<'a> = &'a dyn Fn(&Question<'_>) -> Vec<String>;

/// Between what a choice is.
#[derive(Debug)]
pub struct Question<'a> {
    /// Whose container it is for.
    pub pod: &'a Pod,
    /// The container.
    pub container: &'a str,
    /// The resource.
    pub resource: &'a str,
    /// The devices that are equally good.
    pub among: &'a BTreeSet<String>,
}

/// Where a device is that was given away, as it was then: by NUMA node, -1 without.
pub(super) type ByNode = BTreeMap<i64, Vec<String>>;

/// In place of a node for devices that have none.
const NO_NODE: i64 = -1;

/// The device manager.
#[derive(Debug, Clone, Default)]
pub(super) struct DeviceManager {
    /// All NUMA nodes of the machine.
    nodes: Vec<u32>,
    /// By resource, as far as the plugin has told since the kubelet started.
    all: BTreeMap<String, BTreeMap<String, Option<Vec<i64>>>>,
    /// By resource; a resource stays known when its plugin is gone. Written into the checkpoint.
    pub(super) healthy: BTreeMap<String, Ids>,
    /// By Pod UID, container and resource. Written into the checkpoint.
    pub(super) given: BTreeMap<String, BTreeMap<String, BTreeMap<String, ByNode>>>,
    /// Resources of which something was given away since the kubelet started, with what is given away of them.
    allocated: BTreeMap<String, Ids>,
    /// Devices of init containers, which the Pod's later containers take over.
    reusable: (String, BTreeMap<String, Ids>),
}

impl DeviceManager {
    pub(super) fn new(nodes: Vec<u32>) -> Self {
        Self { nodes, ..Self::default() }
    }

    /// A plugin says which devices it has.
    pub(super) fn update(&mut self, resource: &str, devices: &[Device]) {
        let all = devices.iter().map(|device| (device.id.clone(), device.numa.clone())).collect();
        let healthy =
            devices.iter().filter(|device| device.healthy).map(|device| device.id.clone()).collect();
        self.all.insert(resource.to_owned(), all);
        self.healthy.insert(resource.to_owned(), healthy);
    }

    /// A plugin is gone: nothing that it had counts as healthy.
    pub(super) fn disconnect(&mut self, resource: &str) {
        if let Some(healthy) = self.healthy.get_mut(resource) {
            healthy.clear();
        }
    }

    /// The kubelet starts anew: it knows what it has given away and which resources there were, but no device until
    /// the plugins register again.
    pub(super) fn restart(&mut self) {
        self.all.clear();
        self.healthy.values_mut().for_each(Ids::clear);
        self.reusable = Default::default();
        self.count_given();
    }

    fn count_given(&mut self) {
        self.allocated.clear();
        let given = self.given.values().flat_map(BTreeMap::values).flatten();
        for (resource, devices) in given {
            let ids = devices.values().flatten().cloned();
            self.allocated.entry(resource.clone()).or_default().extend(ids);
        }
    }

    /// Healthy devices with their NUMA nodes, by resource.
    pub(super) fn allocatable(&self) -> impl Iterator<Item = (&str, &str, Option<&[i64]>)> {
        self.all.iter().flat_map(move |(resource, devices)| {
            let healthy = self.healthy.get(resource);
            let devices = devices.iter().filter(move |(id, _)| healthy.is_some_and(|h| h.contains(*id)));
            devices.map(move |(id, numa)| (resource.as_str(), id.as_str(), numa.as_deref()))
        })
    }

    /// How many of a resource can be given away in all: the healthy ones; what is given away at least.
    pub(super) fn capacity(&self, resource: &str) -> Option<usize> {
        let healthy = self.healthy.get(resource)?.len();
        Some(healthy.max(self.allocated.get(resource).map_or(0, Ids::len)))
    }

    /// Devices that a container has, by resource and NUMA node.
    pub(super) fn of(&self, uid: &str, container: &str) -> BTreeMap<String, ByNode> {
        let of_pod = self.given.get(uid);
        of_pod.and_then(|containers| containers.get(container)).cloned().unwrap_or_default()
    }

    fn is_known(&self, resource: &str) -> bool {
        self.healthy.contains_key(resource) || self.allocated.contains_key(resource)
    }

    /// How many devices of each known resource a container asks for.
    fn wanted(&self, container: &Container) -> BTreeMap<String, usize> {
        let limits = container.limits.iter().filter(|(resource, _)| self.is_known(resource));
        limits.map(|(resource, amount)| (resource.clone(), amount.value() as usize)).collect()
    }

    fn numa(&self, resource: &str, id: &str) -> &[i64] {
        let device = self.all.get(resource).and_then(|devices| devices.get(id));
        device.and_then(Option::as_deref).unwrap_or_default()
    }

    fn has_topology(&self, resource: &str) -> bool {
        let devices = self.all.get(resource).into_iter().flatten();
        devices.into_iter().any(|(_, numa)| numa.as_ref().is_some_and(|nodes| !nodes.is_empty()))
    }

    fn available(&self, resource: &str) -> Ids {
        let healthy = self.healthy.get(resource).cloned().unwrap_or_default();
        match self.allocated.get(resource) {
            Some(allocated) => &healthy - allocated,
            None => healthy,
        }
    }

    fn reusable(&self, pod: &Pod, resource: &str) -> Ids {
        let (owner, reusable) = &self.reusable;
        let of_pod = reusable.get(resource).filter(|_| *owner == pod.uid);
        of_pod.cloned().unwrap_or_default()
    }

    pub(super) fn container_opinion(&self, pod: &Pod, container: &Container) -> Opinion {
        let wanted = self.wanted(container).into_iter();
        let hints = |(resource, count): (String, usize)| {
            let reusable = self.reusable(pod, &resource);
            let hints = self.hints(&resource, &reusable, count);
            (resource, hints)
        };
        wanted.map(hints).collect()
    }

    pub(super) fn pod_opinion(&self, pod: &Pod) -> Opinion {
        let resources: BTreeSet<&String> =
            pod.all_containers().flat_map(|container| container.limits.keys()).collect();
        let known = resources.into_iter().filter(|resource| self.is_known(resource));
        let hints = |resource: &String| {
            let count =
                |container: &Container| container.limits.get(resource).map_or(0, |amount| amount.value());
            (resource.clone(), self.hints(resource, &Ids::new(), pod.peak(count) as usize))
        };
        known.map(hints).collect()
    }

    /// Each set of NUMA nodes that has enough devices; `None` where no device says where it is. Only nodes that have
    /// devices of this kind are looked at.
    fn hints(&self, resource: &str, reusable: &Ids, count: usize) -> Option<Vec<Hint>> {
        if !self.has_topology(resource) {
            return None;
        }
        let available = self.available(resource);
        if available.union(reusable).count() < count {
            return Some(Vec::new());
        }
        let devices: Vec<&str> =
            self.all.get(resource).into_iter().flatten().map(|(id, _)| id.as_str()).collect();
        let named = |node: &u32| devices.iter().any(|id| self.numa(resource, id).contains(&i64::from(*node)));
        let mut nodes: Vec<u32> = self.nodes.iter().copied().filter(named).collect();
        if nodes.is_empty() {
            nodes.clone_from(&self.nodes);
        }
        let mut fewest = nodes.len() as u32;
        let mut masks = Vec::new();
        for mask in Mask::all(&nodes) {
            let among = |id: &str| mask.has_any(self.numa(resource, id));
            if devices.iter().filter(|id| among(id)).count() >= count {
                fewest = fewest.min(mask.count());
            }
            let mut with_place = reusable
                .iter()
                .filter(|id| self.all.get(resource).and_then(|d| d.get(*id)).is_some_and(Option::is_some));
            let reused = with_place.clone().count();
            if with_place.all(|id| among(id))
                && reused + available.iter().filter(|id| among(id)).count() >= count
            {
                masks.push(mask);
            }
        }
        let hint = |mask: Mask| Hint { affinity: Some(mask), preferred: mask.count() == fewest };
        Some(masks.into_iter().map(hint).collect())
    }

    /// Gives a container the devices that it asks for.
    pub(super) fn allocate(
        &mut self,
        pod: &Pod,
        container: &Container,
        affinity: Option<Mask>,
        choice: Choice<'_>,
    ) -> Result<(), Rejection> {
        if self.reusable.0 != pod.uid {
            self.reusable = (pod.uid.clone(), BTreeMap::new());
        }
        for (resource, count) in self.wanted(container) {
            let ids = self.choose(pod, container, &resource, count, affinity, choice)?;
            if ids.is_empty() {
                continue;
            }
            let mut by_node = ByNode::new();
            for id in &ids {
                let numa = self.numa(&resource, id);
                let nodes = if numa.is_empty() { &[NO_NODE] } else { numa };
                nodes.iter().for_each(|node| by_node.entry(*node).or_default().push(id.clone()));
            }
            self.allocated.entry(resource.clone()).or_default().extend(ids.iter().cloned());
            let ends =
                pod.init_containers.iter().any(|init| init.name == container.name && !init.restartable);
            let reusable = self.reusable.1.entry(resource.clone()).or_default();
            if ends {
                reusable.extend(ids);
            } else {
                reusable.retain(|id| !ids.contains(id));
            }
            let of_pod = self.given.entry(pod.uid.clone()).or_default();
            of_pod.entry(container.name.clone()).or_default().insert(resource, by_node);
        }
        Ok(())
    }

    /// Those of init containers first, then those on the NUMA nodes that were agreed upon, then others.
    fn choose(
        &self,
        pod: &Pod,
        container: &Container,
        resource: &str,
        count: usize,
        affinity: Option<Mask>,
        choice: Choice<'_>,
    ) -> Result<Ids, Rejection> {
        let Some(healthy) = self.healthy.get(resource) else {
            return Err(Rejection::unexpected(format_args!(
                "cannot allocate unregistered device {resource}"
            )));
        };
        if healthy.is_empty() {
            return Err(Rejection::unexpected(format_args!(
                "no healthy devices present; cannot allocate unhealthy devices {resource}"
            )));
        }
        let mut chosen = Ids::new();
        let mut add = |among: &Ids| {
            let question = Question { pod, container: &container.name, resource, among };
            let first = choice(&question).into_iter().filter(|id| among.contains(id));
            for id in first.chain(among.iter().cloned()) {
                if chosen.len() < count {
                    chosen.insert(id);
                }
            }
            count - chosen.len()
        };
        let needed = add(&self.reusable(pod, resource));
        if needed == 0 {
            return Ok(chosen);
        }
        let available = self.available(resource);
        if available.len() < needed {
            return Err(Rejection::unexpected(format_args!(
                "requested number of devices unavailable for {resource}. Requested: {needed}, Available: {}",
                available.len()
            )));
        }
        for among in self.by_affinity(resource, &available, affinity) {
            add(&among);
        }
        Ok(chosen)
    }

    /// Available devices on the nodes that were agreed upon, on others, and without a node. A device with several nodes
    /// counts by the first of them: nodes agreed upon come first.
    fn by_affinity(&self, resource: &str, available: &Ids, affinity: Option<Mask>) -> [Ids; 3] {
        let Some(mask) = affinity.filter(|_| self.has_topology(resource)) else {
            return [Ids::new(), Ids::new(), available.clone()];
        };
        let mut lists = [Ids::new(), Ids::new(), Ids::new()];
        let [aligned, unaligned, anywhere] = &mut lists;
        for id in available {
            let numa = self.numa(resource, id);
            let list = match numa {
                [] => &mut *anywhere,
                nodes if mask.has_any(nodes) => &mut *aligned,
                _ => &mut *unaligned,
            };
            list.insert(id.clone());
        }
        lists
    }

    /// Takes back what Pods have that are no more.
    pub(super) fn retain(&mut self, is_active: impl Fn(&str) -> bool) {
        let before = self.given.len();
        self.given.retain(|uid, _| is_active(uid));
        if self.given.len() != before {
            self.count_given();
        }
    }
}
