//! What the topology needs to know of one GPU.

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::link::NvLink;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::reading::Reading;
use gpulet_inventory::sample::Fabric;
use gpulet_inventory::snapshot::{GpuState, NodeGpus};

/// One GPU as the driver lists it.
#[derive(Debug, Clone)]
pub struct GpuView<'a> {
    /// The driver's index.
    pub index: u32,
    /// Its identity.
    pub uuid: &'a GpuUuid,
    /// Its address.
    pub pci: PciAddress,
    /// Product name.
    pub name: Option<&'a str>,
    /// Why it does not answer, in one stable word; absent while it is up.
    pub down: Option<&'static str>,
    /// Its NVLinks; absent where they were never read.
    pub nvlinks: Option<&'a Reading<Vec<NvLink>>>,
    /// Its fabric registration; absent where it was never read.
    pub fabric: Option<&'a Reading<Fabric>>,
}

impl<'a> GpuView<'a> {
    /// All GPUs of a snapshot, in the driver's order.
    pub fn of(node: &'a NodeGpus) -> Vec<Self> {
        node.gpus.iter().map(Self::from).collect()
    }
}

impl<'a> From<&'a GpuState> for GpuView<'a> {
    fn from(state: &'a GpuState) -> Self {
        let sample = state.sample.as_deref();
        Self {
            index: state.gpu.index,
            uuid: &state.gpu.uuid,
            pci: state.gpu.pci,
            name: state.gpu.name.value().map(String::as_str),
            down: state.condition.down_reason(),
            nvlinks: sample.map(|sample| &sample.nvlinks),
            fabric: sample.map(|sample| &sample.fabric),
        }
    }
}
