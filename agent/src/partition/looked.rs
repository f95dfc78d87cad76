//! What was seen of the node's GPUs at one look.

use std::sync::Arc;

use gpulet_host::hardware::{Model, PciId};
use gpulet_inventory::gpu::{Gpu, GpuUuid};
use gpulet_inventory::pci::PciAddress;
use gpulet_partition::apply::Failure;
use gpulet_partition::file::DeviceId;
use gpulet_partition::observed::{GpuDivision, Holder};
use gpulet_partition::resolve::GpuFacts;

use super::names::stoppable;

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
    pub(crate) gpu: Arc<Gpu>,
    /// How it is divided, and everyone who uses or may use it or an instance of it.
    pub(crate) division: GpuDivision,
    /// Whether persistence mode is on; absent where the GPU has none.
    pub(crate) persistence: Option<bool>,
    /// By which numbers its model is told.
    pub(crate) model: Model,
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

    /// What partition files are held against.
    pub(crate) fn facts(&self) -> Vec<GpuFacts<'_>> {
        let id = |id: PciId| DeviceId::of(id.device, id.vendor);
        let facts = self.gpus.iter().map(|looked| GpuFacts {
            index: looked.gpu.index,
            pci: looked.gpu.pci,
            device: looked.model.device.map(id),
            subsystem: looked.model.board.map(id),
            driver: &self.driver_version,
            division: &looked.division,
        });
        facts.collect()
    }

    /// The GPU of this UUID.
    pub(crate) fn gpu(&self, uuid: &GpuUuid) -> Option<&LookedGpu> {
        self.gpus.iter().find(|looked| looked.gpu.uuid == *uuid)
    }

    /// Who would lose something by a reboot of the machine, in words: whoever uses any GPU of it, and whoever may use one that
    /// does not answer. Absent: nobody. NVIDIA's monitors of the host and modules of the kernel come back with it.
    pub(crate) fn users(&self) -> Option<String> {
        let all = self.gpus.iter().flat_map(|LookedGpu { gpu, division, .. }| {
            let instances = division.instances.iter().flat_map(|instance| instance.all_holders());
            let users = division.holders.iter().chain(instances).filter(|holder| loses(holder));
            users.map(|holder| format!("GPU {} by {holder}", gpu.index))
        });
        let unread = self.unread.iter().map(|gpu| {
            let name = gpu.uuid.as_ref().map_or_else(|| "a GPU".to_owned(), ToString::to_string);
            format!("{name}, which does not answer, by who knows whom")
        });
        let mut users: Vec<String> = all.chain(unread).collect();
        users.sort_unstable();
        users.dedup();
        (!users.is_empty()).then(|| users.join(", "))
    }
}

fn loses(holder: &Holder) -> bool {
    match holder {
        Holder::Module { .. } => false,
        Holder::Process { program: Some(program), pod: None, .. } => stoppable(program).is_none(),
        _ => true,
    }
}
