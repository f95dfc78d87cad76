//! Memory.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::{nvmlBAR1Memory_t, nvmlMemory_t, nvmlMemory_v2_t};

use super::call::Gpu;
use super::code::Answer;
use super::out::{Out, version_word};
use crate::division::units;

/// Total, reserved and used bytes of a GPU or a MIG device.
fn sizes(gpu: &Gpu<'_>) -> (u64, u64, u64) {
    match gpu.device {
        None => (gpu.board().memory_bytes, gpu.board().reserved_bytes, gpu.now().memory_used_bytes),
        // What driver and firmware keep is not part of an instance.
        Some(device) => (device.profile.memory_mib << 20, 0, device.instance.memory_used_bytes),
    }
}

/// Version 1 counts what driver and firmware keep as used.
pub(super) fn info(gpu: &Gpu<'_>, memory: Out<nvmlMemory_t>) -> Answer {
    let (total, reserved, used) = sizes(gpu);
    let used = used + reserved;
    memory.set(nvmlMemory_t { total, free: total.saturating_sub(used), used })
}

pub(super) fn info_v2(gpu: &Gpu<'_>, memory: Out<nvmlMemory_v2_t>) -> Answer {
    memory.check_version(2)?;
    let (total, reserved, used) = sizes(gpu);
    memory.set(nvmlMemory_v2_t {
        version: version_word::<nvmlMemory_v2_t>(2),
        total,
        reserved,
        free: total.saturating_sub(used + reserved),
        used,
    })
}

/// A MIG device has the part of the window that its instance has of the memory's slices; its processes map nothing.
pub(super) fn bar1(gpu: &Gpu<'_>, memory: Out<nvmlBAR1Memory_t>) -> Answer {
    let (total, used) = match gpu.device {
        None => (gpu.board().bar1_bytes, gpu.now().bar1_used_bytes),
        Some(device) => {
            let (slices, all) = (device.instance.placement.1, units(gpu.mig()?));
            (gpu.board().bar1_bytes / u64::from(all.max(1)) * u64::from(slices), 0)
        }
    };
    memory.set(nvmlBAR1Memory_t { bar1Total: total, bar1Free: total.saturating_sub(used), bar1Used: used })
}

pub(super) fn bus_width(gpu: &Gpu<'_>, bits: Out<c_uint>) -> Answer {
    bits.set(gpu.board().memory_bus_bits)
}
