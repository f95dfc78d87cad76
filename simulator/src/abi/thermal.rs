//! Temperatures and fans.

use std::ffi::{c_int, c_uint};

use nvml_wrapper_sys::bindings::{nvmlMarginTemperature_v1_t, nvmlTemperature_v1_t};

use super::call::Gpu;
use super::code::{Answer, INVALID_ARGUMENT, NOT_SUPPORTED};
use super::out::{Out, version_word};

/// `NVML_DEVICE_ARCH_ADA`: from here on temperatures are also told as the distance to a limit.
pub(super) const ADA: u32 = 8;

pub(super) fn temperature(gpu: &Gpu<'_>, sensor: c_uint, celsius: Out<c_uint>) -> Answer {
    // The die is the only sensor.
    if sensor != 0 {
        return Err(INVALID_ARGUMENT);
    }
    celsius.set(gpu.now().temperature_c)
}

pub(super) fn temperature_v(gpu: &Gpu<'_>, celsius: Out<nvmlTemperature_v1_t>) -> Answer {
    celsius.check_version(1)?;
    let asked = celsius.get()?;
    if asked.sensorType != 0 {
        return Err(INVALID_ARGUMENT);
    }
    celsius.set(nvmlTemperature_v1_t { temperature: gpu.now().temperature_c as c_int, ..asked })
}

pub(super) fn threshold(gpu: &Gpu<'_>, kind: c_uint, celsius: Out<c_uint>) -> Answer {
    match kind {
        0 => celsius.set(gpu.board().shutdown_c),
        1 => celsius.set(gpu.board().slowdown_c),
        2..8 => Err(NOT_SUPPORTED),
        _ => Err(INVALID_ARGUMENT),
    }
}

pub(super) fn margin(gpu: &Gpu<'_>, margin: Out<nvmlMarginTemperature_v1_t>) -> Answer {
    gpu.require_architecture(ADA)?;
    margin.check_version(1)?;
    margin.set(nvmlMarginTemperature_v1_t {
        version: version_word::<nvmlMarginTemperature_v1_t>(1),
        marginTemperature: gpu.board().slowdown_c as c_int - gpu.now().temperature_c as c_int,
    })
}

pub(super) fn fans(gpu: &Gpu<'_>, count: Out<c_uint>) -> Answer {
    count.set(gpu.board().fans)
}

pub(super) fn fan_speed(gpu: &Gpu<'_>, percent: Out<c_uint>) -> Answer {
    fan_speed_of(gpu, 0, percent)
}

pub(super) fn fan_speed_of(gpu: &Gpu<'_>, fan: c_uint, percent: Out<c_uint>) -> Answer {
    match gpu.board().fans {
        0 => Err(NOT_SUPPORTED),
        fans if fan >= fans => Err(INVALID_ARGUMENT),
        _ => percent.set(gpu.now().fan_percent),
    }
}
