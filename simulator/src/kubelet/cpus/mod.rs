//! The CPU manager with its policy `static`: containers of `Guaranteed` Pods that ask for whole CPUs have them for
//! themselves.

mod distribute;
mod take;
mod topology;

use std::collections::{BTreeMap, BTreeSet};

use gpulet_inventory::pod::QosClass;

use self::take::Order;
use self::topology::{Part, Topology};
use super::hints::{Hint, Mask, Opinion};
use super::machine::Machine;
use super::pod::{Container, Pod};
use super::quantity::Quantity;
use super::rejection::Rejection;
use super::settings::{CpuPolicy, Settings, SettingsError, TopologyPolicy, switch};

/// CPU numbers.
pub(super) type Cpus = BTreeSet<u32>;

/// There are not as many CPUs as are wanted.
#[derive(Debug, thiserror::Error)]
#[error("not enough cpus available to satisfy request: requested={requested}, available={available}")]
pub(super) struct NotEnough {
    requested: usize,
    available: usize,
}

/// What the policy may be told beyond its name.
#[derive(Debug, Clone, Copy, Default)]
struct Options {
    whole_cores: bool,
    across_nodes: bool,
    by_socket: bool,
    across_cores: bool,
    strict: bool,
}

impl Options {
    fn of(settings: &Settings) -> Result<Self, SettingsError> {
        let mut options = Self::default();
        for (name, value) in &settings.cpu_manager_policy_options {
            let on = switch(name, value)?;
            match name.as_str() {
                "full-pcpus-only" => options.whole_cores = on,
                "distribute-cpus-across-numa" => options.across_nodes = on,
                "align-by-socket" => options.by_socket = on,
                "distribute-cpus-across-cores" => options.across_cores = on,
                "strict-cpu-reservation" => options.strict = on,
                _ => {
                    return Err(SettingsError::UnknownOption {
                        manager: "the static CPU manager",
                        option: name.clone(),
                        known: "full-pcpus-only, distribute-cpus-across-numa, align-by-socket, \
                                distribute-cpus-across-cores or strict-cpu-reservation",
                    });
                }
            }
        }
        const SPREAD: &str = "distribute-cpus-across-cores";
        let exclusive = [
            (options.whole_cores && options.across_cores, "full-pcpus-only", SPREAD),
            (options.across_nodes && options.across_cores, "distribute-cpus-across-numa", SPREAD),
            (
                options.by_socket && settings.topology_manager_policy == TopologyPolicy::SingleNumaNode,
                "align-by-socket",
                "single-numa-node",
            ),
        ];
        match exclusive.into_iter().find(|(both, ..)| *both) {
            Some((_, one, other)) => Err(SettingsError::Exclusive { one, other }),
            None => Ok(options),
        }
    }
}

/// The CPU manager.
#[derive(Debug, Clone)]
pub(super) struct CpuManager {
    policy: CpuPolicy,
    options: Options,
    topology: Topology,
    reserved: Cpus,
    /// Those with which everything runs that has none for itself. Written into the state file.
    pub(super) shared: Cpus,
    /// By Pod UID and container. Written into the state file.
    pub(super) assigned: BTreeMap<String, BTreeMap<String, Cpus>>,
    /// CPUs of init containers, which the Pod's later containers take over.
    reusable: (String, Cpus),
}

impl CpuManager {
    pub(super) fn new(machine: &Machine, settings: &Settings) -> Result<Self, SettingsError> {
        let topology = Topology::of(machine);
        let mut manager = Self {
            policy: settings.cpu_manager_policy,
            options: Options::default(),
            topology,
            reserved: Cpus::new(),
            shared: Cpus::new(),
            assigned: BTreeMap::new(),
            reusable: Default::default(),
        };
        if let (CpuPolicy::None, Some(option)) =
            (manager.policy, settings.cpu_manager_policy_options.keys().next())
        {
            let (manager, known) = ("the CPU manager with policy none", "no option, or policy static");
            return Err(SettingsError::UnknownOption { manager, option: option.clone(), known });
        }
        if manager.policy == CpuPolicy::Static {
            manager.options = Options::of(settings)?;
            manager.reserved = manager.reserve(machine, settings)?;
            manager.shared = manager.topology.all();
            if manager.options.strict {
                manager.shared.retain(|cpu| !manager.reserved.contains(cpu));
            }
        }
        Ok(manager)
    }

