//! What is written down before anything but a GPU is changed, so that whatever happens it is put back.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What is on disk for the node, with the version of its form: one that this program does not know is not read as another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "version")]
pub enum NodeJournal {
    /// The first form.
    #[serde(rename = "1")]
    V1(NodeEntry),
}

/// What gpulet has changed around a node's GPUs and has to put back, and what it got to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct NodeEntry {
    /// Labels of the Node that are paused, or about to be, with the values that they had.
    pub paused: BTreeMap<String, String>,
    /// The Node is cordoned by us, or about to be.
    pub cordoned: bool,
    /// Services of the host that are stopped, or about to be.
    pub services: Vec<String>,
    /// GPUs may have been changed since the device files and the CDI specification were made.
    pub aftercare: bool,
    /// The reboot that was asked for: it is asked for once.
    pub reboot: Option<RebootMarker>,
    /// What was reached last.
    pub reached: Option<Reached>,
}

/// A reboot that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RebootMarker {
    /// The boot in which it was asked for (source: `/proc/sys/kernel/random/boot_id`).
    pub boot_id: String,
    /// The hash of what was to be reached by it.
    pub hash: String,
}

/// What a node's GPUs were brought to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Reached {
    /// The name of the layout.
    pub name: String,
    /// The hash of what it resolved to.
    pub hash: String,
    /// The boot in which that was.
    pub boot_id: String,
}

impl NodeEntry {
    /// Whether there is anything to put back.
    pub fn is_clean(&self) -> bool {
        self.paused.is_empty() && !self.cordoned && self.services.is_empty() && !self.aftercare
    }
}

impl From<NodeEntry> for NodeJournal {
    fn from(entry: NodeEntry) -> Self {
        Self::V1(entry)
    }
}

impl From<NodeJournal> for NodeEntry {
    fn from(NodeJournal::V1(entry): NodeJournal) -> Self {
        entry
    }
}
