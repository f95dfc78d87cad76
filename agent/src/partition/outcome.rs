//! How a change of the node ended.

use std::fmt;

use gpulet_inventory::gpu::GpuUuid;
use gpulet_partition::apply::{Failure, Outcome};
use gpulet_partition::layout::Need;
use gpulet_partition::refusal::Refusal;
use serde::Serialize;

/// How a change of the node ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct NodeOutcome {
    /// Each GPU of the plan, in its order; then those that could not be looked at.
    pub(crate) gpus: Vec<GpuOutcome>,
}

/// How a change of one GPU ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct GpuOutcome {
    /// Which; absent where it does not even tell its UUID.
    pub(crate) gpu: Option<GpuUuid>,
    /// How.
    pub(crate) end: End,
}

/// How a change of one GPU ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum End {
    /// Nothing is asked for: it was left as it is.
    LeftAlone,
    /// It was as wanted: no call was made that changes it.
    AsWanted,
    /// It was not begun, for this reason.
    Refused(Refusal),
    /// It could not be looked at, or not be begun.
    NotBegun(Failure),
    /// It was begun, and ended so.
    Ended(Outcome),
}

/// What a crash had cut off, and how it ended now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Recovered {
    /// Which GPU; absent where not even that can be told.
    pub(crate) gpu: Option<GpuUuid>,
    /// How.
    pub(crate) end: End,
}

impl Recovered {
    /// Whether nothing is left of it to go on with.
    pub(crate) fn is_ended(&self) -> bool {
        matches!(&self.end, End::Ended(ended) if !ended.leaves_journal())
    }
}

impl NodeOutcome {
    /// Whether every GPU of which something is wanted is as wanted, read again from the driver.
    pub(crate) fn is_success(&self) -> bool {
        self.gpus.iter().all(|gpu| gpu.end.is_success())
    }
}

impl End {
    /// Whether the GPU is as wanted.
    pub(crate) fn is_success(&self) -> bool {
        matches!(self, Self::LeftAlone | Self::AsWanted | Self::Ended(Outcome::Reached))
    }

    /// Whether it can be done once someone stops using something.
    pub(crate) fn is_blocked(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.is_blocked(),
            Self::Ended(Outcome::RolledBack { cause: Some((_, failure)) }) | Self::NotBegun(failure) => {
                failure.reason == "InUse"
            }
            Self::LeftAlone | Self::AsWanted | Self::Ended(_) => false,
        }
    }

    /// Whether it waits for a reboot, or was taken back because a reset was not to be had and a reboot will not be asked for.
    pub(crate) fn takes_reboot(&self) -> bool {
        matches!(
            self,
            Self::Ended(
                Outcome::RebootRequired { .. } | Outcome::RolledBack { cause: Some((Need::Reset, _)) }
            )
        )
    }

    /// Whether it can never be done on this hardware.
    pub(crate) fn is_infeasible(&self) -> bool {
        matches!(self, Self::Refused(refusal) if !refusal.is_blocked())
    }

    /// The stable word.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::LeftAlone => "LeftAlone",
            Self::AsWanted => "AsWanted",
            Self::Refused(refusal) => refusal.reason(),
            Self::NotBegun(failure) => &failure.reason,
            Self::Ended(outcome) => outcome.reason(),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeftAlone => f.write_str("left as it is: nothing is asked of it"),
            Self::AsWanted => f.write_str("as wanted already; nothing was changed"),
            Self::Refused(refusal) => write!(f, "{refusal}"),
            Self::NotBegun(failure) => write!(f, "{failure}"),
            Self::Ended(outcome) => write!(f, "{}", Told(outcome)),
        }
    }
}

struct Told<'a>(&'a Outcome);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Outcome::Reached => f.write_str("changed; read again, it is as wanted"),
            Outcome::RolledBack { cause: None } => {
                f.write_str("rolled back; read again, it is as it was before")
            }
            Outcome::RolledBack { cause: Some((_, failure)) } => {
                write!(f, "rolled back; read again, it is as it was before: {failure}")
            }
            Outcome::Overtaken => {
                f.write_str("someone else changes this GPU; it was left as it is and has to be planned anew")
            }
            Outcome::RebootRequired { failure } => write!(f, "waits for a reboot: {failure}"),
            Outcome::Stuck { cause, need, failure, .. } => {
                // Where that was next, one of the two layouts is there.
                let what = match (need, cause) {
                    (Need::Persistence(true), None) => "in place, but with persistence mode off",
                    (Need::Persistence(true), Some(_)) => "rolled back, but with persistence mode off",
                    _ => "neither changed nor put back",
                };
                write!(f, "{what}: {failure}; the journal stays, and the next start tries again")?;
                match cause {
                    Some((_, cause)) => write!(f, "; it went back because {cause}"),
                    None => Ok(()),
                }
            }
            Outcome::Unreadable { failure, changed: false } => {
                write!(f, "cannot be read, and nothing was changed: {failure}")
            }
            Outcome::Unreadable { failure, changed: true } => write!(
                f,
                "cannot be read, and may have been changed: {failure}; the journal stays, and the next start goes on from it"
            ),
        }
    }
}
