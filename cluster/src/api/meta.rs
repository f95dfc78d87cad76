//! What is read of an object's metadata, and of lists.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The metadata that all kinds of objects have in common.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Meta {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) deletion_timestamp: Option<String>,
}

/// A list of objects.
#[derive(Debug, Deserialize)]
pub(crate) struct List<O> {
    #[serde(default)]
    pub(crate) metadata: ListMeta,
    // Go writes an empty list as null.
    pub(crate) items: Option<Vec<O>>,
}

/// The metadata of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ListMeta {
    pub(crate) resource_version: String,
}

/// An object that has a name and a version.
pub(crate) trait Object {
    fn meta(&self) -> &Meta;
}

/// What identifies an object of its kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    namespace: String,
    name: String,
}

impl Key {
    pub(crate) fn of(meta: &Meta) -> Self {
        Self { namespace: meta.namespace.clone(), name: meta.name.clone() }
    }
}
