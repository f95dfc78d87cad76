//! The PCIe link.

use std::ffi::c_uint;
use std::time::Duration;

use super::call::Gpu;
use super::code::{Answer, INVALID_ARGUMENT};
use super::out::Out;

/// The driver measures over this long, and the caller waits for it.
const WINDOW: Duration = Duration::from_millis(20);

pub(super) fn generation(gpu: &Gpu<'_>, generation: Out<c_uint>) -> Answer {
    generation.set(gpu.now().pcie_generation)
}

pub(super) fn width(gpu: &Gpu<'_>, lanes: Out<c_uint>) -> Answer {
    lanes.set(gpu.now().pcie_width)
}

pub(super) fn max_generation(gpu: &Gpu<'_>, generation: Out<c_uint>) -> Answer {
    generation.set(gpu.board().pcie_max_generation)
}

pub(super) fn gpu_max_generation(gpu: &Gpu<'_>, generation: Out<c_uint>) -> Answer {
    generation.set(gpu.board().pcie_gpu_max_generation)
}

pub(super) fn max_width(gpu: &Gpu<'_>, lanes: Out<c_uint>) -> Answer {
    lanes.set(gpu.board().pcie_max_width)
}

/// Sent (0) or received (1), KB/s.
pub(super) fn throughput(gpu: &Gpu<'_>, counter: c_uint, kbps: Out<c_uint>) -> Answer {
    let (sent, received) = gpu.now().pcie_throughput_kbps;
    let value = match counter {
        0 => sent,
        1 => received,
        _ => return Err(INVALID_ARGUMENT),
    };
    std::thread::sleep(WINDOW);
    kbps.set(value)
}

pub(super) fn replays(gpu: &Gpu<'_>, count: Out<c_uint>) -> Answer {
    count.set(gpu.state.count.pcie_replays)
}

/// `NVML_PCIE_LINK_MAX_SPEED_*`, which counts like the generations.
pub(super) fn max_speed(gpu: &Gpu<'_>, speed: Out<c_uint>) -> Answer {
    speed.set(gpu.board().pcie_max_generation)
}

/// Megatransfers per second and lane.
pub(super) fn speed(gpu: &Gpu<'_>, speed: Out<c_uint>) -> Answer {
    speed.set(match gpu.now().pcie_generation {
        0 => 0,
        1 => 2_500,
        2 => 5_000,
        later => 8_000 << (later - 3).min(5),
    })
}

/// `NVML_BUS_TYPE_PCIE`
pub(super) fn bus_type(_gpu: &Gpu<'_>, kind: Out<c_uint>) -> Answer {
    kind.set(2)
}
