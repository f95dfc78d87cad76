//! The Node, as far as a change of its GPUs concerns it: pausing those who use them, cordoning, and putting it all back.

use std::collections::BTreeMap;

use super::declared::CORDONED;
use super::journal::NodeEntry;
use super::status::StatusChange;

/// The value by which NVIDIA's operator and mig-manager take a part off a node for a while.
pub const PAUSED: &str = "paused-for-mig-change";

/// The labels whose parts use GPUs, so that they are paused. The driver, the toolkit and the validators are not among them.
pub const CLIENTS: [&str; 6] = [
    "nvidia.com/gpu.deploy.client",
    "nvidia.com/gpu.deploy.dcgm",
    "nvidia.com/gpu.deploy.dcgm-exporter",
    "nvidia.com/gpu.deploy.device-plugin",
    "nvidia.com/gpu.deploy.gpu-feature-discovery",
    "nvidia.com/gpu.deploy.nvsm",
];

/// The Node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeView {
    /// Its labels; without Kubernetes those of the configuration.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// No more Pods are to be placed on it.
    pub unschedulable: bool,
}

/// What is to become of the Node: of what is not named here nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeChange {
    /// Labels: the new value, or nothing to take it away.
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations likewise.
    pub annotations: BTreeMap<String, Option<String>>,
    /// Whether Pods may be placed on it.
    pub unschedulable: Option<bool>,
    /// What is told of the change of its GPUs.
    pub status: Option<StatusChange>,
    /// The version of the Node that this is decided for; at another the change must fail.
    pub version: Option<String>,
}

impl NodeChange {
    /// Whether nothing is to become of it.
    pub fn is_empty(&self) -> bool {
        let Self { labels, annotations, unschedulable, status, version: _ } = self;
        labels.is_empty() && annotations.is_empty() && unschedulable.is_none() && status.is_none()
    }

    /// The Node after this.
    pub(super) fn applied_to(&self, node: &mut NodeView) {
        let apply = |to: &mut BTreeMap<String, String>, changes: &BTreeMap<String, Option<String>>| {
            for (key, value) in changes {
                match value {
                    Some(value) => drop(to.insert(key.clone(), value.clone())),
                    None => drop(to.remove(key)),
                }
            }
        };
        apply(&mut node.labels, &self.labels);
        apply(&mut node.annotations, &self.annotations);
        node.unschedulable = self.unschedulable.unwrap_or(node.unschedulable);
    }
}

/// The labels to pause, with the values that they have. Those that are absent, `false`, or paused already are not among them.
pub(super) fn to_pause(node: &NodeView) -> BTreeMap<String, String> {
    let value = |key: &&str| Some(((*key).to_owned(), node.labels.get(*key)?.clone()));
    let there = CLIENTS.iter().filter_map(value);
    there.filter(|(_, value)| value != "false" && value != PAUSED).collect()
}

/// Pauses these.
pub(super) fn pausing(labels: &BTreeMap<String, String>) -> NodeChange {
    let paused = labels.keys().map(|key| (key.clone(), Some(PAUSED.to_owned())));
    NodeChange { labels: paused.collect(), ..NodeChange::default() }
}

/// Cordons the Node with a word about why; nothing where it is cordoned already, by whomever.
pub(super) fn cordoning(node: &NodeView, why: &str) -> Option<NodeChange> {
    let annotations = BTreeMap::from([(CORDONED.to_owned(), Some(why.to_owned()))]);
    (!node.unschedulable).then(|| NodeChange {
        annotations,
        unschedulable: Some(true),
        ..NodeChange::default()
    })
}

/// Puts back what is paused and cordoned. A value that someone else has set meanwhile stays.
///
/// Those that are paused and not in the journal were left behind by another program, such as a mig-manager that was killed:
/// with `adopt` they become `true`, as it would make them.
pub(super) fn restoring(node: &NodeView, entry: &NodeEntry, adopt: bool) -> NodeChange {
    let value = |key: &str| match entry.paused.get(key) {
        Some(former) => Some(former.clone()),
        None => adopt.then(|| "true".to_owned()),
    };
    let journalled = entry.paused.keys().map(String::as_str);
    let mut keys: Vec<&str> = CLIENTS.into_iter().chain(journalled).collect();
    keys.sort_unstable();
    keys.dedup();
    let paused = keys.into_iter().filter(|key| node.labels.get(*key).is_some_and(|value| value == PAUSED));
    let labels = paused.filter_map(|key| Some((key.to_owned(), Some(value(key)?)))).collect();
    let is_ours = node.annotations.contains_key(CORDONED);
    NodeChange {
        labels,
        annotations: is_ours.then(|| (CORDONED.to_owned(), None)).into_iter().collect(),
        // What was uncordoned meanwhile, and what someone else has cordoned, stays.
        unschedulable: (is_ours && node.unschedulable).then_some(false),
        ..NodeChange::default()
    }
}

/// Whether there is anything on the Node that [`restoring`] with `adopt` would put back.
pub(super) fn is_left_behind(node: &NodeView) -> bool {
    !restoring(node, &NodeEntry::default(), true).is_empty()
}
