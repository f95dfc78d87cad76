//! The node's Pods as the Kubernetes API knows them.

use serde::{Deserialize, Serialize};

/// One Pod that is bound to this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID in the API.
    pub uid: String,
    /// The UID that the kubelet names cgroups by where that is another one: for a static Pod the hash of its file
    /// (annotation `kubernetes.io/config.hash`).
    pub config_hash: Option<String>,
    /// How far it is.
    pub phase: PodPhase,
    /// Its quality of service.
    pub qos: QosClass,
    /// It is being deleted (`metadata.deletionTimestamp` is set).
    pub deleting: bool,
    /// Its containers, init containers included, with the ids that the runtime gave them.
    pub containers: Vec<PodContainer>,
}

/// One container of a Pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodContainer {
    /// Its name.
    pub name: String,
    /// The runtime's id without the scheme: 64 hexadecimal digits; absent before it was created.
    pub id: Option<String>,
}

/// How far a Pod is (`status.phase`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum PodPhase {
    /// Not all of its containers were started yet.
    Pending,
    /// At least one container runs.
    Running,
    /// All containers ended well.
    Succeeded,
    /// All containers ended, at least one not well.
    Failed,
    /// Its node does not answer, or the API said something else.
    Unknown,
}

impl PodPhase {
    /// Whether it has ended for good.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// A Pod's quality of service (`status.qosClass`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum QosClass {
    /// Limits and requests are equal for CPU and memory of every container.
    Guaranteed,
    /// Some are given.
    Burstable,
    /// None are.
    BestEffort,
}
