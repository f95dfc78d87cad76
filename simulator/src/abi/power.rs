//! Power and energy.

use std::ffi::{c_uint, c_ulonglong};

use super::call::Gpu;
use super::code::{Answer, NOT_SUPPORTED};
use super::out::Out;

/// `NVML_DEVICE_ARCH_VOLTA`, `NVML_DEVICE_ARCH_AMPERE`
const VOLTA: u32 = 5;
const AMPERE: u32 = 7;

/// Whether it averages its power over 1 s: Ampere and later do, except GA100 (compute capability 8.0).
pub(super) fn is_averaged(gpu: &Gpu<'_>) -> bool {
    gpu.board().architecture >= AMPERE && gpu.board().compute_capability != (8, 0)
}

/// The average where there is one, else the instant.
pub(super) fn usage(gpu: &Gpu<'_>, milliwatts: Out<c_uint>) -> Answer {
    milliwatts.set(if is_averaged(gpu) { gpu.now().power_average_mw } else { gpu.now().power_instant_mw })
}

pub(super) fn limit(gpu: &Gpu<'_>, milliwatts: Out<c_uint>) -> Answer {
    milliwatts.set(gpu.now().power_limit_mw)
}

pub(super) fn default_limit(gpu: &Gpu<'_>, milliwatts: Out<c_uint>) -> Answer {
    milliwatts.set(gpu.board().power_limit_mw)
}

pub(super) fn constraints(gpu: &Gpu<'_>, lowest: Out<c_uint>, highest: Out<c_uint>) -> Answer {
    let (low, high) = gpu.board().power_limit_range_mw;
    lowest.set(low)?;
    highest.set(high)
}

pub(super) fn management_mode(_gpu: &Gpu<'_>, mode: Out<c_uint>) -> Answer {
    mode.set(1)
}

/// Mains.
pub(super) fn source(_gpu: &Gpu<'_>, source: Out<c_uint>) -> Answer {
    source.set(0)
}

pub(super) fn energy(gpu: &Gpu<'_>, millijoules: Out<c_ulonglong>) -> Answer {
    if gpu.board().architecture < VOLTA {
        return Err(NOT_SUPPORTED);
    }
    millijoules.set(gpu.state.count.energy_mj)
}
