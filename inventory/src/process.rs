//! Processes that hold a GPU.

use serde::{Deserialize, Serialize};

use crate::mig::{ComputeInstanceId, GpuInstanceId};

/// What kind of context a process has on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessKind {
    /// A CUDA or OpenCL context, an MPS server included.
    Compute,
    /// A graphics context.
    Graphics,
    /// A client of an MPS server.
    Mps,
}

impl ProcessKind {
    /// All kinds, in the order in which they are shown.
    pub const ALL: [Self; 3] = [Self::Compute, Self::Graphics, Self::Mps];

    /// The word for labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Graphics => "graphics",
            Self::Mps => "mps",
        }
    }
}

/// One process on one GPU, as the driver lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuProcess {
    /// Process id in the caller's PID namespace.
    pub pid: u32,
    /// What the process does there.
    pub kind: ProcessKind,
    /// GPU memory that it holds, bytes; the driver does not know it in every mode.
    pub memory_bytes: Option<u64>,
    /// The MIG instance that it runs on, if the GPU is partitioned.
    pub gpu_instance: Option<GpuInstanceId>,
    /// The compute instance that it runs on, if the GPU is partitioned.
    pub compute_instance: Option<ComputeInstanceId>,
}
