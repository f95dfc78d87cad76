//! The Pods that matter: who uses the GPUs for the cluster, who may be moved away, and who else divides them.

use std::collections::{BTreeMap, BTreeSet};

use gpulet_inventory::pod::{Keeper, Pod, Role};

use crate::observed::{Holder, PodName};

use super::node::{CLIENTS, NodeView};

/// The annotation by which HAMi tells of the GPUs that it gives away.
const HAMI: &str = "hami.io/node-nvidia-register";

/// Another program that divides the GPUs of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherManager {
    /// What it is, for people.
    pub what: &'static str,
    /// Its Pod.
    pub pod: PodName,
}

impl OtherManager {
    /// What that means and what a person can do.
    pub fn message(&self) -> String {
        let Self { what, pod } = self;
        format!(
            "{what} (Pod {pod}) divides the GPUs of this node; gpulet leaves them and NVIDIA's labels alone until it is gone"
        )
    }
}

fn name(pod: &Pod) -> PodName {
    PodName { namespace: pod.namespace.clone(), name: pod.name.clone() }
}

fn is_there(pod: &&Pod) -> bool {
    !pod.phase.is_terminal()
}

/// The other program that divides the GPUs of this node, if there is one.
pub(super) fn other_manager(pods: &[Pod], node: &NodeView) -> Option<OtherManager> {
    // Besides, HAMi gives away parts of GPUs that it does not divide.
    let registered = node.annotations.get(HAMI).map(String::as_str).unwrap_or_default();
    let hami_divides = registered.replace(' ', "").contains(r#""mode":"mig""#);
    pods.iter().filter(is_there).find_map(|pod| {
        let what = match pod.role? {
            Role::MigManager => "NVIDIA's mig-manager",
            Role::DynamicMig => "NVIDIA's DRA driver with DynamicMIG",
            Role::Hami if hami_divides => "HAMi",
            Role::Hami | Role::DevicePlugin => return None,
        };
        Some(OtherManager { what, pod: name(pod) })
    })
}

/// The Pods that have to go when the clients are paused, and have not gone.
pub(super) fn clients(pods: &[Pod], paused: &BTreeMap<String, String>) -> Vec<PodName> {
    let is_paused = |pod: &&Pod| pod.deployed_by.iter().any(|key| paused.contains_key(key));
    pods.iter().filter(is_there).filter(is_paused).map(name).collect()
}

/// Device plugins that these paused labels do not take away: they have to be started anew to see what there is.
pub(super) fn plugins_to_refresh(pods: &[Pod], paused: &BTreeMap<String, String>) -> Vec<PodName> {
    let plugins = pods.iter().filter(is_there).filter(|pod| pod.role == Some(Role::DevicePlugin));
    let stays = |pod: &&Pod| !pod.deployed_by.iter().any(|key| paused.contains_key(key));
    plugins.filter(stays).filter(|pod| pod.keeper == Keeper::DaemonSet).map(name).collect()
}

/// Those who use what would have to go, by what can be done about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct InTheWay {
    /// Pods that go when their label is paused.
    pub(super) clients: BTreeSet<PodName>,
    /// Services of the host that can be stopped for a while.
    pub(super) services: BTreeSet<String>,
    /// Pods that can be evicted.
    pub(super) evictable: BTreeSet<PodName>,
    /// Whoever else: told for people, with why it stays.
    pub(super) stays: BTreeSet<String>,
}

impl InTheWay {
    /// Who is in the way of these holders' GPUs.
    pub(super) fn of<'a>(
        holders: impl IntoIterator<Item = &'a Holder>,
        services: &BTreeMap<u32, String>,
        pods: &[Pod],
        node: &NodeView,
    ) -> Self {
        let mut all = Self::default();
        for holder in holders {
            all.add(holder, services, pods, node);
        }
        all
    }

    fn add(&mut self, holder: &Holder, services: &BTreeMap<u32, String>, pods: &[Pod], node: &NodeView) {
        let Some(named) = holder.pod() else {
            match holder {
                Holder::Process { pid, .. } if services.contains_key(pid) => {
                    self.services.extend(services.get(pid).cloned());
                }
                _ => drop(self.stays.insert(holder.to_string())),
            }
            return;
        };
        let pod = pods.iter().find(|pod| pod.namespace == named.namespace && pod.name == named.name);
        let pausable = |key: &String| {
            CLIENTS.contains(&key.as_str()) && node.labels.get(key).is_some_and(|value| value != "false")
        };
        match pod {
            Some(pod) if pod.deployed_by.iter().any(pausable) => drop(self.clients.insert(named.clone())),
            Some(pod) if pod.keeper == Keeper::File => {
                self.stays.insert(format!("{holder}, a static Pod, which the API cannot end"));
            }
            Some(pod) if pod.keeper == Keeper::DaemonSet => {
                self.stays.insert(format!("{holder}, of a DaemonSet, which would make it anew"));
            }
            // One that the API does not have may have gone since; its eviction says so.
            Some(_) | None => drop(self.evictable.insert(named.clone())),
        }
    }

    /// Whether all of them go when clients are paused and services stopped.
    pub(super) fn only_clients(&self) -> bool {
        self.evictable.is_empty() && self.stays.is_empty()
    }
}

/// Why the node is cordoned, for people.
pub(super) fn why_cordoned(name: &str) -> String {
    format!("while its GPUs are divided as {name}")
}
