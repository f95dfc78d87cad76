//! MIG: how a GPU is divided.

use serde::{Deserialize, Serialize};

use crate::reading::Reading;

/// The driver's number of a GPU instance; recycled after the instance is destroyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GpuInstanceId(pub u32);

/// The driver's number of a compute instance within its GPU instance; recycled too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ComputeInstanceId(pub u32);

/// MIG mode now and after the next reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigMode {
    /// Whether the GPU is in MIG mode.
    pub current: bool,
    /// Whether it will be after a reset.
    pub pending: bool,
}

/// Where an instance lies, in memory slices as the GPU counts them (8 on most, 12 on some).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Placement {
    /// First slice.
    pub start: u32,
    /// Number of slices.
    pub size: u32,
}

/// A GPU instance profile as one GPU offers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigProfile {
    /// The driver's profile id on this GPU, as `nvidia-smi mig -lgip` prints it. Not comparable between models.
    pub id: u32,
    /// The driver's name without its `MIG ` prefix, such as `1g.10gb+me`; absent before the driver that names them.
    pub name: Option<String>,
    /// Compute slices.
    pub slices: u32,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// How many fit on an empty GPU.
    pub max_instances: u32,
    /// Every place where one can lie on an empty GPU.
    pub placements: Reading<Vec<Placement>>,
}

/// A GPU instance that exists now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuInstance {
    /// The driver's number.
    pub id: GpuInstanceId,
    /// Its profile on this GPU.
    pub profile_id: u32,
    /// Where it lies.
    pub placement: Placement,
    /// Its compute instances; none makes it an orphan that no one can use.
    pub compute_instances: Vec<ComputeInstance>,
}

/// A compute instance that exists now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComputeInstance {
    /// The driver's number.
    pub id: ComputeInstanceId,
    /// Its compute instance profile.
    pub profile_id: u32,
    /// UUID of the MIG device; it dies with the instance.
    pub uuid: Option<String>,
}

/// A GPU's division as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigState {
    /// Now and after the next reset.
    pub mode: MigMode,
    /// Profiles on offer.
    pub profiles: Reading<Vec<MigProfile>>,
    /// Instances that exist.
    pub instances: Reading<Vec<GpuInstance>>,
}
