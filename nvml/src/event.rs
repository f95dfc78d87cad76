//! What the driver tells by itself.

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId};

/// Something that happened to a GPU, as the driver told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceEvent {
    /// Where.
    pub gpu: GpuUuid,
    /// What.
    pub kind: EventKind,
    /// The MIG instance that it concerns, where the driver says (privileged callers only).
    pub gpu_instance: Option<GpuInstanceId>,
    /// The compute instance that it concerns, where the driver says.
    pub compute_instance: Option<ComputeInstanceId>,
}

/// What happened (source: `nvmlEventType*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// An XID error with its number; 999 is one that the driver could not name.
    Xid(u32),
    /// MIG instances or the MIG mode changed.
    MigConfigChange,
    /// What must be done about the GPU changed.
    RecoveryAction,
    /// The GPU became unavailable.
    Unavailable,
    /// Memory is poisoned: contained if not fatal.
    Poison {
        /// Whether the whole GPU is affected.
        fatal: bool,
    },
    /// Another event: its type bit and the number with it.
    Other {
        /// `nvmlEventType*`.
        kind: u64,
        /// What came with it.
        data: u64,
    },
}
