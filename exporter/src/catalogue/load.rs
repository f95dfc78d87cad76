//! How busy a GPU is: engines, memory, processes.

use gpulet_inventory::gpu::Gpu;
use gpulet_inventory::process::ProcessKind;
use gpulet_inventory::reading::Reading;
use gpulet_inventory::sample::{Memory, Sample};

use super::{Absence, Family, Kind, Label, LabelName, Sampler, Series, Value};

const MEMORY_CALL: &str = "nvmlDeviceGetMemoryInfo_v2";

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "gpulet_gpu_utilization_ratio",
        kind: Kind::Gauge,
        unit: Some("ratio"),
        help: "Share of time in which an engine was busy; engine gpu is busy while any kernel runs, engine memory \
               while memory is read or written.",
        labels: &[LabelName::words("engine", &["gpu", "memory", "encoder", "decoder", "jpeg", "ofa"])],
        source: "nvmlDeviceGetUtilizationRates, nvmlDeviceGetEncoderUtilization, nvmlDeviceGetDecoderUtilization, \
                 nvmlDeviceGetJpgUtilization, nvmlDeviceGetOfaUtilization",
        sampler: Sampler::Sample(utilization),
    },
    Family {
        name: "gpulet_gpu_memory_total_bytes",
        kind: Kind::Gauge,
        unit: Some("bytes"),
        help: "All memory of a GPU.",
        labels: &[],
        source: MEMORY_CALL,
        sampler: Sampler::Sample(|_, sample, series| memory(&sample.memory, series, |memory| memory.total)),
    },
    Family {
        name: "gpulet_gpu_memory_used_bytes",
        kind: Kind::Gauge,
        unit: Some("bytes"),
        help: "Memory that processes hold; with drivers before 510 the reserved memory is part of it.",
        labels: &[],
        source: MEMORY_CALL,
        sampler: Sampler::Sample(|_, sample, series| memory(&sample.memory, series, |memory| memory.used)),
    },
    Family {
        name: "gpulet_gpu_memory_free_bytes",
        kind: Kind::Gauge,
        unit: Some("bytes"),
        help: "Memory that is left.",
        labels: &[],
        source: MEMORY_CALL,
        sampler: Sampler::Sample(|_, sample, series| memory(&sample.memory, series, |memory| memory.free)),
    },
    Family {
        name: "gpulet_gpu_memory_reserved_bytes",
        kind: Kind::Gauge,
        unit: Some("bytes"),
        help: "Memory that driver and firmware hold.",
        labels: &[],
        source: MEMORY_CALL,
        sampler: Sampler::Sample(reserved),
    },
    Family {
        name: "gpulet_gpu_bar1_total_bytes",
        kind: Kind::Gauge,
        unit: Some("bytes"),
        help: "Size of the BAR1 window, through which the CPU and other devices see the memory.",
        labels: &[],
        source: "nvmlDeviceGetBAR1MemoryInfo",
        sampler: Sampler::Sample(|_, sample, series| {
            series.reading(&[], &sample.bar1, |bar1| bar1.total.into());
        }),
    },
    Family {
        name: "gpulet_gpu_bar1_used_bytes",
        kind: Kind::Gauge,
        unit: Some("bytes"),
        help: "Part of the BAR1 window that is in use.",
        labels: &[],
        source: "nvmlDeviceGetBAR1MemoryInfo",
        sampler: Sampler::Sample(|_, sample, series| {
            series.reading(&[], &sample.bar1, |bar1| bar1.used.into());
        }),
    },
    Family {
        name: "gpulet_gpu_processes",
        kind: Kind::Gauge,
        unit: None,
        help: "Processes that hold a GPU, by what they do there.",
        labels: &[LabelName::listed("kind", || ProcessKind::ALL.map(ProcessKind::as_str).into())],
        source: "nvmlDeviceGetComputeRunningProcesses_v3, nvmlDeviceGetGraphicsRunningProcesses_v3, \
                 nvmlDeviceGetMPSComputeRunningProcesses_v3",
        sampler: Sampler::Sample(processes),
    },
];

fn utilization(_: &Gpu, sample: &Sample, series: &mut Series<'_>) {
    let engines = &sample.utilization;
    for (engine, reading) in [
        ("gpu", &engines.gpu),
        ("memory", &engines.memory),
        ("encoder", &engines.encoder),
        ("decoder", &engines.decoder),
        ("jpeg", &engines.jpeg),
        ("ofa", &engines.ofa),
    ] {
        series.reading(&[Label::Text(engine)], reading, Value::percent);
    }
}

fn memory(memory: &Reading<Memory>, series: &mut Series<'_>, part: fn(Memory) -> u64) {
    series.reading(&[], memory, |memory| part(memory).into());
}

fn reserved(_: &Gpu, sample: &Sample, series: &mut Series<'_>) {
    match series.given(&[], &sample.memory).map(|memory| memory.reserved) {
        Some(Some(reserved)) => series.point(&[], reserved.into()),
        Some(None) => series.missing(&[], Absence::NotTold("nvmlDeviceGetMemoryInfo")),
        None => {}
    }
}

fn processes(_: &Gpu, sample: &Sample, series: &mut Series<'_>) {
    let Some(processes) = series.given(&[], &sample.processes) else { return };
    for kind in ProcessKind::ALL {
        let count = processes.iter().filter(|process| process.kind == kind).count();
        series.point(&[Label::Text(kind.as_str())], (count as u64).into());
    }
}
