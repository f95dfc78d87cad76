//! The node's own NodeResourceTopology object.

use std::collections::BTreeMap;

use gpulet_topology::nrt::object::{API_VERSION, Body, KIND};
use gpulet_topology::nrt::observed::{Observed, OwnerReference};
use gpulet_topology::nrt::ownership::{FIELD_MANAGER, MANAGED_BY, ManagedFields, Ownership};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::meta::{Key, Meta, Object};

/// The object as the API gives it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct TopologyObject {
    metadata: TopologyMeta,
    #[serde(flatten)]
    body: Body,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TopologyMeta {
    #[serde(flatten)]
    meta: Meta,
    #[serde(default)]
    owner_references: Vec<Owner>,
    #[serde(default)]
    managed_fields: Vec<ManagedFields>,
}

#[derive(Debug, Clone, Deserialize)]
struct Owner {
    kind: String,
    name: String,
    uid: String,
}

/// What is answered to a write.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Written {
    metadata: Meta,
}

/// The object as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Its UID.
    pub uid: String,
    /// Its version; the same as before where nothing had to change.
    pub resource_version: String,
}

impl From<Written> for Version {
    fn from(Written { metadata }: Written) -> Self {
        Self { uid: metadata.uid, resource_version: metadata.resource_version }
    }
}

impl Object for TopologyObject {
    fn meta(&self) -> &Meta {
        &self.metadata.meta
    }
}

/// What it says, and who wrote it.
pub(crate) fn observed(object: TopologyObject) -> Observed {
    let TopologyObject { metadata: TopologyMeta { meta, owner_references, managed_fields }, body } = object;
    let reference = |Owner { kind, name, uid }| OwnerReference { kind, name, uid };
    Observed {
        ownership: Ownership::new(&managed_fields, &meta.labels),
        owner_references: owner_references.into_iter().map(reference).collect(),
        deleting: meta.deletion_timestamp.is_some(),
        name: meta.name,
        uid: meta.uid,
        resource_version: meta.resource_version,
        labels: meta.labels,
        annotations: meta.annotations,
        body,
    }
}

/// The object, if it exists.
pub(crate) fn only(objects: &BTreeMap<Key, Observed>) -> Option<Observed> {
    objects.values().next().cloned()
}

/// The object as it is applied: everything in it is ours from then on. It ends with the Node.
pub(crate) fn applied(node: &str, node_uid: Option<&str>, body: &Body) -> Value {
    let owner =
        |uid| json!({"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid, "controller": false});
    let metadata = json!({
        "name": node,
        "labels": {MANAGED_BY: FIELD_MANAGER},
        "ownerReferences": node_uid.map(owner).into_iter().collect::<Vec<_>>(),
    });
    json!(Applied { api_version: API_VERSION, kind: KIND, metadata, body })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Applied<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: Value,
    #[serde(flatten)]
    body: &'a Body,
}
