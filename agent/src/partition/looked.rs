//! What was seen of the node's GPUs at one look.

use gpulet_inventory::gpu::{Gpu, GpuUuid};
use gpulet_inventory::pci::PciAddress;
use gpulet_partition::apply::Failure;
use gpulet_partition::observed::GpuDivision;

/// The node's GPUs, read fresh.
#[derive(Debug, Clone)]
pub(crate) struct Looked {
    /// Version of the driver, such as `580.82.07`.
    pub(crate) driver_version: String,
    /// Those that answered, in the driver's order.
    pub(crate) gpus: Vec<LookedGpu>,
    /// Those that did not.
    pub(crate) unread: Vec<UnreadGpu>,
}

/// One GPU that answered.
#[derive(Debug, Clone)]
pub(crate) struct LookedGpu {
    /// What it is.
    pub(crate) gpu: Gpu,
    /// How it is divided, and everyone who uses or may use it or an instance of it.
    pub(crate) division: GpuDivision,
    /// Whether persistence mode is on; absent where the GPU has none.
    pub(crate) persistence: Option<bool>,
    /// Whether its mode changes without a reset, as the driver tells; not where it does not tell.
    pub(crate) resetless: bool,
}

/// One GPU that did not answer.
#[derive(Debug, Clone)]
pub(crate) struct UnreadGpu {
    /// Its UUID; absent where the driver has not told it.
    pub(crate) uuid: Option<GpuUuid>,
    /// Where it sits; absent where the driver has not told it.
    pub(crate) pci: Option<PciAddress>,
    /// Why.
    pub(crate) failure: Failure,
}

impl Looked {
    /// The divisions, for a plan.
    pub(crate) fn divisions(&self) -> Vec<GpuDivision> {
        self.gpus.iter().map(|looked| looked.division.clone()).collect()
    }

    /// The GPU of this UUID.
    pub(crate) fn gpu(&self, uuid: &GpuUuid) -> Option<&LookedGpu> {
        self.gpus.iter().find(|looked| looked.gpu.uuid == *uuid)
    }
}
