//! What is written down before a GPU is changed, so that whatever happens it ends in the former layout or the wanted one.

use gpulet_inventory::gpu::GpuUuid;
use serde::{Deserialize, Serialize};

use crate::layout::{Layout, Need};

/// What is on disk, with the version of its form: one that this program does not know is not read as another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "version")]
pub enum Journal {
    /// The first form.
    #[serde(rename = "1")]
    V1(Entry),
}

/// A change of one GPU that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Entry {
    /// Which GPU.
    pub gpu: GpuUuid,
    /// What there was, to be put back where the change fails.
    pub former: Layout,
    /// What there is to be.
    pub wanted: Layout,
    /// Which of the two is being made.
    pub phase: Phase,
    /// What was about to be done, for people: what comes next is told by the GPU.
    pub next: Need,
    /// Persistence mode was on before, and is off, or about to be, for a reset: it is to be on in the end.
    #[serde(default)]
    pub restore_persistence: bool,
}

/// The direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// To the wanted layout.
    Forward,
    /// Back to the former one.
    Back,
}
