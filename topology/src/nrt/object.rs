//! The form of a NodeResourceTopology object, without its `metadata`.

use serde::{Deserialize, Deserializer, Serialize};

/// API group and version.
pub const API_VERSION: &str = "topology.node.k8s.io/v1alpha2";
/// Kind.
pub const KIND: &str = "NodeResourceTopology";
/// The type of a zone that schedulers place Pods in. No other zone carries resources.
pub const NODE_ZONE: &str = "Node";

/// Everything of the object that is ours.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    /// What holds for the whole node, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<Attribute>,
    /// The zones: those of type `Node` first, ascending.
    #[serde(default)]
    pub zones: Vec<Zone>,
}

/// A name and a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A part of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zone {
    /// Its name, such as `node-0`.
    pub name: String,
    /// What it is: `Node`, `PCIeSwitch`, `NVLinkDomain`, `GPU` or `MemoryNode`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name of the zone that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// What else is known of it, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<Attribute>,
    /// How far it is to zones of its type, itself included; from a memory node, to those of type `Node`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub costs: Vec<Cost>,
    /// What it has, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Resource>,
}

/// How far it is to a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// The zone's name.
    pub name: String,
    /// Between NUMA nodes their distance: 10 is local. Between PCIe devices the level of the way, as NVML numbers it.
    pub value: i64,
}

/// How much a zone has of something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    /// Of what: `cpu`, `memory`, `hugepages-2Mi`, `nvidia.com/gpu`, …
    pub name: String,
    /// How much there is.
    pub capacity: Quantity,
    /// How much of that Pods may have.
    pub allocatable: Quantity,
    /// How much of that no Pod has.
    pub available: Quantity,
}

/// An amount as the API writes it: whole CPUs, bytes or devices, in decimal digits. Those that others have written may
/// have a unit (`4Gi`) and are kept as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Quantity(String);

impl Quantity {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<u64> for Quantity {
    fn from(amount: u64) -> Self {
        Self(amount.to_string())
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum IntOrString {
            Int(i64),
            String(String),
        }
        Ok(Self(match IntOrString::deserialize(deserializer)? {
            IntOrString::Int(amount) => amount.to_string(),
            IntOrString::String(text) => text,
        }))
    }
}
