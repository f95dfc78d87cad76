//! What is done to a GPU, in words that outlive the driver's numbers.
//!
//! The driver recycles numbers and makes new UUIDs at each creation. An instance is known by its profile and its place, of
//! which there is never more than one at a time; so a step can be written down, taken up after a crash and undone.

use std::fmt;

use gpulet_inventory::mig::Placement;
use serde::{Deserialize, Serialize};

/// A GPU instance, by what stays the same when it is created anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InstanceAt {
    /// Id of its profile.
    pub profile: u32,
    /// Where it lies on the GPU.
    pub placement: Placement,
}

/// A compute instance within its GPU instance, by what stays the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ComputeAt {
    /// Id of its profile.
    pub profile: u32,
    /// Where it lies within the GPU instance.
    pub placement: Placement,
}

/// One thing that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Turns MIG mode on or off.
    SetMode(bool),
    /// Destroys a compute instance that no one uses.
    DestroyCompute {
        /// Within which GPU instance.
        within: InstanceAt,
        /// Which.
        compute: ComputeAt,
    },
    /// Destroys a GPU instance that has no compute instance any more.
    DestroyInstance(InstanceAt),
    /// Creates a GPU instance.
    CreateInstance(InstanceAt),
    /// Creates a compute instance.
    CreateCompute {
        /// Within which GPU instance.
        within: InstanceAt,
        /// Id of its profile.
        profile: u32,
        /// Where; absent, the driver chooses.
        placement: Option<Placement>,
    },
}

impl Step {
    /// Whether something that exists is gone afterwards, or may be: a change of mode can reset the GPU.
    pub fn is_destructive(&self) -> bool {
        matches!(self, Self::SetMode(_) | Self::DestroyCompute { .. } | Self::DestroyInstance(_))
    }
}

impl fmt::Display for InstanceAt {
    /// As `nvidia-smi mig -lgi` prints it: `9 at 4:4`, the profile's id, then first unit and number of units.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}:{}", self.profile, self.placement.start, self.placement.size)
    }
}
