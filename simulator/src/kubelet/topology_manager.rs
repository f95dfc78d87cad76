//! The topology manager: whether a Pod may lie as its CPUs, memory and devices can.

use std::collections::BTreeMap;

use super::hints::{Compare, Hint, Mask, Opinion, lists, merge};
use super::machine::Machine;
use super::settings::{Settings, SettingsError, TopologyPolicy, TopologyScope, switch};

/// Most NUMA nodes unless `max-allowable-numa-nodes` says more.
const MOST_NODES: usize = 8;

/// The topology manager.
#[derive(Debug, Clone)]
pub(super) struct TopologyManager {
    pub(super) policy: TopologyPolicy,
    pub(super) scope: TopologyScope,
    all: Mask,
    /// With `prefer-closest-numa-nodes`: the distances from each node.
    distances: Option<BTreeMap<u32, Vec<u64>>>,
}

impl TopologyManager {
    pub(super) fn new(machine: &Machine, settings: &Settings) -> Result<Self, SettingsError> {
        let policy = settings.topology_manager_policy;
        let (mut closest, mut most) = (false, MOST_NODES);
        // Without a policy its options are not looked at.
        let options = settings.topology_manager_policy_options.iter();
        for (name, value) in options.filter(|_| policy != TopologyPolicy::None) {
            match name.as_str() {
                "prefer-closest-numa-nodes" => closest = switch(name, value)?,
                "max-allowable-numa-nodes" => most = most_nodes(name, value)?,
                _ => {
                    return Err(SettingsError::UnknownOption {
                        manager: "the topology manager",
                        option: name.clone(),
                        known: "prefer-closest-numa-nodes or max-allowable-numa-nodes",
                    });
                }
            }
        }
        let highest = machine.numa.iter().map(|numa| numa.id).max().unwrap_or(0) as usize;
        let nodes = machine.numa.len();
        if policy != TopologyPolicy::None && (nodes > most || highest >= 64) {
            let (nodes, setting) = (nodes.max(highest + 1), "the topology manager");
            return Err(SettingsError::TooManyNodes { nodes, setting, most });
        }
        let rows = || machine.numa.iter().map(|numa| (numa.id, numa.distances.clone())).collect();
        Ok(Self {
            policy,
            scope: settings.topology_manager_scope,
            all: Mask::of(machine.numa.iter().map(|numa| numa.id)),
            distances: closest.then(rows),
        })
    }

    /// What the managers' opinions come to, if the policy accepts it.
    pub(super) fn decide(&self, opinions: Vec<Opinion>) -> Option<Hint> {
        let mut lists = lists(opinions);
        let compare = match &self.distances {
            Some(distances) if self.policy != TopologyPolicy::SingleNumaNode => Compare::Closest(distances),
            _ => Compare::Narrowest,
        };
        match self.policy {
            TopologyPolicy::None => Some(Hint::default()),
            TopologyPolicy::BestEffort => Some(merge(self.all, &lists, &compare)),
            TopologyPolicy::Restricted => {
                Some(merge(self.all, &lists, &compare)).filter(|hint| hint.preferred)
            }
            TopologyPolicy::SingleNumaNode => {
                let on_one =
                    |hint: &Hint| hint.preferred && hint.affinity.is_none_or(|mask| mask.count() == 1);
                lists.iter_mut().for_each(|hints| hints.retain(on_one));
                let mut hint = merge(self.all, &lists, &compare);
                // All nodes: nobody cares.
                hint.affinity = hint.affinity.filter(|mask| *mask != self.all);
                Some(hint).filter(|hint| hint.preferred)
            }
        }
    }
}

fn most_nodes(name: &str, value: &str) -> Result<usize, SettingsError> {
    value.parse().ok().filter(|most| *most >= MOST_NODES).ok_or_else(|| SettingsError::BadValue {
        option: name.to_owned(),
        value: value.to_owned(),
        expected: "a number from 8",
    })
}
