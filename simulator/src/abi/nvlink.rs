//! NVLink and the fabric.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlGpuFabricInfo_t, nvmlGpuFabricInfo_v2_t, nvmlGpuFabricInfo_v3_t, nvmlPciInfo_t,
};

use super::call::Gpu;
use super::code::{ARGUMENT_VERSION_MISMATCH, Answer, INVALID_ARGUMENT, NOT_SUPPORTED};
use super::identity::{PciInfoV2, pci_address};
use super::out::{Out, version_word};
use crate::state::{FabricState, GpuState, NvLinkState};

/// Blackwell's generation: data link errors are told by field values only.
pub(super) const NVLINK_5: u32 = 5;
/// `NVML_NVLINK_DEVICE_TYPE_SWITCH`
const SWITCH: u32 = 2;

/// A link by number.
///
/// # Errors
/// `NOT_SUPPORTED` on a GPU without NVLink, `INVALID_ARGUMENT` past the last link.
pub(super) fn link<'a>(gpu: &Gpu<'a>, number: c_uint) -> Answer<&'a NvLinkState> {
    if gpu.state.nvlinks.is_empty() {
        return Err(NOT_SUPPORTED);
    }
    gpu.state.nvlinks.get(number as usize).ok_or(INVALID_ARGUMENT)
}

/// A link that is up.
fn link_up<'a>(gpu: &Gpu<'a>, number: c_uint) -> Answer<&'a NvLinkState> {
    let link = link(gpu, number)?;
    if link.up { Ok(link) } else { Err(NOT_SUPPORTED) }
}

pub(super) fn state(gpu: &Gpu<'_>, number: c_uint, active: Out<c_uint>) -> Answer {
    active.set(link(gpu, number)?.up.into())
}

pub(super) fn version(gpu: &Gpu<'_>, number: c_uint, version: Out<c_uint>) -> Answer {
    link_up(gpu, number)?;
    version.set(version_number(gpu))
}

/// The driver's number of a generation (source: `NVML_NVLINK_VERSION_*`, which has halves: 2.2 is 3, 3.1 is 5).
pub(super) fn version_number(gpu: &Gpu<'_>) -> u32 {
    match gpu.board().nvlink_version {
        early @ 0..=2 => early,
        3 => 4,
        later => later + 2,
    }
}

pub(super) fn capability(gpu: &Gpu<'_>, number: c_uint, capability: c_uint, has: Out<c_uint>) -> Answer {
    link_up(gpu, number)?;
    match capability {
        // Peer-to-peer, access to system memory, atomics on both, valid.
        0..=3 | 5 => has.set(1),
        // SLI bridge.
        4 => has.set(0),
        _ => Err(INVALID_ARGUMENT),
    }
}

fn remote_address(gpu: &Gpu<'_>, number: c_uint) -> Answer<nvmlPciInfo_t> {
    let (domain, bus, device, _) = link_up(gpu, number)?.remote_pci;
    Ok(pci_address(domain, bus, device))
}

pub(super) fn remote_pci(gpu: &Gpu<'_>, number: c_uint, pci: Out<nvmlPciInfo_t>) -> Answer {
    pci.set(remote_address(gpu, number)?)
}

pub(super) fn remote_pci_v1(gpu: &Gpu<'_>, number: c_uint, pci: Out<nvmlPciInfo_t>) -> Answer {
    pci.cast().set(PciInfoV2::from(remote_address(gpu, number)?))
}

pub(super) fn remote_type(gpu: &Gpu<'_>, number: c_uint, kind: Out<c_uint>) -> Answer {
    kind.set(link_up(gpu, number)?.remote_type)
}

pub(super) fn errors(gpu: &Gpu<'_>, number: c_uint, counter: c_uint, count: Out<c_ulonglong>) -> Answer {
    let link = link(gpu, number)?;
    if gpu.board().nvlink_version >= NVLINK_5 {
        return Err(NOT_SUPPORTED);
    }
    match link.errors.get(counter as usize) {
        Some(errors) => count.set(*errors),
        // Per-lane ECC errors exist in the enumeration but not in the hardware.
        None if counter == 4 => Err(NOT_SUPPORTED),
        None => Err(INVALID_ARGUMENT),
    }
}

