//! The node's own Node object.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::meta::{Key, Meta, Object};

/// The conditions that are ours.
pub const CONDITIONS: [&str; 3] = ["GpuHealthy", "GpuPartitioned", "GpuTopologyPublished"];

/// The Node, as far as it concerns us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its UID; a node that was deleted and came back has another.
    pub uid: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// No more Pods are to be placed on it (`spec.unschedulable`).
    pub unschedulable: bool,
    /// Those conditions that are ours, as they stand.
    pub conditions: Vec<Condition>,
}

/// A condition of a Node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Its type, such as `GpuHealthy`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, in one word.
    #[serde(default)]
    pub reason: String,
    /// Why, for people.
    #[serde(default)]
    pub message: String,
}

/// Whether a condition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody can say.
    Unknown,
}

/// A Node as the API gives it, as far as it is read.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct NodeObject {
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Spec {
    unschedulable: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Status {
    // Read later, and only ours: what others write here need not be in the form that we know.
    conditions: Vec<Value>,
}

impl Object for NodeObject {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// Its version, and what is used of it.
pub(crate) fn versioned(object: NodeObject) -> (Node, String) {
    let version = object.metadata.resource_version.clone();
    (node(object), version)
}

/// What is used of it. Heartbeats and the like are not, so that they wake nobody.
pub(crate) fn node(object: NodeObject) -> Node {
    let NodeObject { metadata, spec, status } = object;
    let ours = |condition: &Value| {
        condition.get("type").and_then(Value::as_str).is_some_and(|kind| CONDITIONS.contains(&kind))
    };
    let ours = status.conditions.into_iter().filter(ours);
    Node {
        conditions: ours.filter_map(|condition| serde_json::from_value(condition).ok()).collect(),
        unschedulable: spec.unschedulable,
        name: metadata.name,
        uid: metadata.uid,
        labels: metadata.labels,
        annotations: metadata.annotations,
    }
}

/// The Node, if it exists.
pub(crate) fn only(nodes: &BTreeMap<Key, Node>) -> Option<Node> {
    nodes.values().next().cloned()
}

/// The strategic merge patch of a Node's status that sets one condition and touches nothing else: conditions merge by
/// `type`. Its time of transition is left as it is unless the status is another than it was.
pub(crate) fn condition_patch(wanted: &Condition, before: Option<&Condition>, now: &str) -> Value {
    let transition = before.is_none_or(|before| before.status != wanted.status);
    let times = Times { last_heartbeat_time: now, last_transition_time: transition.then_some(now) };
    json!({"status": {"conditions": [Timed { condition: wanted, times }]}})
}

#[derive(Serialize)]
struct Timed<'a> {
    #[serde(flatten)]
    condition: &'a Condition,
    #[serde(flatten)]
    times: Times<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Times<'a> {
    last_heartbeat_time: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_transition_time: Option<&'a str>,
}

/// What is to become of the Node: nothing of what is not named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NodeChange {
    /// Its labels and annotations.
    #[serde(skip_serializing_if = "MetadataChange::is_empty")]
    pub metadata: MetadataChange,
    /// Whether Pods may be placed on it.
    #[serde(rename = "spec", skip_serializing_if = "Option::is_none", serialize_with = "unschedulable")]
    pub unschedulable: Option<bool>,
}

fn unschedulable<S: serde::Serializer>(value: &Option<bool>, to: S) -> Result<S::Ok, S::Error> {
    json!({"unschedulable": value}).serialize(to)
}

/// What is to become of labels and annotations: each key's new value, or nothing to take it away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MetadataChange {
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, Option<String>>,
    /// Annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, Option<String>>,
    /// The version that this is for: the API server refuses it, as a conflict, when the Node is another by now.
    #[serde(rename = "resourceVersion", skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl MetadataChange {
    fn is_empty(&self) -> bool {
        let Self { labels, annotations, version } = self;
        labels.is_empty() && annotations.is_empty() && version.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_cut_down_to_what_concerns_us() {
        let object = serde_json::from_value(json!({
            "metadata": {"name": "a", "uid": "1", "labels": {"nvidia.com/mig.config": "all-balanced"}},
            "spec": {"unschedulable": true, "podCIDR": "10.0.0.0/24"},
            "status": {"images": [{}], "conditions": [
                {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"},
                {"type": "GpuHealthy", "status": "Odd"},
                {"type": "GpuPartitioned", "status": "Unknown", "reason": "Starting"}]},
        }));
        let node = node(object.unwrap());
        assert!(node.unschedulable);
        assert_eq!(node.labels["nvidia.com/mig.config"], "all-balanced");
        let conditions = node.conditions.iter().map(|condition| (condition.kind.as_str(), condition.status));
        assert_eq!(conditions.collect::<Vec<_>>(), [("GpuPartitioned", ConditionStatus::Unknown)]);
    }

    #[test]
    fn the_time_of_transition_is_set_by_transitions_only() {
        let condition = |status, reason: &str| Condition {
            kind: "GpuHealthy".into(),
            status,
            reason: reason.into(),
            message: String::new(),
        };
        let wanted = condition(ConditionStatus::False, "TopologyFindings");
        let transition = |before: Option<&Condition>| {
            condition_patch(&wanted, before, "now")["status"]["conditions"][0]["lastTransitionTime"].clone()
        };
        assert_eq!(transition(None), "now");
        assert_eq!(transition(Some(&condition(ConditionStatus::True, "Healthy"))), "now");
        assert_eq!(transition(Some(&condition(ConditionStatus::False, "Other"))), Value::Null);
    }

    #[test]
    fn what_is_taken_away_is_null() {
        let labels = BTreeMap::from([("a".to_owned(), Some("1".to_owned())), ("b".to_owned(), None)]);
        let change = MetadataChange { labels, ..MetadataChange::default() };
        assert_eq!(json!(change), json!({"labels": {"a": "1", "b": null}}));
        let metadata = MetadataChange { version: Some("7".into()), ..change };
        let node = NodeChange { metadata, unschedulable: Some(true) };
        let metadata = json!({"labels": {"a": "1", "b": null}, "resourceVersion": "7"});
        assert_eq!(json!(node), json!({"metadata": metadata, "spec": {"unschedulable": true}}));
        assert_eq!(json!(NodeChange::default()), json!({}));
    }
}
