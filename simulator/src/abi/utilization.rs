//! How busy the engines are. None of it is told of a GPU in MIG mode.

use std::ffi::c_uint;

use nvml_wrapper_sys::bindings::nvmlUtilization_t;

use super::call::Gpu;
use super::code::{Answer, NOT_SUPPORTED};
use super::out::Out;

/// The window over which the video engines' figures are taken, µs.
const WINDOW_US: c_uint = 167_000;

pub(super) fn rates(gpu: &Gpu<'_>, rates: Out<nvmlUtilization_t>) -> Answer {
    gpu.require_undivided()?;
    let [busy, memory, ..] = gpu.now().utilization;
    rates.set(nvmlUtilization_t { gpu: busy, memory })
}

pub(super) fn encoder(gpu: &Gpu<'_>, percent: Out<c_uint>, window_us: Out<c_uint>) -> Answer {
    let [_, _, encoder, ..] = gpu.now().utilization;
    engine(gpu, encoder, percent, window_us)
}

pub(super) fn decoder(gpu: &Gpu<'_>, percent: Out<c_uint>, window_us: Out<c_uint>) -> Answer {
    let [_, _, _, decoder, ..] = gpu.now().utilization;
    engine(gpu, decoder, percent, window_us)
}

pub(super) fn jpeg(gpu: &Gpu<'_>, percent: Out<c_uint>, window_us: Out<c_uint>) -> Answer {
    if gpu.board().jpeg_engines == 0 {
        return Err(NOT_SUPPORTED);
    }
    let [_, _, _, _, jpeg, _] = gpu.now().utilization;
    engine(gpu, jpeg, percent, window_us)
}

pub(super) fn ofa(gpu: &Gpu<'_>, percent: Out<c_uint>, window_us: Out<c_uint>) -> Answer {
    if gpu.board().ofa_engines == 0 {
        return Err(NOT_SUPPORTED);
    }
    let [.., ofa] = gpu.now().utilization;
    engine(gpu, ofa, percent, window_us)
}

fn engine(gpu: &Gpu<'_>, busy: u32, percent: Out<c_uint>, window_us: Out<c_uint>) -> Answer {
    gpu.require_undivided()?;
    percent.set(busy)?;
    window_us.set(WINDOW_US)
}
