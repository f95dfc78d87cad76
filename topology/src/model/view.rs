//! What the topology needs to know of one GPU.

use std::collections::HashSet;

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::host::{Host, PciDevice, PciKind};
use gpulet_inventory::link::NvLink;
use gpulet_inventory::mig::MigState;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::reading::Reading;
use gpulet_inventory::sample::Fabric;
use gpulet_inventory::snapshot::{GpuState, NodeGpus, UnlistedGpu};

/// One GPU as the driver lists it.
#[derive(Debug, Clone)]
pub struct GpuView<'a> {
    /// The driver's index.
    pub index: u32,
    /// Its identity; absent for a GPU that has not told it.
    pub uuid: Option<&'a GpuUuid>,
    /// Its address.
    pub pci: PciAddress,
    /// Product name.
    pub name: Option<&'a str>,
    /// Why it does not answer, in one stable word; absent while it is up.
    pub down: Option<&'static str>,
    /// How it is divided; absent where it was never read.
    pub mig: Option<&'a Reading<MigState>>,
    /// Its NVLinks; absent where they were never read.
    pub nvlinks: Option<&'a Reading<Vec<NvLink>>>,
    /// Its fabric registration; absent where it was never read.
    pub fabric: Option<&'a Reading<Fabric>>,
}

impl<'a> GpuView<'a> {
    /// All GPUs of a snapshot that have a place, in the driver's order. A GPU that has told nothing at all, such as one that
    /// was lost before it was first asked, has the place that is left over in the NVIDIA kernel driver's list, if there
    /// is just one such GPU and one such place.
    pub fn of(node: &'a NodeGpus, host: &Host) -> Vec<Self> {
        let mut views: Vec<Self> = node.gpus.iter().map(Self::from).collect();
        views.extend(node.unlisted.iter().filter_map(|gpu| Some(Self::unlisted(gpu, gpu.pci?))));
        let mut without_place = node.unlisted.iter().filter(|gpu| gpu.pci.is_none());
        if let (Some(gpu), None) = (without_place.next(), without_place.next())
            && let Some(pci) = place_left_over(&views, host)
        {
            views.push(Self::unlisted(gpu, pci));
        }
        views.sort_by_key(|view| view.index);
        views
    }

    fn unlisted(gpu: &UnlistedGpu, pci: PciAddress) -> Self {
        Self {
            index: gpu.index,
            uuid: None,
            pci,
            name: None,
            down: Some(gpu.reason.reason()),
            mig: None,
            nvlinks: None,
            fabric: None,
        }
    }
}

/// The one GPU of the NVIDIA kernel driver that is not among `views`.
fn place_left_over(views: &[GpuView<'_>], host: &Host) -> Option<PciAddress> {
    let driven =
        |device: &&PciDevice| device.kind == PciKind::Gpu && device.driver.as_deref() == Some("nvidia");
    let driven = host.pci.iter().filter(driven).map(|device| device.address);
    let listed: HashSet<PciAddress> = views.iter().map(|view| view.pci).collect();
    let mut left = driven.filter(|pci| !listed.contains(pci));
    left.next().filter(|_| left.next().is_none())
}

impl<'a> From<&'a GpuState> for GpuView<'a> {
    fn from(state: &'a GpuState) -> Self {
        let sample = state.sample.as_deref();
        Self {
            index: state.gpu.index,
            uuid: Some(&state.gpu.uuid),
            pci: state.gpu.pci,
            name: state.gpu.name.value().map(String::as_str),
            down: state.condition.down_reason(),
            mig: sample.map(|sample| &sample.mig),
            nvlinks: sample.map(|sample| &sample.nvlinks),
            fabric: sample.map(|sample| &sample.fabric),
        }
    }
}
