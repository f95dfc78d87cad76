//! What a GPU is, whether it answers, and how it is read.

use gpulet_inventory::snapshot::{Condition, DownReason, DriverDown, GpuState, Snapshot};

use super::{Family, Kind, Label, LabelName, Sampler, Series, Value};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "gpulet_gpu",
        kind: Kind::Info,
        unit: None,
        help: "What a GPU is; join on uuid.",
        labels: &[
            LabelName::any("pci_bus_id"),
            LabelName::any("minor"),
            LabelName::any("model"),
            LabelName::any("serial"),
            LabelName::any("vbios"),
            LabelName::any("architecture"),
            LabelName::any("compute_capability"),
            LabelName::any("numa_node"),
        ],
        source: "nvmlDeviceGetPciInfo_v3, nvmlDeviceGetMinorNumber, nvmlDeviceGetName, nvmlDeviceGetSerial, \
                 nvmlDeviceGetVbiosVersion, nvmlDeviceGetArchitecture, nvmlDeviceGetCudaComputeCapability, \
                 /sys/bus/pci/devices",
        sampler: Sampler::Gpu(info),
    },
    Family {
        name: "gpulet_gpu_up",
        kind: Kind::Gauge,
        unit: None,
        help: "Whether a GPU answers; 0 with the reason where it does not.",
        labels: &[LabelName::listed("reason", down_reasons)],
        source: "every call to the GPU",
        sampler: Sampler::Condition(up),
    },
    Family {
        name: "gpulet_gpu_sample_age_seconds",
        kind: Kind::Gauge,
        unit: Some("seconds"),
        help: "Age of a GPU's values at gpulet_snapshot_timestamp_seconds.",
        labels: &[],
        source: "the agent",
        sampler: Sampler::Gpu(age),
    },
    Family {
        name: "gpulet_gpu_sampling_duration_seconds",
        kind: Kind::Gauge,
        unit: Some("seconds"),
        help: "Time that the last reading of a GPU took.",
        labels: &[],
        source: "the agent",
        sampler: Sampler::Gpu(duration),
    },
];

fn info(node: &Snapshot, state: &GpuState, series: &mut Series<'_>) {
    let gpu = &state.gpu;
    let numa_node = node.topology.value.model.numa_node_of(gpu.pci);
    series.point(
        &[
            Label::Pci(gpu.pci),
            gpu.minor.value().map_or(Label::NONE, |minor| Label::Number((*minor).into())),
            gpu.name.value().map_or(Label::NONE, |name| Label::Text(name)),
            gpu.serial.value().map_or(Label::NONE, |serial| Label::Text(serial)),
            gpu.vbios.value().map_or(Label::NONE, |vbios| Label::Text(vbios)),
            gpu.architecture.value().map_or(Label::NONE, |word| Label::Text(word.as_str())),
            gpu.compute_capability
                .value()
                .map_or(Label::NONE, |(major, minor)| Label::Version(*major, *minor)),
            numa_node.map_or(Label::NONE, |node| Label::Number(node.0.into())),
        ],
        Value::flag(true),
    );
}

fn down_reasons() -> Vec<&'static str> {
    let own = DownReason::REASONS;
    let of_driver = DriverDown::REASONS.into_iter().filter(|reason| !own.contains(reason));
    own.into_iter().chain(of_driver).collect()
}

/// A GPU of a driver that is down has the driver's own reason, which says whether that is meant to be.
fn up(node: &Snapshot, condition: Condition, series: &mut Series<'_>) {
    let reason = node.gpus.value.down_reason(condition);
    series.point(&[Label::Text(reason.unwrap_or_default())], Value::flag(reason.is_none()));
}

fn age(node: &Snapshot, state: &GpuState, series: &mut Series<'_>) {
    let age = node.taken.saturating_duration_since(state.sampled);
    series.point(&[], age.as_secs_f64().into());
}

fn duration(_: &Snapshot, state: &GpuState, series: &mut Series<'_>) {
    if state.condition == Condition::Up && state.sample.is_some() {
        series.point(&[], state.took.as_secs_f64().into());
    }
}
