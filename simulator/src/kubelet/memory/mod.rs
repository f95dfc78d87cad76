//! The memory manager with its policy `Static`: containers of `Guaranteed` Pods get memory of certain NUMA nodes.
//!
//! A node whose memory is part of a block over several nodes gives memory only to blocks over the same nodes, and a node
//! that gave memory to a block of its own none to one over several.

mod state;

use std::collections::BTreeMap;

use gpulet_inventory::pod::QosClass;

pub(super) use self::state::{Block, MachineState, NodeState, Table};
use super::hints::{Hint, Mask, Opinion};
use super::machine::Machine;
use super::pod::{Container, Pod};
use super::quantity::Quantity;
use super::rejection::Rejection;
use super::settings::{MemoryPolicy, Settings, SettingsError};

/// Most NUMA nodes whose sets are gone through: each more doubles the work.
const MOST_NODES: usize = 16;

/// Bytes by kind.
type Wanted = BTreeMap<String, u64>;

/// The memory manager.
#[derive(Debug, Clone)]
pub(super) struct MemoryManager {
    policy: MemoryPolicy,
    /// Written into the state file.
    pub(super) machine: MachineState,
    /// By Pod UID and container. Written into the state file.
    pub(super) assigned: BTreeMap<String, BTreeMap<String, Vec<Block>>>,
    /// Memory of init containers, which the Pod's later containers take over: by nodes and kind.
    reusable: (String, BTreeMap<(Mask, String), u64>),
}

impl MemoryManager {
    pub(super) fn new(machine: &Machine, settings: &Settings) -> Result<Self, SettingsError> {
        let policy = settings.memory_manager_policy;
        let mut state = MachineState::default();
        if policy == MemoryPolicy::Static {
            check(machine, settings)?;
            state = MachineState::new(machine, &settings.reserved_memory);
        }
        Ok(Self { policy, machine: state, assigned: BTreeMap::new(), reusable: Default::default() })
    }

    /// Memory that can be given away in all: a block per node and kind.
    pub(super) fn allocatable(&self) -> Vec<Block> {
        let of_node = |(node, state): (&u32, &NodeState)| {
            let nodes = vec![*node];
            let some = state.tables.iter().filter(|(_, table)| table.allocatable > 0);
            let block = |(kind, table): (&String, &Table)| Block {
                nodes: nodes.clone(),
                kind: kind.clone(),
                bytes: table.allocatable,
            };
            some.map(block).collect::<Vec<_>>()
        };
        self.machine.0.iter().flat_map(of_node).collect()
    }

    /// Memory that a container has.
    pub(super) fn of(&self, uid: &str, container: &str) -> Vec<Block> {
        let of_pod = self.assigned.get(uid);
        of_pod.and_then(|containers| containers.get(container)).cloned().unwrap_or_default()
    }

    fn manages(&self, pod: &Pod) -> bool {
        self.policy == MemoryPolicy::Static && pod.qos() == QosClass::Guaranteed
    }

    pub(super) fn container_opinion(&self, pod: &Pod, container: &Container) -> Opinion {
        if !self.manages(pod) {
            return Opinion::new();
        }
        self.opinion(pod, &wanted(container))
    }

    pub(super) fn pod_opinion(&self, pod: &Pod) -> Opinion {
        if !self.manages(pod) {
            return Opinion::new();
        }
        // A kind that only init containers ask for is not counted.
        let kinds = pod.containers.iter().flat_map(|container| wanted(container).into_keys());
        let peak = |kind: &str| pod.peak(|container| wanted(container).get(kind).copied().unwrap_or(0));
        self.opinion(pod, &kinds.map(|kind| (kind.clone(), peak(&kind))).collect())
    }

    /// Where there is no room at all, the kubelet says nothing, as if it did not matter: the Pod then fails later.
    fn opinion(&self, pod: &Pod, wanted: &Wanted) -> Opinion {
        let hints = self.hints(pod, wanted);
        if hints.is_empty() {
            return Opinion::new();
        }
        wanted.keys().map(|kind| (kind.clone(), Some(hints.clone()))).collect()
    }

