//! The NodeResourceTopology object as the API server has it.

use std::collections::BTreeMap;

use super::object::Body;
use super::ownership::Ownership;

/// The object, and what its metadata says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Its name: the node's.
    pub name: String,
    /// Its UID; another one is another object.
    pub uid: String,
    /// Its version: another one means that something of it changed.
    pub resource_version: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// Whose death ends it.
    pub owner_references: Vec<OwnerReference>,
    /// It is being deleted (`metadata.deletionTimestamp` is set).
    pub deleting: bool,
    /// Who wrote what of it.
    pub ownership: Ownership,
    /// What it says.
    pub body: Body,
}

/// An entry of `metadata.ownerReferences`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerReference {
    /// The owner's kind, such as `Node`.
    pub kind: String,
    /// The owner's name.
    pub name: String,
    /// The owner's UID.
    pub uid: String,
}