    /// The CPUs that nobody gets for himself: as named, else those of the lowest cores.
    fn reserve(&self, machine: &Machine, settings: &Settings) -> Result<Cpus, SettingsError> {
        let amount = settings.reserved("cpu", Quantity::of(machine.cpu_count()))?;
        if amount.is_zero() {
            return Err(SettingsError::NothingReserved {
                what: "CPU time",
                setting: "reservedSystemCPUs, or cpu in kubeReserved or systemReserved",
            });
        }
        let wanted = amount.value() as usize;
        let all = self.topology.all();
        let reserved = match &settings.reserved_system_cpus {
            Some(cpus) => cpus.iter().filter(|cpu| all.contains(cpu)).collect(),
            None => self.take(&all, wanted).unwrap_or(all),
        };
        let found = reserved.len();
        if found == wanted { Ok(reserved) } else { Err(SettingsError::ReservedCpus { wanted, found }) }
    }

    fn take(&self, available: &Cpus, wanted: usize) -> Result<Cpus, NotEnough> {
        let order = if self.options.across_cores { Order::Spread } else { Order::Packed };
        if self.options.across_nodes {
            let group = if self.options.whole_cores { self.topology.per_core() } else { 1 };
            return distribute::distributed(&self.topology, available, wanted, group, order);
        }
        take::packed(&self.topology, available, wanted, order)
    }

    /// CPUs that can be given away in all; none with policy `none`.
    pub(super) fn allocatable(&self) -> Cpus {
        match self.policy {
            CpuPolicy::None => Cpus::new(),
            CpuPolicy::Static => &self.topology.all() - &self.reserved,
        }
    }

    /// CPUs that a container has for itself.
    pub(super) fn of(&self, uid: &str, container: &str) -> Cpus {
        let of_pod = self.assigned.get(uid);
        of_pod.and_then(|containers| containers.get(container)).cloned().unwrap_or_default()
    }

    fn available(&self) -> Cpus {
        &self.shared - &self.reserved
    }

    /// How many CPUs a container of this Pod is to have for itself.
    fn wanted(&self, pod: &Pod, container: &Container) -> usize {
        let cpus = container.requests.get("cpu").copied().unwrap_or_default();
        let exclusive =
            self.policy == CpuPolicy::Static && pod.qos() == QosClass::Guaranteed && cpus.is_whole();
        if exclusive { cpus.value() as usize } else { 0 }
    }

    pub(super) fn container_opinion(&self, pod: &Pod, container: &Container) -> Opinion {
        self.opinion(pod, self.wanted(pod, container))
    }

    pub(super) fn pod_opinion(&self, pod: &Pod) -> Opinion {
        self.opinion(pod, pod.peak(|container| self.wanted(pod, container)))
    }

    fn opinion(&self, pod: &Pod, wanted: usize) -> Opinion {
        if wanted == 0 {
            return Opinion::new();
        }
        let nothing = Cpus::new();
        let (owner, reusable) = &self.reusable;
        let reusable = if *owner == pod.uid { reusable } else { &nothing };
        [("cpu".to_owned(), Some(self.hints(&self.available(), reusable, wanted)))].into()
    }

    /// Each set of NUMA nodes that can give `wanted` CPUs, those of init containers among them. Preferred are those of
    /// as many nodes as the machine would need if all of it were free.
    fn hints(&self, available: &Cpus, reusable: &Cpus, wanted: usize) -> Vec<Hint> {
        let nodes = self.topology.nodes();
        let node_of = |cpu: &u32| self.topology.place(*cpu).map_or(u32::MAX, |place| place.node);
        let mut fewest = nodes.len() as u32;
        let mut masks = Vec::new();
        for mask in Mask::all(&nodes) {
            let count = |cpus: &mut dyn Iterator<Item = &u32>| cpus.filter(|c| mask.has(node_of(c))).count();
            if count(&mut self.topology.places.keys()) >= wanted {
                fewest = fewest.min(mask.count());
            }
            let reused = count(&mut reusable.iter());
            if reused == reusable.len() && reused + count(&mut available.iter()) >= wanted {
                masks.push(mask);
            }
        }
        let preferred = |mask: Mask| mask.count() == fewest || self.is_by_socket(mask, fewest);
        masks.into_iter().map(|mask| Hint { affinity: Some(mask), preferred: preferred(mask) }).collect()
    }

