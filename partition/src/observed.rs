//! What an edge reports of a GPU: what it can be divided into, what it is divided into, and who uses it.

use std::fmt;

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId, MigMode, Placement};
use serde::{Deserialize, Serialize};

/// One GPU, read fresh from the driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuDivision {
    /// Which.
    pub gpu: GpuUuid,
    /// MIG mode; absent where the GPU has none (source: `nvmlDeviceGetMigMode`, NOT_SUPPORTED).
    pub mode: Option<MigMode>,
    /// GPU instance profiles on offer, in the driver's order; none where the driver tells them in MIG mode only.
    pub profiles: Vec<Profile>,
    /// GPU instances that exist, those without compute instances included.
    pub instances: Vec<Instance>,
    /// Who uses the GPU without using one of its instances. They stand in the way of a change of mode, and of nothing else:
    /// whoever may use an instance, though it is not known which, belongs to each instance that it may use.
    pub holders: Vec<Holder>,
}

impl GpuDivision {
    /// The profile with this id.
    pub fn profile(&self, id: u32) -> Option<&Profile> {
        self.profiles.iter().find(|profile| profile.id == id)
    }

    /// What people call the profile with this id.
    pub fn profile_name(&self, id: u32) -> String {
        self.profile(id).map_or_else(|| format!("profile {id}"), |profile| profile.name.clone())
    }
}

/// A GPU instance profile on offer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// The driver's id, as `nvidia-smi mig -lgip` prints it. Not comparable between models.
    pub id: u32,
    /// Its name, such as `1g.10gb+me`.
    pub name: String,
    /// Compute slices.
    pub slices: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// How many fit on an empty GPU.
    pub max_instances: u32,
    /// Every place where one can lie on an empty GPU, in units of the GPU's memory.
    pub placements: Vec<Placement>,
    /// Engines that one has for itself.
    pub engines: Engines,
    /// What one can be divided into.
    pub compute_profiles: Vec<ComputeProfile>,
}

/// Engines that an instance has for itself.
///
/// Copy engines are left out: instances share them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Engines {
    /// Video decoders.
    pub decoders: u32,
    /// Video encoders.
    pub encoders: u32,
    /// JPEG decoders.
    pub jpeg: u32,
    /// Optical flow engines.
    pub optical_flow: u32,
}

/// A compute instance profile on offer within a GPU instance profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComputeProfile {
    /// The driver's id, as `nvidia-smi mig -lcip` prints it.
    pub id: u32,
    /// Its name, such as `1c.3g.40gb`.
    pub name: String,
    /// Compute slices.
    pub slices: u32,
    /// How many fit in an empty GPU instance.
    pub max_instances: u32,
    /// Every place where one can lie in an empty GPU instance, in compute slices. The driver tells them of GPU instances
    /// that exist; absent, it chooses the place itself.
    pub placements: Option<Vec<Placement>>,
}

/// A GPU instance that exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// The driver's number, which is recycled.
    pub id: GpuInstanceId,
    /// Id of its profile.
    pub profile: u32,
    /// Where it lies.
    pub placement: Placement,
    /// Its compute instances; without any it is an orphan.
    pub computes: Vec<Compute>,
    /// Who uses it, where it is not known which of its compute instances.
    pub holders: Vec<Holder>,
}

impl Instance {
    /// Whether anyone uses it.
    pub fn is_busy(&self) -> bool {
        self.all_holders().next().is_some()
    }

    /// Everyone who uses it or one of its compute instances.
    pub fn all_holders(&self) -> impl Iterator<Item = &Holder> {
        self.holders.iter().chain(self.computes.iter().flat_map(|compute| &compute.holders))
    }
}

/// A compute instance that exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compute {
    /// The driver's number within its GPU instance, which is recycled.
    pub id: ComputeInstanceId,
    /// Id of its profile.
    pub profile: u32,
    /// Where it lies within the GPU instance, in compute slices.
    pub placement: Placement,
    /// Who uses it.
    pub holders: Vec<Holder>,
}

/// Someone who uses a GPU or an instance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Holder {
    /// A process, as the host numbers it.
    Process {
        /// Its number.
        pid: u32,
        /// The name of its program, where it is known.
        program: Option<String>,
        /// The Pod that it belongs to.
        pod: Option<PodName>,
    },
    /// A Pod that was given the device, though no process of it is seen.
    Pod(PodName),
    /// A module of the kernel, which keeps a GPU from being reset.
    Module {
        /// Its name.
        name: String,
        /// What it does with the GPU and how it lets go of it, for people.
        why: String,
    },
    /// Anyone may: it cannot be known.
    Unknown {
        /// Why not, for people.
        why: String,
    },
}

impl Holder {
    /// The Pod behind it.
    pub fn pod(&self) -> Option<&PodName> {
        match self {
            Self::Process { pod, .. } => pod.as_ref(),
            Self::Pod(pod) => Some(pod),
            Self::Module { .. } | Self::Unknown { .. } => None,
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(pod) => write!(f, "Pod {pod}"),
            Self::Module { name, why } => write!(f, "kernel module {name} ({why})"),
            Self::Unknown { why } => write!(f, "someone who cannot be told ({why})"),
            Self::Process { pid, program, pod } => {
                write!(f, "process {pid}")?;
                program.iter().try_for_each(|program| write!(f, " ({program})"))?;
                pod.iter().try_for_each(|pod| write!(f, " of Pod {pod}"))
            }
        }
    }
}

/// What a Pod is called.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PodName {
    /// Its namespace.
    pub namespace: String,
    /// Its name in it.
    pub name: String,
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
