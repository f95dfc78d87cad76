//! What the machine hears and says.

use std::fmt;

use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId};
use serde::Serialize;

use crate::journal::Journal;
use crate::layout::Need;
use crate::observed::GpuDivision;
use crate::step::{InstanceAt, Step};

/// What is to be done at the edges. Each is answered by one event, within a deadline of the edge: a call that does not return
/// is a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Reads the GPU fresh from the driver, who uses it, and its persistence mode: answered by [`Event::Read`].
    Read,
    /// Writes the journal so that it survives a power loss, in place of the one before: answered by [`Event::Journalled`].
    Journal(Journal),
    /// Removes the journal: answered by [`Event::Journalled`].
    ClearJournal,
    /// Changes the GPU: answered by [`Event::Changed`].
    Change(Change),
}

/// One change, with the driver's numbers of now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// What.
    pub need: Need,
    /// The GPU instance that it is about; absent where there is none yet, or it is about the GPU.
    pub instance: Option<GpuInstanceId>,
    /// The compute instance in it that is destroyed.
    pub compute: Option<ComputeInstanceId>,
}

impl Change {
    pub(super) fn of(need: Need, division: &GpuDivision) -> Self {
        let Need::Step(step) = need else { return Self { need, instance: None, compute: None } };
        let find = |at: InstanceAt| division.instances.iter().find(move |instance| instance.at() == at);
        let (instance, compute) = match step {
            Step::SetMode(_) | Step::CreateInstance(_) => (None, None),
            Step::DestroyInstance(at) => (find(at), None),
            Step::CreateCompute { within, .. } => (find(within), None),
            Step::DestroyCompute { within, compute } => {
                let instance = find(within);
                let computes = instance.map(|instance| instance.computes.as_slice()).unwrap_or_default();
                (instance, computes.iter().find(|there| there.at() == compute))
            }
        };
        Self {
            need,
            instance: instance.map(|instance| instance.id),
            compute: compute.map(|compute| compute.id),
        }
    }
}

/// A GPU, read fresh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// How it is divided, and who uses it.
    pub division: GpuDivision,
    /// Whether persistence mode is on; absent where the GPU has none.
    pub persistence: Option<bool>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It begins, or the time that was asked for has come.
    Woken,
    /// The GPU as it is now, or why it cannot be read.
    Read(Result<Seen, Failure>),
    /// The journal is as it was to be, or why not.
    Journalled(Result<(), Failure>),
    /// The change was made, as the driver says, or why not.
    Changed(Result<(), Failure>),
}

/// Why something could not be done, as an edge tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The stable word.
    pub reason: String,
    /// For people: what, where and the remedy.
    pub message: String,
}

impl Failure {
    pub(super) fn without_effect() -> Self {
        let message =
            "the driver reported success, and the GPU is as before; look into the kernel log for Xid errors";
        Self { reason: "NoEffect".to_owned(), message: message.to_owned() }
    }

    pub(super) fn in_use(holders: &str) -> Self {
        let message = format!("it came into use by {holders}; stop that, or let the change wait for it");
        Self { reason: "InUse".to_owned(), message }
    }

    pub(super) fn reset_not_permitted() -> Self {
        let message =
            "the change of mode waits for a reset of the GPU, which is not permitted; permit it, or reboot";
        Self { reason: "ResetRequired".to_owned(), message: message.to_owned() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The GPU, read again, is as wanted.
    Reached,
    /// The GPU, read again, is as it was before.
    RolledBack {
        /// What could not be done, and why; absent where it was before a crash.
        cause: Option<(Need, Failure)>,
    },
    /// Someone else has changed the GPU; it is left as it is, and has to be planned anew.
    Overtaken,
    /// The change of mode waits for a reboot. The journal stays.
    RebootRequired {
        /// Why a reset will not do.
        failure: Failure,
    },
    /// Neither the wanted layout could be made nor the former be put back; or one of them is there, and persistence mode could not be turned on again. The journal stays, and the next start tries again.
    Stuck {
        /// Why it went back.
        cause: Option<(Need, Failure)>,
        /// What could not be done in the end.
        need: Need,
        /// Why.
        failure: Failure,
        /// GPU instances of the layout that was being made, mostly the former one, that are not there, or not whole.
        missing: Vec<InstanceAt>,
    },
    /// The GPU does not answer. A journal that was written stays.
    Unreadable {
        /// Why.
        failure: Failure,
        /// Whether it may have been changed before.
        changed: bool,
    },
}

impl Outcome {
    /// Whether there is something left to go on with, so that the journal stays. Of [`Outcome::Unreadable`] one stays that
    /// was there.
    pub fn leaves_journal(&self) -> bool {
        match self {
            Self::Reached | Self::RolledBack { .. } | Self::Overtaken => false,
            Self::RebootRequired { .. } | Self::Stuck { .. } | Self::Unreadable { .. } => true,
        }
    }

    /// The stable word for this outcome.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Reached => "Reached",
            Self::RolledBack { .. } => "RolledBack",
            Self::Overtaken => "Overtaken",
            Self::RebootRequired { .. } => "RebootRequired",
            Self::Stuck { .. } => "Stuck",
            Self::Unreadable { .. } => "Unreadable",
        }
    }
}
