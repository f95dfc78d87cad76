//! Clocks, and what holds them down.

use gpulet_inventory::gpu::Gpu;
use gpulet_inventory::reading::Reading;
use gpulet_inventory::sample::Sample;

use super::{Family, Kind, Label, Sampler, Series, Value};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "gpulet_gpu_clock_hertz",
        kind: Kind::Gauge,
        unit: Some("hertz"),
        help: "Clock of each domain now.",
        labels: &["domain"],
        source: "nvmlDeviceGetClockInfo",
        sampler: Sampler::Sample(now),
    },
    Family {
        name: "gpulet_gpu_clock_max_hertz",
        kind: Kind::Gauge,
        unit: Some("hertz"),
        help: "Highest clock of each domain.",
        labels: &["domain"],
        source: "nvmlDeviceGetMaxClockInfo",
        sampler: Sampler::Sample(highest),
    },
    Family {
        name: "gpulet_gpu_clock_event_active",
        kind: Kind::Gauge,
        unit: None,
        help: "Whether a cause holds the clocks down now.",
        labels: &["reason"],
        source: "nvmlDeviceGetCurrentClocksEventReasons",
        sampler: Sampler::Sample(events),
    },
    Family {
        name: "gpulet_gpu_clock_held_seconds",
        kind: Kind::Counter,
        unit: Some("seconds"),
        help: "Time for which a cause has held the clocks down since the driver was loaded.",
        labels: &["reason"],
        source: "nvmlDeviceGetFieldValues: NVML_FI_DEV_CLOCKS_EVENT_REASON_*",
        sampler: Sampler::Sample(held),
    },
];

/// The bits of `nvmlDeviceGetCurrentClocksEventReasons` (source: `nvmlClocksEventReason*` in `nvml.h`). Those that are
/// also timed have the same word there.
const EVENTS: [(u64, &str); 9] = [
    (0x1, "gpu_idle"),
    (0x2, "clocks_setting"),
    (0x4, "power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal"),
    (0x40, "hw_thermal"),
    (0x80, "hw_power_brake"),
    (0x100, "display_clocks"),
];

fn domains(series: &mut Series<'_>, domains: [(&str, &Reading<u32>); 4]) {
    for (domain, megahertz) in domains {
        series.reading(&[Label::Text(domain)], megahertz, Value::mega);
    }
}

fn now(_: &Gpu, sample: &Sample, series: &mut Series<'_>) {
    let clock = &sample.clock;
    domains(
        series,
        [
            ("graphics", &clock.graphics),
            ("sm", &clock.sm),
            ("memory", &clock.memory),
            ("video", &clock.video),
        ],
    );
}

fn highest(gpu: &Gpu, _: &Sample, series: &mut Series<'_>) {
    let clock = &gpu.max_clock;
    domains(
        series,
        [
            ("graphics", &clock.graphics),
            ("sm", &clock.sm),
            ("memory", &clock.memory),
            ("video", &clock.video),
        ],
    );
}

fn events(_: &Gpu, sample: &Sample, series: &mut Series<'_>) {
    let Some(bits) = series.given(&[], &sample.clock.event_reasons) else { return };
    for (bit, reason) in EVENTS {
        series.point(&[Label::Text(reason)], Value::flag(bits & bit != 0));
    }
}

fn held(_: &Gpu, sample: &Sample, series: &mut Series<'_>) {
    let held = &sample.clock.held;
    for (reason, nanoseconds) in [
        ("power_cap", &held.power_cap),
        ("sync_boost", &held.sync_boost),
        ("sw_thermal", &held.sw_thermal),
        ("hw_thermal", &held.hw_thermal),
        ("hw_power_brake", &held.hw_power_brake),
    ] {
        series.reading(&[Label::Text(reason)], nanoseconds, Value::nano);
    }
}
