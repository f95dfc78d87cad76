//! What people should know of a layout that can be had.

use std::fmt;

use serde::Serialize;

use crate::file::Target;
use crate::names::ProfileName;

use super::problem::{GpuName, indices};

/// Something that people should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "reason")]
pub enum Warning {
    /// There is no profile of this name here, but one that is near it.
    NearProfile {
        /// The name.
        asked: ProfileName,
        /// The one that is taken.
        taken: String,
        /// On which GPUs.
        gpus: Vec<GpuName>,
    },
    /// There is no generated layout of this name here, but one of a profile that is near it.
    NearLayout {
        /// The name.
        asked: String,
        /// The one that is taken.
        taken: String,
    },
    /// GPUs without MIG mode, which an entry for all passes over.
    PassedOver {
        /// Which.
        gpus: Vec<GpuName>,
    },
    /// A GPU that an entry names and that is none of those that answer.
    NoAnswer {
        /// As it was named.
        target: Target,
    },
    /// GPUs that are to be in MIG mode with nothing on them, so that no one can use them.
    Empty {
        /// Which.
        gpus: Vec<GpuName>,
    },
}

impl Warning {
    /// The stable word for it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NearProfile { .. } => "NearProfile",
            Self::NearLayout { .. } => "NearLayout",
            Self::PassedOver { .. } => "PassedOver",
            Self::NoAnswer { .. } => "NoAnswer",
            Self::Empty { .. } => "Empty",
        }
    }

    /// Takes the GPUs of another that is otherwise the same; false where it is another.
    pub(super) fn takes(&mut self, other: &Self) -> bool {
        let (gpus, more) = match (self, other) {
            (
                Self::NearProfile { asked, taken, gpus },
                Self::NearProfile { asked: other_asked, taken: other_taken, gpus: more },
            ) if asked == other_asked && taken == other_taken => (gpus, more),
            (Self::PassedOver { gpus }, Self::PassedOver { gpus: more })
            | (Self::Empty { gpus }, Self::Empty { gpus: more }) => (gpus, more),
            _ => return false,
        };
        gpus.extend(more.iter().filter(|gpu| !gpus.contains(gpu)).cloned().collect::<Vec<_>>());
        true
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NearProfile { asked, taken, gpus } => write!(
                f,
                "{}: {taken} is taken for {asked}, whose name is another by the memory of the board",
                indices(gpus)
            ),
            Self::NearLayout { asked, taken } => {
                write!(f, "the layout {taken} is taken for {asked}: this board's profile has another name")
            }
            Self::PassedOver { gpus } => write!(f, "{}: passed over, without MIG mode", indices(gpus)),
            Self::NoAnswer { target } => {
                write!(f, "GPU {target}: it is named, and not among those that answer; it is left as it is")
            }
            Self::Empty { gpus } => write!(
                f,
                "{}: in MIG mode with no instance on it no one can use it, and NVIDIA's device plugin with strategy \
                 `single` fails; name instances, or turn MIG mode off",
                indices(gpus)
            ),
        }
    }
}
