//! Memory errors: ECC, retired pages, remapped rows.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::{nvmlEccErrorCounts_t, nvmlRowRemapperHistogramValues_t};

use super::call::Gpu;
use super::code::{Answer, INVALID_ARGUMENT, NOT_SUPPORTED};
use super::out::{Array, Out};

/// `NVML_DEVICE_ARCH_AMPERE`: from here on rows are remapped; before, pages were retired.
const AMPERE: u32 = 7;

pub(super) fn mode(gpu: &Gpu<'_>, current: Out<c_uint>, pending: Out<c_uint>) -> Answer {
    require_ecc(gpu)?;
    let (now, next) = gpu.now().ecc_mode;
    current.set(now.into())?;
    pending.set(next.into())
}

/// As boards leave the factory.
pub(super) fn default_mode(gpu: &Gpu<'_>, mode: Out<c_uint>) -> Answer {
    require_ecc(gpu)?;
    mode.set(gpu.board().ecc_default.into())
}

fn require_ecc(gpu: &Gpu<'_>) -> Answer {
    if gpu.board().ecc { Ok(()) } else { Err(NOT_SUPPORTED) }
}

/// Corrected (0) or not (1), since the driver was loaded (0) or ever (1).
pub(super) fn count(gpu: &Gpu<'_>, uncorrected: u32, aggregate: u32) -> Answer<u64> {
    require_ecc(gpu)?;
    if !gpu.now().ecc_mode.0 {
        return Err(NOT_SUPPORTED);
    }
    if uncorrected > 1 || aggregate > 1 {
        return Err(INVALID_ARGUMENT);
    }
    let place = (aggregate * 2 + uncorrected) as usize;
    gpu.state.count.ecc.get(place).copied().ok_or(INVALID_ARGUMENT)
}

pub(super) fn total(
    gpu: &Gpu<'_>,
    uncorrected: c_uint,
    aggregate: c_uint,
    errors: Out<c_ulonglong>,
) -> Answer {
    errors.set(count(gpu, uncorrected, aggregate)?)
}

/// All simulated errors are in device memory.
pub(super) fn detailed(
    gpu: &Gpu<'_>,
    uncorrected: c_uint,
    aggregate: c_uint,
    errors: Out<nvmlEccErrorCounts_t>,
) -> Answer {
    let device_memory = count(gpu, uncorrected, aggregate)?;
    errors.set(nvmlEccErrorCounts_t { l1Cache: 0, l2Cache: 0, deviceMemory: device_memory, registerFile: 0 })
}

/// By place: device memory (2) and SRAM (7) are told apart on Ampere and later, caches (0, 1) and registers (3) before.
pub(super) fn by_place(
    gpu: &Gpu<'_>,
    uncorrected: c_uint,
    aggregate: c_uint,
    place: c_uint,
    errors: Out<c_ulonglong>,
) -> Answer {
    let in_memory = count(gpu, uncorrected, aggregate)?;
    match (place, gpu.board().architecture >= AMPERE) {
        (2, _) => errors.set(in_memory),
        (7, true) | (0 | 1 | 3, false) => errors.set(0),
        (0..8, _) => Err(NOT_SUPPORTED),
        _ => Err(INVALID_ARGUMENT),
    }
}

pub(super) fn retired_pages(
    gpu: &Gpu<'_>,
    cause: c_uint,
    count: Out<c_uint>,
    pages: Array<c_ulonglong>,
) -> Answer {
    require_page_retirement(gpu)?;
    if cause > 1 {
        return Err(INVALID_ARGUMENT);
    }
    pages.list(&count, &[])
}

pub(super) fn retired_pages_v2(
    gpu: &Gpu<'_>,
    cause: c_uint,
    count: Out<c_uint>,
    pages: Array<c_ulonglong>,
    _times: Array<c_ulonglong>,
) -> Answer {
    retired_pages(gpu, cause, count, pages)
}

pub(super) fn retired_pending(gpu: &Gpu<'_>, pending: Out<c_uint>) -> Answer {
    require_page_retirement(gpu)?;
    pending.set(0)
}

pub(super) fn require_page_retirement(gpu: &Gpu<'_>) -> Answer {
    require_ecc(gpu)?;
    if gpu.board().architecture >= AMPERE { Err(NOT_SUPPORTED) } else { Ok(()) }
}

pub(super) fn require_row_remapping(gpu: &Gpu<'_>) -> Answer {
    if gpu.board().row_remapping { Ok(()) } else { Err(NOT_SUPPORTED) }
}

/// Refused while MIG instances exist; the field values go on telling.
pub(super) fn remapped_rows(
    gpu: &Gpu<'_>,
    correctable: Out<c_uint>,
    uncorrectable: Out<c_uint>,
    pending: Out<c_uint>,
    failed: Out<c_uint>,
) -> Answer {
    require_row_remapping(gpu)?;
    if gpu.state.mig.as_ref().is_some_and(|mig| !mig.instances.is_empty()) {
        return Err(NOT_SUPPORTED);
    }
    let rows = gpu.state.count.remapped_rows;
    correctable.set(rows.0)?;
    uncorrectable.set(rows.1)?;
    pending.set(gpu.now().row_remap.0.into())?;
    failed.set(gpu.now().row_remap.1.into())
}

/// Banks by how many spare rows are left in them. An H100 tells of 2,560 banks, half as many as its memory bus has lines;
/// each remapped row is taken to be in a bank of its own.
pub(super) fn remap_histogram(gpu: &Gpu<'_>, banks: Out<nvmlRowRemapperHistogramValues_t>) -> Answer {
    require_row_remapping(gpu)?;
    let all = gpu.board().memory_bus_bits / 2;
    let rows = gpu.state.count.remapped_rows;
    let touched = rows.0.saturating_add(rows.1).min(all);
    let exhausted = u32::from(gpu.now().row_remap.1).min(touched);
    banks.set(nvmlRowRemapperHistogramValues_t {
        max: all - touched,
        high: touched - exhausted,
        partial: 0,
        low: 0,
        none: exhausted,
    })
}
