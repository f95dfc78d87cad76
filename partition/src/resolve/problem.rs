//! Why a layout cannot be had on this node.

use std::fmt;

use gpulet_inventory::gpu::GpuUuid;
use serde::Serialize;

use crate::file::{Place, Target};
use crate::names::ProfileName;

/// Everything that is in the way, in the order of the file; never empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Problems(pub Vec<Problem>);

/// One thing that is in the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Problem {
    /// What asks for it; neither line nor path where it is the layout as a whole.
    pub place: Place,
    /// On which GPUs; none where it is not about single ones.
    pub gpus: Vec<GpuName>,
    /// What is in the way.
    #[serde(flatten)]
    pub cause: Cause,
}

/// What people call a GPU.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct GpuName {
    /// The driver's number.
    pub index: u32,
    /// Its identity.
    pub uuid: GpuUuid,
}

/// What is in the way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case", tag = "reason")]
pub enum Cause {
    /// There is no GPU, or no driver that tells of one.
    #[error("the driver tells of no GPU on this node; see whether `nvidia-smi -L` lists any")]
    NoGpus,
    /// The file has no layout of this name.
    #[error("there is no layout `{name}`; there are: {}", told(known))]
    UnknownLayout {
        /// The name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// It leaves out every GPU of this node.
    #[error("the layout names none of the GPUs of this node, which are {here}; add an entry for them")]
    NotForThisNode {
        /// The models that are here.
        here: String,
    },
    /// There is no such GPU.
    #[error("there is no GPU {target} on this node; there are {known}")]
    UnknownGpu {
        /// As it was named.
        target: Target,
        /// Those that there are, by index or as it was named.
        known: String,
    },
    /// Another entry tells of the same GPU.
    #[error("the entry at {other} is for the same GPU; leave it out of one of them")]
    Overlap {
        /// Where the other is.
        other: Place,
    },
    /// The GPU has no MIG mode.
    #[error("it has no MIG mode; leave it out, or write `mig-enabled: false`")]
    NotMigCapable,
    /// The driver tells no profiles.
    #[error(
        "the driver tells no profiles of it; R535 and older do so in MIG mode only: turn that on first with a layout \
         of `mig-enabled: true` and `mig-devices: {{}}`"
    )]
    NoProfiles,
    /// It has no such profile, nor one near it.
    #[error("it has no profile {asked}; it has {}{}", told(known), hint.map(|hint| format!(" ({hint})")).unwrap_or_default())]
    UnknownProfile {
        /// The name.
        asked: ProfileName,
        /// Those that there are.
        known: Vec<String>,
        /// Since when the driver has it, where it is too old to.
        #[serde(skip_serializing_if = "Option::is_none")]
        hint: Option<&'static str>,
    },
    /// It may mean several.
    #[error("{asked} may mean several of its profiles: {}; write the name of one", told(candidates))]
    AmbiguousProfile {
        /// The name.
        asked: ProfileName,
        /// What it may mean.
        candidates: Vec<String>,
    },
    /// Two names mean the same.
    #[error("{asked} and {other} mean the same profile here, {profile}; write it once")]
    SameProfile {
        /// One name.
        asked: ProfileName,
        /// The other.
        other: ProfileName,
        /// What they mean.
        profile: String,
    },
    /// Its GPU instances cannot be divided so.
    #[error("its GPU instances {instance} have no compute instances of that size; they have {}", told(known))]
    UnknownComputeProfile {
        /// The GPU instance profile.
        instance: String,
        /// The compute instances that there are.
        known: Vec<String>,
    },
    /// More of one profile are wanted than fit.
    #[error("{wanted} {profile} are more than the {most} that fit; ask for fewer")]
    TooMany {
        /// The profile.
        profile: String,
        /// How many are wanted.
        wanted: u32,
        /// How many fit.
        most: u32,
    },
    /// It does not fit together.
    #[error("{wanted} do not fit together; what fits of it is {fits}")]
    Infeasible {
        /// What is wanted.
        wanted: String,
        /// As much of it as fits, the largest first.
        fits: String,
    },
    /// Only one instance can have the media extensions.
    #[error(
        "of {wanted} only one can be had: a GPU's media extensions are had once, and with `.all` by no other at all"
    )]
    MediaExtensions {
        /// What is wanted with them.
        wanted: String,
    },
    /// The driver is too old for it.
    #[error("driver {driver} cannot do it; {needs}")]
    DriverTooOld {
        /// The driver's version.
        driver: String,
        /// What it takes.
        needs: &'static str,
    },
}