    /// With `align-by-socket`: whether these nodes are of as few sockets as can be.
    fn is_by_socket(&self, mask: Mask, fewest: u32) -> bool {
        let per_socket = self.topology.node_count() / self.topology.socket_count().max(1);
        if !self.options.by_socket || per_socket == 0 {
            return false;
        }
        self.sockets(mask).len() == (fewest as usize).div_ceil(per_socket)
    }

    fn sockets(&self, mask: Mask) -> Vec<u32> {
        let places = self.topology.places.values().filter(|place| mask.has(place.node));
        places.map(|place| place.socket).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Gives a container CPUs of its own, if it is to have some: first from the NUMA nodes that were agreed upon.
    pub(super) fn allocate(
        &mut self,
        pod: &Pod,
        container: &Container,
        affinity: Option<Mask>,
    ) -> Result<(), Rejection> {
        let wanted = self.wanted(pod, container);
        if wanted == 0 {
            return Ok(());
        }
        self.demand_whole_cores(wanted)?;
        let mut available = self.available();
        if self.reusable.0 == pod.uid {
            available.extend(&self.reusable.1);
        }
        let mut taken = Cpus::new();
        if let Some(mask) = affinity {
            let near = match self.options.by_socket {
                true => self.topology.within(Part::Socket, &self.sockets(mask)),
                false => self.topology.within(Part::Node, &mask.nodes()),
            };
            let near = &available & &near;
            taken = self.take(&near, wanted.min(near.len())).map_err(Rejection::unexpected)?;
        }
        let rest = self.take(&(&available - &taken), wanted - taken.len()).map_err(Rejection::unexpected)?;
        taken.extend(rest);
        self.shared.retain(|cpu| !taken.contains(cpu));
        self.note_reusable(pod, container, &taken);
        self.assigned.entry(pod.uid.clone()).or_default().insert(container.name.clone(), taken);
        Ok(())
    }

    /// With `full-pcpus-only`: nobody shares a core with anybody.
    fn demand_whole_cores(&self, wanted: usize) -> Result<(), Rejection> {
        if !self.options.whole_cores {
            return Ok(());
        }
        let per_core = self.topology.per_core().max(1);
        let refuse = |message: String| Err(Rejection::new("SMTAlignmentError", message));
        if !wanted.is_multiple_of(per_core) {
            return refuse(format!(
                "SMT Alignment Error: requested {wanted} cpus not multiple cpus per core = {per_core}"
            ));
        }
        let cores: Vec<u32> =
            self.reserved.iter().filter_map(|cpu| Some(self.topology.place(*cpu)?.core)).collect();
        let free = (&self.shared - &self.topology.within(Part::Core, &cores)).len();
        if wanted > free {
            return refuse(format!(
                "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = {free}, \
                 requested CPUs = {wanted}, CPUs per core = {per_core}"
            ));
        }
        Ok(())
    }

    fn note_reusable(&mut self, pod: &Pod, container: &Container, taken: &Cpus) {
        if self.reusable.0 != pod.uid {
            self.reusable = (pod.uid.clone(), Cpus::new());
        }
        let ends = pod.init_containers.iter().any(|init| init.name == container.name && !init.restartable);
        let reusable = &mut self.reusable.1;
        if ends {
            reusable.extend(taken);
        } else {
            reusable.retain(|cpu| !taken.contains(cpu));
        }
    }

    /// Takes back what Pods have that are no more.
    pub(super) fn retain(&mut self, is_active: impl Fn(&str) -> bool) {
        let gone: Vec<String> = self.assigned.keys().filter(|uid| !is_active(uid)).cloned().collect();
        for uid in gone {
            let containers = self.assigned.remove(&uid).unwrap_or_default();
            self.shared.extend(containers.into_values().flatten());
        }
    }
}
