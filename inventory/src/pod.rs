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
    /// What makes it anew, or keeps it where it is.
    pub keeper: Keeper,
    /// Labels `nvidia.com/gpu.deploy.…` of a node that its node selector asks for: without them it has to go.
    pub deployed_by: Vec<String>,
    /// What it does with the node's GPUs, where its labels tell.
    pub role: Option<Role>,
    /// Its containers, init containers included, with the ids that the runtime gave them.
    pub containers: Vec<PodContainer>,
}

/// What makes a Pod anew, or keeps it where it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Keeper {
    /// A file on the node: the kubelet runs it, whatever the API says (annotation `kubernetes.io/config.mirror`).
    File,
    /// A DaemonSet, which makes it anew on the same node.
    DaemonSet,
    /// Another controller, or nobody.
    #[default]
    Other,
}

/// What a Pod does with the GPUs of its node, by the labels that its maker ships it with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Role {
    /// NVIDIA's device plugin.
    DevicePlugin,
    /// NVIDIA's mig-manager (`app=nvidia-mig-manager`).
    MigManager,
    /// The kubelet plugin of NVIDIA's DRA driver with the feature gate `DynamicMIG`.
    DynamicMig,
    /// HAMi's device plugin, which divides GPUs itself where the node is in its mode `mig`.
    Hami,
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
