//! What the kubelet says: which CPUs, memory and devices there are to give away, who has them, and by which settings it
//! decides (sources: its PodResources v1 service, its configuration).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::numa::CpuSet;
use crate::pod::{Pod, PodPhase};

/// What there is to give away, and what has been given away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAllocation {
    /// What may be given to Pods in all (`GetAllocatableResources`).
    pub allocatable: Allocatable,
    /// What each Pod has (`List`), by namespace and name.
    pub pods: Vec<PodAllocation>,
}

impl NodeAllocation {
    /// A Pod that runs, by the API's word, of which this knows nothing.
    ///
    /// The kubelet lists every Pod that it runs. After it was started anew it answers before the API server has told it of
    /// any, and lists none for a while, though they run on and keep what they have.
    pub fn forgets<'a>(&self, pods: &'a [Pod]) -> Option<&'a Pod> {
        let runs = |pod: &&Pod| pod.phase == PodPhase::Running && !pod.deleting;
        let is_listed = |pod: &Pod| {
            self.pods.iter().any(|listed| listed.name == pod.name && listed.namespace == pod.namespace)
        };
        pods.iter().filter(runs).find(|pod| !is_listed(pod))
    }
}

/// What the kubelet may give to Pods, what they have already included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocatable {
    /// Devices that their plugin calls healthy; each once, by resource and id.
    pub devices: Vec<KubeletDevice>,
    /// CPUs that can be given away exclusively; empty where the CPU manager's policy is `none`.
    pub cpus: CpuSet,
    /// Memory and huge pages; empty where the memory manager's policy is `None`.
    pub memory: Vec<MemoryBlock>,
}

/// One device of a device plugin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubeletDevice {
    /// The resource that it counts as, such as `nvidia.com/gpu`.
    pub resource: String,
    /// The plugin's name for it, such as a GPU's UUID.
    pub id: String,
    /// The kernel's numbers of the NUMA nodes that it belongs to, ascending; absent: its plugin told none. They are the
    /// plugin's word and may name nodes that are not there.
    pub numa_nodes: Option<Vec<i64>>,
}

/// Memory of one kind that lies on one NUMA node, or on several together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryBlock {
    /// `memory`, or `hugepages-` and a size, such as `hugepages-2Mi`.
    pub kind: String,
    /// How much, bytes.
    pub bytes: u64,
    /// The kernel's numbers of its NUMA nodes, ascending.
    pub numa_nodes: Vec<i64>,
}

/// What one Pod has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodAllocation {
    /// The Pod's namespace.
    pub namespace: String,
    /// The Pod's name. The kubelet does not tell the UID here.
    pub name: String,
    /// What each of its containers has.
    pub containers: Vec<ContainerAllocation>,
}

/// What one container has for itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerAllocation {
    /// The container's name.
    pub name: String,
    /// Devices of plugins; each once, by resource and id.
    pub devices: Vec<KubeletDevice>,
    /// CPUs that it has exclusively.
    pub cpus: CpuSet,
    /// Memory and huge pages that the memory manager keeps for it.
    pub memory: Vec<MemoryBlock>,
    /// Devices that it has by claims (dynamic resource allocation).
    pub claims: Vec<ClaimedDevice>,
}

/// One device that a container has by a ResourceClaim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimedDevice {
    /// The claim's namespace.
    pub claim_namespace: String,
    /// The claim's name.
    pub claim: String,
    /// The DRA driver, such as `gpu.nvidia.com`.
    pub driver: String,
    /// The driver's pool, usually the node's name.
    pub pool: String,
    /// The driver's name for the device, such as `gpu-0`.
    pub device: String,
    /// Which share of the device it is, where several may share it.
    pub share_id: Option<String>,
    /// Its names in CDI, such as `k8s.gpu.nvidia.com/device=…`.
    pub cdi_devices: Vec<String>,
}

/// The kubelet's settings that decide where Pods may lie.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubeletSettings {
    /// `none`, `best-effort`, `restricted` or `single-numa-node`.
    pub topology_manager_policy: String,
    /// `container` or `pod`.
    pub topology_manager_scope: String,
    /// Options of the topology manager by the kubelet's name, such as `max-allowable-numa-nodes`.
    pub topology_manager_options: BTreeMap<String, String>,
    /// `none` or `static`.
    pub cpu_manager_policy: String,
    /// Options of the CPU manager by the kubelet's name, such as `full-pcpus-only`.
    pub cpu_manager_options: BTreeMap<String, String>,
    /// `None`, `Static` or `BestEffort`.
    pub memory_manager_policy: String,
    /// CPUs that are kept from Pods by number (`reservedSystemCPUs`); absent: only a quantity is kept.
    pub reserved_cpus: Option<CpuSet>,
    /// CPU time that is kept from Pods (`kubeReserved` and `systemReserved` together), thousandths of a CPU.
    pub reserved_milli_cpus: u64,
    /// Memory kept from Pods on each NUMA node (`reservedMemory`): kernel's number, then kind, then bytes.
    pub reserved_memory: BTreeMap<i64, BTreeMap<String, u64>>,
    /// Memory kept from Pods on the whole node (`kubeReserved`, `systemReserved` and the hard eviction threshold
    /// together), bytes.
    pub reserved_memory_bytes: u64,
    /// `systemd` or `cgroupfs`, as configured; the container runtime may say otherwise.
    pub cgroup_driver: String,
    /// Where these settings were found, in words, such as `/var/lib/kubelet/config.yaml and 2 flags`.
    pub source: String,
}

/// What the kubelet was started with and its configuration as bytes, as found on the node.
///
/// This is what the kubelet would read if it were started now; what it did read may have changed since.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KubeletFiles {
    /// The kubelet's process.
    pub pid: u32,
    /// Its arguments, without the program's name.
    pub arguments: Vec<String>,
    /// The file that `--config` names.
    pub config: Option<KubeletFile>,
    /// The directory that `--config-dir` names.
    pub drop_in_directory: Option<String>,
    /// The files below that directory, in the order in which they apply.
    pub drop_ins: Vec<KubeletFile>,
    /// The kubeconfig that `--kubeconfig` names, by which the kubelet reaches the API server.
    pub kubeconfig: Option<String>,
}

/// One file of the kubelet's configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KubeletFile {
    /// Its path as the node names it.
    pub path: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}
