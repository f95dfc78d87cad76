//! Who holds what: GPUs and MIG instances, the processes on them, the Pods that these belong to, and what the kubelet gave
//! to whom.
//!
//! - `device`: the many names of one device; `resolve`: from a name to the device that is there now
//! - `cgroup`: from the text of `/proc/PID/cgroup` to a Pod, a container or a unit of the host
//! - `join`: all of it, once per tick
//!
//! It is decided here once, so that metrics, zones and limits cannot disagree.

mod cgroup;
mod device;
mod join;
mod resolve;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::gpu::GpuUuid;
use crate::mig::{ComputeInstanceId, GpuInstanceId};
use crate::process::ProcessKind;

pub use cgroup::{CgroupOwner, PodGroup};
pub use device::{DeviceForm, DeviceName, ParseDeviceNameError};
pub use join::{Inputs, join};
pub use resolve::{MAX_UNKNOWN, Resolved, Resolver};

/// A GPU, or a part of one that can be given away.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DeviceId {
    /// The GPU.
    pub gpu: GpuUuid,
    /// Its part; absent for the whole GPU.
    pub instance: Option<Instance>,
}

/// A MIG instance of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Instance {
    /// The GPU instance.
    pub gpu: GpuInstanceId,
    /// The compute instance in it; absent for all of it.
    pub compute: Option<ComputeInstanceId>,
}

/// What the kernel says of the processes that hold a GPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processes {
    /// By process id, as the host counts them.
    pub known: BTreeMap<u32, ProcessOrigin>,
    /// How many were gone, or were other ones, when they were looked at.
    pub vanished: u64,
}

/// One process, as it was found (source: `/proc/PID/stat` and `/proc/PID/cgroup`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessOrigin {
    /// When it started, clock ticks since boot. Process ids are used again; with this they are unique.
    pub start_ticks: u64,
    /// What it belongs to.
    pub owner: CgroupOwner,
}

/// Who holds what at one instant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Holders {
    /// Devices that a process holds or that the kubelet gave away; GPUs in the driver's order, whole ones first.
    pub devices: Vec<HeldDevice>,
    /// What the kubelet says it gave and what is no device of this node now, in its order.
    pub unknown: Vec<UnknownDevice>,
    /// Processes that the driver lists and that the kernel no longer has; they count as held by [`Owner::Unknown`].
    pub vanished: u64,
}

/// One device and who has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldDevice {
    /// Which.
    pub id: DeviceId,
    /// Every process that the driver lists on it, in its order.
    pub processes: Vec<HoldingProcess>,
    /// Whose these processes are, each owner once, ascending.
    pub owners: Vec<Owner>,
    /// To whom the kubelet gave it, in its order; several where it is shared.
    pub allocated: Vec<Allocated>,
}

/// One process on one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HoldingProcess {
    /// Process id.
    pub pid: u32,
    /// When it started, clock ticks since boot; absent for one that has vanished.
    pub start_ticks: Option<u64>,
    /// What it does there.
    pub kind: ProcessKind,
    /// GPU memory that it holds, bytes; absent where the driver does not know.
    pub memory_bytes: Option<u64>,
    /// Whose it is.
    pub owner: Owner,
}

/// Whose a process is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Owner {
    /// A Pod's.
    Pod(PodOwner),
    /// A service, a session or another group of the host.
    Host(HostUnit),
    /// It was gone when it was looked at, or its files could not be read.
    Unknown,
}

impl Owner {
    /// The word for labels: `pod`, `host:` and the unit, or `unknown`.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Pod(_) => "pod",
            Self::Host(unit) => unit.label(),
            Self::Unknown => "unknown",
        }
    }

    /// The Pod, if it is one's.
    pub fn pod(&self) -> Option<&PodOwner> {
        match self {
            Self::Pod(pod) => Some(pod),
            Self::Host(_) | Self::Unknown => None,
        }
    }
}

/// A Pod, and one of its containers, as the owner of a process.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct PodOwner {
    /// The Pod's UID in the API; for a Pod that the API does not know the one in its cgroup's name.
    pub uid: String,
    /// The Pod's namespace; absent where the API does not know the Pod, or is not asked.
    pub namespace: Option<String>,
    /// The Pod's name; absent as the namespace.
    pub name: Option<String>,
    /// The container's name; absent where it cannot be told: a Pod that is not known, or a sandbox that is one process
    /// for all containers.
    pub container: Option<String>,
}

/// A group of processes of the host: `host:` and the unit, such as `host:nvidia-persistenced.service`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostUnit(Box<str>);

impl HostUnit {
    const PREFIX: &str = "host:";

    /// The unit of this name.
    pub fn new(unit: &str) -> Self {
        Self([Self::PREFIX, unit].concat().into())
    }

    /// The word for labels, prefix included.
    pub fn label(&self) -> &str {
        &self.0
    }

    /// The unit's name alone.
    pub fn unit(&self) -> &str {
        self.0.strip_prefix(Self::PREFIX).unwrap_or(&self.0)
    }
}

/// One container that the kubelet gave a device.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Allocated {
    /// The Pod's namespace.
    pub namespace: String,
    /// The Pod's name.
    pub pod: String,
    /// The container's name.
    pub container: String,
    /// The resource that it counts as, such as `nvidia.com/gpu`; for a claimed device the driver, `gpu.nvidia.com`.
    pub resource: String,
    /// The name that the kubelet has for the device.
    pub name: String,
    /// Which share of the device it is, where several may share it.
    pub replica: Option<u32>,
}

/// What the kubelet gave and what is no device of this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnknownDevice {
    /// To whom, and as what.
    pub allocated: Allocated,
    /// It has not been told before, as long as the GPUs and instances are those that they are.
    pub is_news: bool,
}
