//! Every state of a Node, none missed: what a watch from an earlier version on gives.

use gpulet_tests::ControlPlane;
use serde_json::Value;

/// The states of a Node since a version, in order.
#[derive(Debug)]
pub(crate) struct History(Vec<Value>);

impl History {
    /// What became of the Node after version `since`.
    pub(crate) fn read(plane: &ControlPlane, node: &str, since: &str) -> Self {
        let path = format!(
            "/api/v1/nodes?watch=true&fieldSelector=metadata.name%3D{node}&resourceVersion={since}&timeoutSeconds=1"
        );
        let text = plane.admin().text(&path);
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let state = |event: Value| {
            assert_eq!(event["type"], "MODIFIED", "{event}");
            event["object"].clone()
        };
        Self(events.map(state).collect())
    }

    /// The values that label `key` had, each change once; absent is empty.
    pub(crate) fn label(&self, key: &str) -> Vec<String> {
        self.values(|node| node["metadata"]["labels"][key].as_str().unwrap_or_default().to_owned())
    }

    /// Whether it was cordoned, each change once.
    pub(crate) fn cordoned(&self) -> Vec<bool> {
        self.values(|node| node["spec"]["unschedulable"] == true)
    }

    /// What `of` gives, each change once.
    pub(crate) fn values<T: PartialEq>(&self, of: impl Fn(&Value) -> T) -> Vec<T> {
        let mut values: Vec<T> = self.0.iter().map(of).collect();
        values.dedup();
        values
    }
}