/// Read 0, write 1, NVLink 2, atomics 3, PCIe 4.
pub(super) fn p2p_status(gpu: &Gpu<'_>, other: nvmlDevice_t, index: c_uint, status: Out<c_uint>) -> Answer {
    const OK: c_uint = 0;
    const STATUS_NOT_SUPPORTED: c_uint = 5;
    let joined = joined_by_nvlink(gpu, gpu.node.gpu_state(gpu.node.peer(other)?)?);
    match index {
        0 | 1 | 4 => status.set(OK),
        2 | 3 => status.set(if joined { OK } else { STATUS_NOT_SUPPORTED }),
        _ => Err(INVALID_ARGUMENT),
    }
}

/// Whether an NVLink that is up leads to the other GPU, directly or through the switches that both are at.
fn joined_by_nvlink(gpu: &Gpu<'_>, other: &GpuState) -> bool {
    let address = (other.identity.pci_domain, other.identity.pci_bus, other.identity.pci_device);
    let mut up = gpu.state.nvlinks.iter().filter(|link| link.up);
    let switched = other.nvlinks.iter().any(|link| link.up && link.remote_type == SWITCH);
    up.any(|link| {
        let (domain, bus, device, _) = link.remote_pci;
        if link.remote_type == SWITCH { switched } else { (domain, bus, device) == address }
    })
}

fn fabric_of<'a>(gpu: &Gpu<'a>) -> Answer<&'a FabricState> {
    gpu.state.fabric.as_ref().ok_or(NOT_SUPPORTED)
}

pub(super) fn fabric(gpu: &Gpu<'_>, info: Out<nvmlGpuFabricInfo_t>) -> Answer {
    let fabric = fabric_of(gpu)?;
    info.set(nvmlGpuFabricInfo_t {
        clusterUuid: fabric.cluster_uuid,
        status: fabric.status,
        cliqueId: fabric.clique_id,
        state: fabric.state as _,
    })
}

pub(super) fn fabric_v(gpu: &Gpu<'_>, info: Out<nvmlGpuFabricInfo_v3_t>) -> Answer {
    let fabric = fabric_of(gpu)?;
    let asked = info.version()?;
    if asked == version_word::<nvmlGpuFabricInfo_v2_t>(2) {
        return info.cast().set(nvmlGpuFabricInfo_v2_t {
            version: asked,
            clusterUuid: fabric.cluster_uuid,
            status: fabric.status,
            cliqueId: fabric.clique_id,
            state: fabric.state as _,
            healthMask: fabric.health_mask,
        });
    }
    // Version 3 came with driver 570.
    if asked != version_word::<nvmlGpuFabricInfo_v3_t>(3) || gpu.node.driver_branch() < 570 {
        return Err(ARGUMENT_VERSION_MISMATCH);
    }
    info.set(nvmlGpuFabricInfo_v3_t {
        version: asked,
        clusterUuid: fabric.cluster_uuid,
        status: fabric.status,
        cliqueId: fabric.clique_id,
        state: fabric.state as _,
        healthMask: fabric.health_mask,
        healthSummary: health_summary(fabric),
    })
}

/// `NVML_GPU_FABRIC_HEALTH_SUMMARY_*`: in the mask, each of the lower fields is 1 for trouble and 2 for its absence.
fn health_summary(fabric: &FabricState) -> u8 {
    let troubles = (0..4).map(|field| fabric.health_mask >> (field * 2) & 3);
    let misconfigured = fabric.health_mask >> 8 & 15 > 1;
    if fabric.state != 3 || fabric.health_mask == 0 {
        return 0;
    }
    if misconfigured || troubles.into_iter().any(|field| field == 1) { 2 } else { 1 }
}
