//! What is done to a GPU, in words that outlive the driver's numbers.
//!
//! The driver recycles numbers and makes new UUIDs at each creation. An instance is known by its profile and its place, of
//! which there is never more than one at a time; so a step can be written down, taken up after a crash and undone.

use gpulet_inventory::mig::Placement;
use serde::{Deserialize, Serialize};

use crate::observed::GpuDivision;

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

    /// The step in words, with the names that this GPU's profiles have.
    pub fn told(&self, division: &GpuDivision) -> String {
        let instance = |at: &InstanceAt| told(&division.profile_name(at.profile), Some(at.placement));
        let compute = |within: &InstanceAt, profile: u32, placement: Option<Placement>| {
            let offered = division.profile(within.profile).map(|offered| offered.compute_profiles.as_slice());
            let own = offered.unwrap_or_default().iter().find(|own| own.id == profile);
            let name = own.map_or_else(|| format!("profile {profile}"), |own| own.name.clone());
            format!("{} in {}", told(&name, placement), instance(within))
        };
        match self {
            Self::SetMode(true) => "turn MIG mode on".to_owned(),
            Self::SetMode(false) => "turn MIG mode off".to_owned(),
            Self::DestroyInstance(at) => format!("destroy GPU instance {}", instance(at)),
            Self::CreateInstance(at) => format!("create GPU instance {}", instance(at)),
            Self::DestroyCompute { within, compute: at } => {
                format!("destroy compute instance {}", compute(within, at.profile, Some(at.placement)))
            }
            Self::CreateCompute { within, profile, placement } => {
                format!("create compute instance {}", compute(within, *profile, *placement))
            }
        }
    }
}

/// A name and a place: first unit and number of units, as `nvidia-smi mig -lgi` prints them.
fn told(name: &str, placement: Option<Placement>) -> String {
    match placement {
        Some(Placement { start, size }) => format!("{name} at {start}:{size}"),
        None => name.to_owned(),
    }
}