    /// Each set of NUMA nodes that can give all kinds. Preferred are those of as few nodes as could give them if
    /// everything were free.
    fn hints(&self, pod: &Pod, wanted: &Wanted) -> Vec<Hint> {
        let nodes: Vec<u32> = self.machine.0.keys().copied().collect();
        let mut fewest = nodes.len() as u32;
        let mut masks = Vec::new();
        for mask in Mask::all(&nodes) {
            let nodes = mask.nodes();
            let sum = |of: &dyn Fn(Table) -> u64, kind: &str| {
                nodes.iter().map(|node| of(self.machine.table(*node, kind))).sum::<u64>()
            };
            if wanted.iter().any(|(kind, bytes)| sum(&|table| table.allocatable, kind) < *bytes) {
                continue;
            }
            fewest = fewest.min(mask.count());
            let room = |(kind, bytes): (&String, &u64)| {
                sum(&|table| table.free, kind).saturating_add(self.reusable(pod, mask, kind)) >= *bytes
            };
            if self.is_open(&nodes) && wanted.iter().all(room) {
                masks.push(mask);
            }
        }
        let hint = |mask: Mask| Hint { affinity: Some(mask), preferred: mask.count() == fewest };
        masks.into_iter().map(hint).collect()
    }

    /// Whether a block over exactly these nodes goes together with those that they carry.
    fn is_open(&self, nodes: &[u32]) -> bool {
        let states = nodes.iter().filter_map(|node| self.machine.0.get(node));
        match nodes {
            [_] => states.into_iter().all(|state| state.group.len() <= 1),
            _ => states.into_iter().all(|state| state.assignments == 0 || shares(state, nodes)),
        }
    }

    fn reusable(&self, pod: &Pod, mask: Mask, kind: &str) -> u64 {
        let (owner, reusable) = &self.reusable;
        if *owner != pod.uid {
            return 0;
        }
        reusable.get(&(mask, kind.to_owned())).copied().unwrap_or(0)
    }

    /// Gives a container memory: on the NUMA nodes that were agreed upon, on more if those have not enough.
    pub(super) fn allocate(
        &mut self,
        pod: &Pod,
        container: &Container,
        agreed: Hint,
    ) -> Result<(), Rejection> {
        if !self.manages(pod) {
            return Ok(());
        }
        let wanted = wanted(container);
        let mask = self.choose(pod, &wanted, agreed).map_err(Rejection::unexpected)?;
        let nodes = mask.nodes();
        let mut blocks = Vec::new();
        for (kind, bytes) in wanted {
            let fresh = bytes.saturating_sub(self.reusable(pod, mask, &kind));
            self.machine.take(&nodes, &kind, fresh);
            blocks.push(Block { nodes: nodes.clone(), kind, bytes });
        }
        self.note_reusable(pod, container, &blocks);
        self.take_over(pod, container, &blocks);
        self.assigned.entry(pod.uid.clone()).or_default().insert(container.name.clone(), blocks);
        Ok(())
    }

    fn choose(&self, pod: &Pod, wanted: &Wanted, agreed: Hint) -> Result<Mask, &'static str> {
        let mut best = agreed;
        let mask = match agreed.affinity {
            Some(mask) => mask,
            None => {
                best = best_of(self.hints(pod, wanted)).ok_or(
                    "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available",
                )?;
                if agreed.preferred && !best.preferred {
                    return Err("[memorymanager] failed to find the default preferred hint");
                }
                best.affinity.unwrap_or(Mask::of([]))
            }
        };
        let room = |(kind, bytes): (&String, &u64)| {
            let free: u64 = mask.nodes().iter().map(|node| self.machine.table(*node, kind).free).sum();
            free >= *bytes
        };
        let mask =
            if wanted.iter().all(room) { mask } else { self.widen(pod, wanted, mask, best.preferred)? };
        let nodes = mask.nodes();
        let clashes = |node: &u32| {
            let state = self.machine.0.get(node);
            state.is_some_and(|state| state.assignments != 0 && !shares(state, &nodes))
        };
        if nodes.len() > 1 && nodes.iter().any(clashes) {
            return Err("[memorymanager] preferred hint violates NUMA node allocation");
        }
        Ok(mask)
    }

    fn widen(&self, pod: &Pod, wanted: &Wanted, mask: Mask, preferred: bool) -> Result<Mask, &'static str> {
        let mut hints = self.hints(pod, wanted);
        hints.retain(|hint| hint.affinity.is_some_and(|wider| mask.is_within(wider)));
        let wider = best_of(hints)
            .ok_or("[memorymanager] failed to find NUMA nodes to extend the current topology hint")?;
        if preferred && !wider.preferred {
            return Err("[memorymanager] failed to find the extended preferred hint");
        }
        Ok(wider.affinity.unwrap_or(mask))
    }

    fn note_reusable(&mut self, pod: &Pod, container: &Container, blocks: &[Block]) {
        if self.reusable.0 != pod.uid {
            self.reusable = (pod.uid.clone(), BTreeMap::new());
        }
        let ends = pod.init_containers.iter().any(|init| init.name == container.name && !init.restartable);
        for block in blocks {
            let key = (Mask::of(block.nodes.iter().copied()), block.kind.clone());
            if ends {
                let most = self.reusable.1.entry(key).or_default();
                *most = block.bytes.max(*most);
            } else if let Some(left) = self.reusable.1.get_mut(&key) {
                *left = left.saturating_sub(block.bytes);
            }
        }
    }

    /// What a container takes over from init containers before it is no longer theirs, so that all blocks of a Pod
    /// together are what it has.
    fn take_over(&mut self, pod: &Pod, container: &Container, blocks: &[Block]) {
        let Some(of_pod) = self.assigned.get_mut(&pod.uid) else { return };
        for block in blocks {
            let mut bytes = block.bytes;
            let before = pod.init_containers.iter().take_while(|init| init.name != container.name);
            for init in before.filter(|init| !init.restartable) {
                let theirs = of_pod.get_mut(&init.name).into_iter().flatten();
                for theirs in theirs.filter(|theirs| theirs.kind == block.kind && theirs.nodes == block.nodes)
                {
                    let part = bytes.min(theirs.bytes);
                    theirs.bytes -= part;
                    bytes -= part;
                }
            }
        }
    }

    /// The Pod's containers run: its init containers have ended and give back what is still theirs.
    pub(super) fn started(&mut self, pod: &Pod) {
        for init in pod.init_containers.iter().filter(|init| !init.restartable) {
            let of_pod = self.assigned.get_mut(&pod.uid);
            let blocks = of_pod.and_then(|containers| containers.remove(&init.name)).unwrap_or_default();
            blocks.iter().for_each(|block| self.machine.give_back(block));
        }
        self.assigned.retain(|_, containers| !containers.is_empty());
    }

    /// Takes back what Pods have that are no more.
    pub(super) fn retain(&mut self, is_active: impl Fn(&str) -> bool) {
        let gone: Vec<String> = self.assigned.keys().filter(|uid| !is_active(uid)).cloned().collect();
        for uid in gone {
            let blocks = self.assigned.remove(&uid).unwrap_or_default().into_values().flatten();
            blocks.for_each(|block| self.machine.give_back(&block));
        }
    }
}