impl Cause {
    /// The stable word for it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoGpus => "NoGpus",
            Self::UnknownLayout { .. } => "UnknownLayout",
            Self::NotForThisNode { .. } => "NotForThisNode",
            Self::UnknownGpu { .. } => "UnknownGpu",
            Self::Overlap { .. } => "Overlap",
            Self::NotMigCapable => "NotMigCapable",
            Self::NoProfiles => "NoProfiles",
            Self::UnknownProfile { .. } => "UnknownProfile",
            Self::AmbiguousProfile { .. } => "AmbiguousProfile",
            Self::SameProfile { .. } => "SameProfile",
            Self::UnknownComputeProfile { .. } => "UnknownComputeProfile",
            Self::TooMany { .. } => "TooMany",
            Self::Infeasible { .. } => "Infeasible",
            Self::MediaExtensions { .. } => "MediaExtensions",
            Self::DriverTooOld { .. } => "DriverTooOld",
        }
    }

    /// Whether what is asked is clear, and this hardware or driver does not have it; else what is asked is wrong.
    pub fn is_infeasible(&self) -> bool {
        match self {
            Self::NoGpus
            | Self::NotForThisNode { .. }
            | Self::NotMigCapable
            | Self::NoProfiles
            | Self::UnknownProfile { .. }
            | Self::UnknownComputeProfile { .. }
            | Self::TooMany { .. }
            | Self::Infeasible { .. }
            | Self::MediaExtensions { .. }
            | Self::DriverTooOld { .. } => true,
            Self::UnknownLayout { .. }
            | Self::UnknownGpu { .. }
            | Self::Overlap { .. }
            | Self::AmbiguousProfile { .. }
            | Self::SameProfile { .. } => false,
        }
    }
}

impl Problems {
    /// The stable word for the first of them.
    pub fn reason(&self) -> &'static str {
        self.0.first().map_or("Unresolved", |problem| problem.cause.reason())
    }

    /// Whether all that is asked is clear, and this hardware or driver does not have it; else something that is asked is wrong.
    pub fn is_infeasible(&self) -> bool {
        self.0.iter().all(|problem| problem.cause.is_infeasible())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.path.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        match self.gpus.as_slice() {
            [] => {}
            gpus => write!(f, "{}: ", indices(gpus))?,
        }
        write!(f, "{}", self.cause)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if at == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

impl fmt::Display for GpuName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GPU {} ({})", self.index, self.uuid)
    }
}

/// `GPU 0 (GPU-…)`, or `GPUs 0, 1, 2` where there are several.
pub(super) fn indices(gpus: &[GpuName]) -> String {
    match gpus {
        [one] => one.to_string(),
        several => {
            let all: Vec<String> = several.iter().map(|gpu| gpu.index.to_string()).collect();
            format!("GPUs {}", all.join(", "))
        }
    }
}

/// How many names are told; a file can have thousands.
const TOLD: usize = 40;

/// A name from a file may hold what a terminal obeys: that is not passed on.
fn told(names: &[String]) -> String {
    let harmless = |letter: char| if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter };
    let more = names.len().saturating_sub(TOLD);
    let shortened =
        names.iter().take(TOLD).map(|name| name.chars().take(64).map(harmless).collect::<String>());
    let all = shortened.collect::<Vec<_>>().join(", ");
    match (all.is_empty(), more) {
        (true, _) => "none".to_owned(),
        (false, 0) => all,
        (false, more) => format!("{all} and {more} more"),
    }
}
