//! What labels and annotations declare.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The label that names the layout. Absent: the node is observed only.
pub const MIG_CONFIG: &str = "nvidia.com/mig.config";
/// The label that says what happens while something is in use.
pub const WHEN_BUSY: &str = "gpulet.dev/when-busy";
/// The annotation with what is wanted of single GPUs.
pub const OVERRIDES: &str = "gpulet.dev/mig-config";
/// The label that tells how it goes, in NVIDIA's four words.
pub const STATE: &str = "nvidia.com/mig.config.state";
/// The annotation that tells how it goes in full.
pub const STATUS: &str = "gpulet.dev/partition-status";
/// The annotation of a Node that is cordoned by gpulet.
pub const CORDONED: &str = "gpulet.dev/cordoned";

/// What happens while something is in use that would have to go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenBusy {
    /// The change is refused.
    #[default]
    Refuse,
    /// It is waited for, for a while.
    Wait,
    /// The node is cordoned and the Pods in the way are evicted.
    Drain,
}

/// A word that is none of [`WhenBusy`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is none of `refuse`, `wait` and `drain`")]
pub struct NoSuchWord {
    /// What was there.
    pub word: String,
}

impl FromStr for WhenBusy {
    type Err = NoSuchWord;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "refuse" => Ok(Self::Refuse),
            "wait" => Ok(Self::Wait),
            "drain" => Ok(Self::Drain),
            _ => Err(NoSuchWord { word: word.to_owned() }),
        }
    }
}

impl fmt::Display for WhenBusy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refuse => "refuse",
            Self::Wait => "wait",
            Self::Drain => "drain",
        })
    }
}

/// What is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// The name of the layout.
    pub name: String,
    /// What happens while something is in use; a word that is none is an error that is told.
    pub when_busy: Result<WhenBusy, NoSuchWord>,
    /// What is wanted of single GPUs, as written.
    pub overrides: Option<String>,
}

impl Declared {
    /// What these declare; nothing without the label that names a layout. `default` is what happens while something is in use
    /// where no label says it.
    pub fn read(
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
        default: WhenBusy,
    ) -> Option<Self> {
        // A label can be there and empty, which names nothing.
        let name = labels.get(MIG_CONFIG).filter(|name| !name.is_empty())?;
        let when_busy = labels.get(WHEN_BUSY).map_or(Ok(default), |word| word.parse());
        Some(Self { name: name.clone(), when_busy, overrides: annotations.get(OVERRIDES).cloned() })
    }
}