/// Whether a node's blocks stretch over exactly these nodes.
fn shares(state: &NodeState, nodes: &[u32]) -> bool {
    state.group.len() > 1 && state.group == nodes
}

/// The best way: a preferred one, of few and low nodes.
fn best_of(hints: Vec<Hint>) -> Option<Hint> {
    hints.into_iter().reduce(|best, hint| {
        let narrower = hint.affinity.zip(best.affinity).is_some_and(|(mask, best)| mask.is_narrower(best));
        let better = hint.preferred && !best.preferred || hint.preferred == best.preferred && narrower;
        if better { hint } else { best }
    })
}

/// Memory and huge pages that a container asks for.
fn wanted(container: &Container) -> Wanted {
    let is_memory = |kind: &str| kind == "memory" || kind.starts_with("hugepages-");
    let requests = container.requests.iter().filter(|(kind, _)| is_memory(kind));
    requests.map(|(kind, amount)| (kind.clone(), amount.value())).collect()
}

fn check(machine: &Machine, settings: &Settings) -> Result<(), SettingsError> {
    let reserved = &settings.reserved_memory;
    let highest = machine.numa.iter().map(|numa| numa.id).max().unwrap_or(0);
    if machine.numa.len() > MOST_NODES || highest >= 64 {
        let (nodes, setting) = (machine.numa.len().max(highest as usize + 1), "the simulated memory manager");
        return Err(SettingsError::TooManyNodes { nodes, setting, most: MOST_NODES });
    }
    let unknown = reserved.iter().map(|kept| kept.numa_node);
    let mut unknown = unknown.filter(|node| !machine.numa.iter().any(|numa| numa.id == *node));
    if let Some(node) = unknown.next() {
        return Err(SettingsError::UnknownNode { node });
    }
    let on_nodes = |kind: &str| -> u64 {
        reserved.iter().filter_map(|kept| kept.limits.get(kind)).map(|amount| amount.value()).sum()
    };
    let kinds = machine.huge_pages().map(|(kind, _)| kind).chain(["memory".to_owned()]);
    for kind in kinds {
        let capacity = if kind == "memory" {
            machine.memory_bytes()
        } else {
            machine.huge_pages().filter(|(other, _)| *other == kind).map(|(_, bytes)| bytes).sum()
        };
        let (nodes, total) = (on_nodes(&kind), settings.reserved(&kind, Quantity::of(capacity))?.value());
        if nodes != total {
            return Err(SettingsError::ReservedMemory { kind, nodes, total });
        }
    }
    if on_nodes("memory") == 0 {
        return Err(SettingsError::NothingReserved { what: "memory", setting: "reservedMemory" });
    }
    Ok(())
}
