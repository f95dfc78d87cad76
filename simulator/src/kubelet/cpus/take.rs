//! Which CPUs are taken when some number of them is wanted: whole sockets and NUMA nodes first, then whole cores, then
//! what is left, always from where the fewest are free, so that large pieces stay whole.

use std::collections::BTreeMap;

use super::topology::{Part, Place, Topology};
use super::{Cpus, NotEnough};

/// In which order single CPUs are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Core by core.
    Packed,
    /// By number, which on most machines is one thread of each core first; whole cores are not looked for.
    Spread,
}

/// CPUs being taken.
pub(super) struct Taking<'a> {
    topology: &'a Topology,
    free: BTreeMap<u32, Place>,
    pub(super) wanted: usize,
    pub(super) taken: Cpus,
}

impl<'a> Taking<'a> {
    pub(super) fn new(topology: &'a Topology, available: &Cpus, wanted: usize) -> Self {
        let free = available.iter().filter_map(|cpu| Some((*cpu, topology.place(*cpu)?))).collect();
        Self { topology, free, wanted, taken: Cpus::new() }
    }

    pub(super) fn free_cpus(&self) -> usize {
        self.free.len()
    }

    /// Free CPUs of one part.
    pub(super) fn free_in(&self, part: Part, id: u32) -> Cpus {
        self.free.iter().filter(|(_, place)| place.id(part) == id).map(|(cpu, _)| *cpu).collect()
    }

    pub(super) fn take(&mut self, cpus: &Cpus) {
        for cpu in cpus {
            self.free.remove(cpu);
            self.taken.insert(*cpu);
        }
        self.wanted = self.wanted.saturating_sub(cpus.len());
    }

    /// Parts of one kind with a free CPU, those with the fewest free ones first; only those in another part, if given.
    fn fullest(&self, part: Part, within: Option<(Part, u32)>) -> Vec<u32> {
        let mut free: BTreeMap<u32, usize> = BTreeMap::new();
        for place in self.free.values() {
            *free.entry(place.id(part)).or_default() += 1;
        }
        let wanted = |place: &&Place| within.is_none_or(|(outer, id)| place.id(outer) == id);
        let mut ids: Vec<u32> = self.free.values().filter(wanted).map(|place| place.id(part)).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.sort_by_key(|id| free.get(id).copied().unwrap_or(0));
        ids
    }

    /// The larger and the smaller of sockets and NUMA nodes.
    fn levels(&self) -> (Part, Part) {
        let nodes_are_larger = self.topology.socket_count() >= self.topology.node_count();
        if nodes_are_larger { (Part::Node, Part::Socket) } else { (Part::Socket, Part::Node) }
    }

    /// The fullest parts of the larger level, each with the fullest of the next.
    fn inner(&self) -> Vec<u32> {
        let (outer, inner) = self.levels();
        let outer_ids = self.fullest(outer, None).into_iter();
        outer_ids.flat_map(|id| self.fullest(inner, Some((outer, id)))).collect()
    }

    pub(super) fn nodes(&self) -> Vec<u32> {
        if self.levels().0 == Part::Node { self.fullest(Part::Node, None) } else { self.inner() }
    }

    fn sockets(&self) -> Vec<u32> {
        if self.levels().0 == Part::Socket { self.fullest(Part::Socket, None) } else { self.inner() }
    }

    fn cores(&self) -> Vec<u32> {
        let inner = self.levels().1;
        self.inner().into_iter().flat_map(|id| self.fullest(Part::Core, Some((inner, id)))).collect()
    }

    fn singles(&self, order: Order) -> Vec<u32> {
        let (parts, part) = match order {
            Order::Packed => (self.cores(), Part::Core),
            Order::Spread => (self.sockets(), Part::Socket),
        };
        parts.into_iter().flat_map(|id| self.free_in(part, id)).collect()
    }

    /// Takes whole parts, as far as that many are wanted.
    fn take_whole(&mut self, part: Part) {
        let ids = match part {
            Part::Node => self.nodes(),
            Part::Socket => self.sockets(),
            Part::Core => self.cores(),
        };
        let whole = |taking: &Self, id: u32| match part {
            Part::Node => taking.topology.within(part, &[id]).len(),
            Part::Socket => taking.topology.per_socket(),
            Part::Core => taking.topology.per_core(),
        };
        let free: Vec<u32> =
            ids.into_iter().filter(|id| self.free_in(part, *id).len() == whole(self, *id)).collect();
        for id in free {
            let cpus = self.topology.within(part, &[id]);
            if self.wanted >= cpus.len() {
                self.take(&cpus);
            }
        }
    }
}

/// Takes `wanted` of the available CPUs, as close together as they can be.
pub(super) fn packed(
    topology: &Topology,
    available: &Cpus,
    wanted: usize,
    order: Order,
) -> Result<Cpus, NotEnough> {
    let mut taking = Taking::new(topology, available, wanted);
    if wanted > taking.free_cpus() {
        return Err(NotEnough { requested: wanted, available: available.len() });
    }
    let (outer, inner) = taking.levels();
    let cores = (order == Order::Packed).then_some(Part::Core);
    for part in [Some(outer), Some(inner), cores].into_iter().flatten() {
        if taking.wanted == 0 {
            return Ok(taking.taken);
        }
        taking.take_whole(part);
    }
    while taking.wanted > 0 {
        // Taken one by one in an order that was made once.
        for cpu in taking.singles(order).into_iter().take(taking.wanted) {
            taking.take(&Cpus::from([cpu]));
        }
    }
    Ok(taking.taken)
}
