//! Where each CPU is.

use std::collections::{BTreeMap, BTreeSet};

use super::Cpus;
use crate::kubelet::machine::Machine;

/// Where a CPU is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The lowest CPU number of its core.
    pub(super) core: u32,
    pub(super) socket: u32,
    pub(super) node: u32,
}

/// What of a CPU's place is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Core,
    Socket,
    Node,
}

impl Place {
    pub(super) fn id(self, part: Part) -> u32 {
        match part {
            Part::Core => self.core,
            Part::Socket => self.socket,
            Part::Node => self.node,
        }
    }
}

/// All CPUs of a machine.
#[derive(Debug, Clone, Default)]
pub(super) struct Topology {
    pub(super) places: BTreeMap<u32, Place>,
    cores: usize,
    sockets: usize,
    nodes: usize,
}

impl Topology {
    pub(super) fn of(machine: &Machine) -> Self {
        let mut places = BTreeMap::new();
        for numa in &machine.numa {
            for core in &numa.cores {
                let first = core.threads.iter().min().copied().unwrap_or(0);
                let place = Place { core: first, socket: core.socket, node: numa.id };
                places.extend(core.threads.iter().map(|cpu| (*cpu, place)));
            }
        }
        let count = |part: Part| places.values().map(|p: &Place| p.id(part)).collect::<BTreeSet<_>>().len();
        let cores = machine.numa.iter().map(|numa| numa.cores.len()).sum();
        Self { cores, sockets: count(Part::Socket), nodes: count(Part::Node), places }
    }

    pub(super) fn all(&self) -> Cpus {
        self.places.keys().copied().collect()
    }

    /// NUMA nodes that have CPUs, ascending.
    pub(super) fn nodes(&self) -> Vec<u32> {
        let nodes: BTreeSet<u32> = self.places.values().map(|place| place.node).collect();
        nodes.into_iter().collect()
    }

    /// CPUs of the parts with these ids.
    pub(super) fn within(&self, part: Part, ids: &[u32]) -> Cpus {
        let within = self.places.iter().filter(|(_, place)| ids.contains(&place.id(part)));
        within.map(|(cpu, _)| *cpu).collect()
    }

    pub(super) fn place(&self, cpu: u32) -> Option<Place> {
        self.places.get(&cpu).copied()
    }

    /// CPUs of a core, as if all had as many.
    pub(super) fn per_core(&self) -> usize {
        self.places.len() / self.cores.max(1)
    }

    /// CPUs of a socket, as if all had as many.
    pub(super) fn per_socket(&self) -> usize {
        self.places.len() / self.sockets.max(1)
    }

    pub(super) fn node_count(&self) -> usize {
        self.nodes
    }

    pub(super) fn socket_count(&self) -> usize {
        self.sockets
    }
}
