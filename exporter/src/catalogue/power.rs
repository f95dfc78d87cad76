//! Power, energy and temperature.

use gpulet_inventory::gpu::Gpu;
use gpulet_inventory::sample::Sample;

use super::{Family, Kind, Label, LabelName, Sampler, Series, Value};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "gpulet_gpu_power_watts",
        kind: Kind::Gauge,
        unit: Some("watts"),
        help: "Board power: 1 s average on Ampere GA10x and newer, instantaneous on older GPUs.",
        labels: &[],
        source: "nvmlDeviceGetPowerUsage",
        sampler: Sampler::Sample(|_, sample, series| {
            series.reading(&[], &sample.power.usage, Value::milli);
        }),
    },
    Family {
        name: "gpulet_gpu_power_instant_watts",
        kind: Kind::Gauge,
        unit: Some("watts"),
        help: "Draw of the board at the instant of the reading.",
        labels: &[],
        source: "nvmlDeviceGetFieldValues: NVML_FI_DEV_POWER_INSTANT",
        sampler: Sampler::Sample(|_, sample, series| {
            series.reading(&[], &sample.power.instant, Value::milli);
        }),
    },
    Family {
        name: "gpulet_gpu_power_limit_watts",
        kind: Kind::Gauge,
        unit: Some("watts"),
        help: "The power limit in force.",
        labels: &[],
        source: "nvmlDeviceGetEnforcedPowerLimit",
        sampler: Sampler::Sample(|_, sample, series| {
            series.reading(&[], &sample.power.limit, Value::milli);
        }),
    },
    Family {
        name: "gpulet_gpu_energy_joules",
        kind: Kind::Counter,
        unit: Some("joules"),
        help: "Energy used since the driver was loaded.",
        labels: &[],
        source: "nvmlDeviceGetTotalEnergyConsumption",
        sampler: Sampler::Sample(|_, sample, series| {
            series.reading(&[], &sample.power.energy, Value::milli_long);
        }),
    },
    Family {
        name: "gpulet_gpu_temperature_celsius",
        kind: Kind::Gauge,
        unit: Some("celsius"),
        help: "Temperature of the GPU die and of its memory.",
        labels: &[LabelName::words("sensor", &["gpu", "memory"])],
        source: "nvmlDeviceGetTemperature, nvmlDeviceGetFieldValues: NVML_FI_DEV_MEMORY_TEMP",
        sampler: Sampler::Sample(temperature),
    },
    Family {
        name: "gpulet_gpu_performance_state",
        kind: Kind::Gauge,
        unit: None,
        help: "Performance state, from 0 (fastest) to 15.",
        labels: &[],
        source: "nvmlDeviceGetPerformanceState",
        sampler: Sampler::Sample(|_, sample, series| {
            series.reading(&[], &sample.performance_state, Value::from);
        }),
    },
];

fn temperature(_: &Gpu, sample: &Sample, series: &mut Series<'_>) {
    series.reading(&[Label::Text("gpu")], &sample.temperature.gpu, Value::from);
    series.reading(&[Label::Text("memory")], &sample.temperature.memory, Value::from);
}
