//! Clocks, and why they are held down.

use std::ffi::{c_uint, c_ulonglong};

use nvml_wrapper_sys::bindings::nvmlViolationTime_t;

use super::call::Gpu;
use super::code::{Answer, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED};
use super::out::{Array, Out};

/// The clock of a domain: graphics 0, SM 1, memory 2, video 3.
fn of(clocks: &[u32; 4], domain: c_uint) -> Answer<u32> {
    clocks.get(domain as usize).copied().ok_or(INVALID_ARGUMENT)
}

pub(super) fn current(gpu: &Gpu<'_>, domain: c_uint, mhz: Out<c_uint>) -> Answer {
    mhz.set(of(&gpu.now().clocks_mhz, domain)?)
}

pub(super) fn max(gpu: &Gpu<'_>, domain: c_uint, mhz: Out<c_uint>) -> Answer {
    mhz.set(of(&gpu.board().max_clocks_mhz, domain)?)
}

/// The clocks that applications ask for; nobody has set others than the default, which is the highest.
pub(super) fn applications(gpu: &Gpu<'_>, domain: c_uint, mhz: Out<c_uint>) -> Answer {
    let clock = of(&gpu.board().max_clocks_mhz, domain)?;
    // Boards for desks have no application clocks, video engines never had.
    if gpu.board().display || domain > 2 { Err(NOT_SUPPORTED) } else { mhz.set(clock) }
}

/// By domain and kind: current 0, application 1, default application 2, customer boost 3.
pub(super) fn by_kind(gpu: &Gpu<'_>, domain: c_uint, kind: c_uint, mhz: Out<c_uint>) -> Answer {
    match kind {
        0 => current(gpu, domain, mhz),
        1 | 2 => applications(gpu, domain, mhz),
        3 => Err(NOT_SUPPORTED),
        _ => Err(INVALID_ARGUMENT),
    }
}

/// One memory clock: simulated memory does not slow down.
pub(super) fn memory_clocks(gpu: &Gpu<'_>, count: Out<c_uint>, mhz: Array<c_uint>) -> Answer {
    mhz.list(&count, &[of(&gpu.board().max_clocks_mhz, 2)?])
}

/// Graphics clocks for a memory clock, highest first, in the steps of 15 MHz that the hardware has.
pub(super) fn graphics_clocks(
    gpu: &Gpu<'_>,
    memory: c_uint,
    count: Out<c_uint>,
    mhz: Array<c_uint>,
) -> Answer {
    const LOWEST: u32 = 210;
    if of(&gpu.board().max_clocks_mhz, 2)? != memory {
        return Err(NOT_FOUND);
    }
    let highest = of(&gpu.board().max_clocks_mhz, 0)?;
    let clocks: Vec<c_uint> =
        (0..).map_while(|step| highest.checked_sub(step * 15)).take_while(|c| *c >= LOWEST).collect();
    mhz.list(&count, &clocks)
}

pub(super) fn event_reasons(gpu: &Gpu<'_>, reasons: Out<c_ulonglong>) -> Answer {
    reasons.set(gpu.now().clocks_event_reasons)
}

/// Every reason from "idle" (bit 0) to "display clock" (bit 8).
pub(super) fn supported_event_reasons(_gpu: &Gpu<'_>, reasons: Out<c_ulonglong>) -> Answer {
    reasons.set(0x1FF)
}

pub(super) fn performance_state(gpu: &Gpu<'_>, state: Out<c_uint>) -> Answer {
    state.set(gpu.now().performance_state)
}

/// Adaptive clocking is on.
pub(super) fn adaptive(_gpu: &Gpu<'_>, status: Out<c_uint>) -> Answer {
    status.set(1)
}

/// Time held down for a policy, ns, since the driver was loaded.
pub(super) fn violation(gpu: &Gpu<'_>, policy: c_uint, time: Out<nvmlViolationTime_t>) -> Answer {
    let held_ns = held_for(gpu, policy).ok_or(if policy < 12 { NOT_SUPPORTED } else { INVALID_ARGUMENT })?;
    time.set(nvmlViolationTime_t { referenceTime: gpu.node.state.clock_us, violationTime: held_ns })
}

/// Nanoseconds held down for a performance policy (`NVML_PERF_POLICY_*`), where there is a counter.
pub(super) fn held_for(gpu: &Gpu<'_>, policy: u32) -> Option<u64> {
    let [power_cap, sync_boost, software_thermal, hardware_thermal, _] = gpu.state.count.clocks_held_ns;
    match policy {
        0 => Some(power_cap),
        1 => Some(software_thermal.saturating_add(hardware_thermal)),
        2 => Some(sync_boost),
        // Board limit, low utilisation, reliability: the simulated hardware never runs into them.
        3..=5 => Some(0),
        _ => None,
    }
}
