//! Clocks, and the reasons (clocks events) that keep them below what they could be.

use gpulet_inventory::gpu::Gpu;
use gpulet_inventory::reading::Reading;
use gpulet_inventory::sample::Sample;

use super::{Family, Kind, Label, LabelName, Sampler, Series, Value};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "gpulet_gpu_clock_hertz",
        kind: Kind::Gauge,
        unit: Some("hertz"),
        help: "Clock of each domain now.",
        labels: &[LabelName::words("domain", &DOMAINS)],
        source: "nvmlDeviceGetClockInfo",
        sampler: Sampler::Sample(now),
    },
    Family {
        name: "gpulet_gpu_clock_max_hertz",
        kind: Kind::Gauge,
        unit: Some("hertz"),
        help: "Highest clock of each domain.",
        labels: &[LabelName::words("domain", &DOMAINS)],
        source: "nvmlDeviceGetMaxClockInfo",
        sampler: Sampler::Sample(highest),
    },
    Family {
        name: "gpulet_gpu_clock_event_active",
        kind: Kind::Gauge,
        unit: None,
        help: "Clocks event (throttle) reason in force now, as NVML reports it; gpu_idle and clocks_setting are not faults.",
        labels: &[LabelName::listed("reason", || EVENTS.map(|(_, word)| word).into())],
        source: "nvmlDeviceGetCurrentClocksEventReasons",
        sampler: Sampler::Sample(events),
    },
    Family {
        name: "gpulet_gpu_clock_event_seconds",
        kind: Kind::Counter,
        unit: Some("seconds"),
        help: "Time for which each clocks event (throttle) reason was in force.",
        labels: &[LabelName::words("reason", &TIMED)],
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

/// The reasons that the driver also times.
const TIMED: [&str; 5] = ["power_cap", "sync_boost", "sw_thermal", "hw_thermal", "hw_power_brake"];

const DOMAINS: [&str; 4] = ["graphics", "sm", "memory", "video"];

/// The words of the reasons whose bits are set.
pub(crate) fn events_of(bits: u64) -> impl Iterator<Item = &'static str> {
    EVENTS.into_iter().filter(move |(bit, _)| bits & bit != 0).map(|(_, word)| word)
}

fn domains(series: &mut Series<'_>, clocks: [&Reading<u32>; 4]) {
    for (domain, megahertz) in DOMAINS.into_iter().zip(clocks) {
        series.reading(&[Label::Text(domain)], megahertz, Value::mega);
    }
}

fn now(_: &Gpu, sample: &Sample, series: &mut Series<'_>) {
    let clock = &sample.clock;
    domains(series, [&clock.graphics, &clock.sm, &clock.memory, &clock.video]);
}

fn highest(gpu: &Gpu, _: &Sample, series: &mut Series<'_>) {
    let clock = &gpu.max_clock;
    domains(series, [&clock.graphics, &clock.sm, &clock.memory, &clock.video]);
}

fn events(_: &Gpu, sample: &Sample, series: &mut Series<'_>) {
    let Some(bits) = series.given(&[], &sample.clock.event_reasons) else { return };
    for (bit, reason) in EVENTS {
        series.point(&[Label::Text(reason)], Value::flag(bits & bit != 0));
    }
}

fn held(_: &Gpu, sample: &Sample, series: &mut Series<'_>) {
    let held = &sample.clock.held;
    let times = [&held.power_cap, &held.sync_boost, &held.sw_thermal, &held.hw_thermal, &held.hw_power_brake];
    for (reason, nanoseconds) in TIMED.into_iter().zip(times) {
        series.reading(&[Label::Text(reason)], nanoseconds, Value::nano);
    }
}
