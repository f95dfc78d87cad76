//! Why there is no way from what there is to what is wanted.

use std::fmt;

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::mig::GpuInstanceId;
use serde::Serialize;

use crate::observed::Holder;
use crate::step::InstanceAt;

/// Why a GPU is not changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case", tag = "reason")]
pub enum Refusal {
    /// There is no such GPU on the node, or it does not answer.
    #[error("{gpu} is not on this node, or does not answer; name a GPU that `nvidia-smi -L` lists")]
    NoSuchGpu {
        /// Which.
        gpu: GpuUuid,
    },
    /// The GPU has no MIG mode.
    #[error("{gpu} cannot be divided: it has no MIG mode; leave it out, or say `mig-enabled: false`")]
    NotMigCapable {
        /// Which.
        gpu: GpuUuid,
    },
    /// The driver tells no profiles.
    #[error("the driver tells no profiles of {gpu}; R535 and older do so in MIG mode only: turn it on first")]
    NoProfiles {
        /// Which.
        gpu: GpuUuid,
    },
    /// The GPU does not have this profile.
    #[error("{gpu} has no GPU instance profile {profile}; it has {known}")]
    UnknownProfile {
        /// Which GPU.
        gpu: GpuUuid,
        /// The id.
        profile: u32,
        /// The profiles that there are, for people.
        known: String,
    },
    /// The GPU instance profile does not have this compute instance profile.
    #[error("GPU instances {name} of {gpu} have no compute instance profile {profile}; they have {known}")]
    UnknownComputeProfile {
        /// Which GPU.
        gpu: GpuUuid,
        /// Within which GPU instance profile.
        name: String,
        /// The id.
        profile: u32,
        /// The profiles that there are, for people.
        known: String,
    },
    /// More of one profile are wanted than fit.
    #[error("{wanted} {name} are wanted on {gpu}, which has room for {most}; ask for fewer")]
    TooMany {
        /// Which GPU.
        gpu: GpuUuid,
        /// Which profile.
        name: String,
        /// How many are wanted.
        wanted: u32,
        /// How many there can be.
        most: u32,
    },
    /// What is wanted does not fit together, on an empty GPU neither.
    #[error(
        "{wanted} do not fit on {gpu} together, not even while it is empty; ask for fewer or smaller ones"
    )]
    Infeasible {
        /// Which GPU.
        gpu: GpuUuid,
        /// What is wanted, for people.
        wanted: String,
    },
    /// The compute instances do not fit into the GPU instance together.
    #[error(
        "compute instances {wanted} do not fit into {name} of {gpu} together; ask for fewer or smaller ones"
    )]
    ComputesInfeasible {
        /// Which GPU.
        gpu: GpuUuid,
        /// Into which GPU instance profile.
        name: String,
        /// What is wanted, for people.
        wanted: String,
    },
    /// It would fit if what is in use were not. No smaller set of instances is in the way.
    #[error("{gpu} cannot be changed while it is in use: {}", list(instances, holders))]
    Blocked {
        /// Which GPU.
        gpu: GpuUuid,
        /// The instances that would have to go, or a part of which would.
        instances: Vec<InTheWay>,
        /// Who else uses the GPU, where its mode is to change.
        holders: Vec<Holder>,
    },
}

/// An instance in use that is in the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InTheWay {
    /// The driver's number.
    pub id: GpuInstanceId,
    /// What and where it is.
    #[serde(flatten)]
    pub at: InstanceAt,
    /// The name of its profile.
    pub name: String,
    /// Who uses it.
    pub holders: Vec<Holder>,
}

impl Refusal {
    /// The stable word for this refusal.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoSuchGpu { .. } => "NoSuchGpu",
            Self::NotMigCapable { .. } => "NotMigCapable",
            Self::NoProfiles { .. } => "NoProfiles",
            Self::UnknownProfile { .. } => "UnknownProfile",
            Self::UnknownComputeProfile { .. } => "UnknownComputeProfile",
            Self::TooMany { .. } => "TooMany",
            Self::Infeasible { .. } => "Infeasible",
            Self::ComputesInfeasible { .. } => "ComputesInfeasible",
            Self::Blocked { .. } => "Blocked",
        }
    }

    /// Whether it can be done once someone stops using something; else it can never be done on this hardware.
    pub fn is_blocked(&self) -> bool {
        matches!(self, Self::Blocked { .. })
    }
}

impl fmt::Display for InTheWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, place) = (self.id.0, self.at.placement);
        let holders = listed(self.holders.iter());
        write!(f, "GPU instance {id} ({} at {}:{}) by {holders}", self.name, place.start, place.size)
    }
}

fn list(instances: &[InTheWay], holders: &[Holder]) -> String {
    let instances = listed(instances.iter());
    match (instances.is_empty(), holders.is_empty()) {
        (_, true) => instances,
        (true, false) => format!("by {}", listed(holders.iter())),
        (false, false) => format!("{instances}, and the whole of it by {}", listed(holders.iter())),
    }
}

/// These, with commas between them.
pub(crate) fn listed<T: fmt::Display>(of: impl Iterator<Item = T>) -> String {
    of.map(|one| one.to_string()).collect::<Vec<_>>().join(", ")
}
