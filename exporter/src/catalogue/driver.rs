//! The driver, and what the calls to it came to.

use gpulet_inventory::reading::Cause;
use gpulet_inventory::snapshot::{Driver, DriverDown, Snapshot};

use super::{Absence, Family, Kind, Label, LabelName, Sampler, Series, Value};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "gpulet_nvml_up",
        kind: Kind::Gauge,
        unit: None,
        help: "Whether the driver answers; 0 with the reason where it does not.",
        labels: &[LabelName::words("reason", &DriverDown::REASONS)],
        source: "nvmlInit_v2",
        sampler: Sampler::Node(up),
    },
    Family {
        name: "gpulet_driver",
        kind: Kind::Info,
        unit: None,
        help: "Driver, NVML, and the highest CUDA version that the driver supports.",
        labels: &[
            LabelName::any("version"),
            LabelName::any("nvml_version"),
            LabelName::any("cuda_version"),
            LabelName::any("library"),
        ],
        source: "nvmlSystemGetDriverVersion, nvmlSystemGetNVMLVersion, nvmlSystemGetCudaDriverVersion_v2",
        sampler: Sampler::Node(info),
    },
    Family {
        name: "gpulet_driver_opens",
        kind: Kind::Counter,
        unit: None,
        help: "Times that the driver was opened.",
        labels: &[],
        source: "nvmlInit_v2",
        sampler: Sampler::Node(|node, series| series.point(&[], node.gpus.value.calls.opens.into())),
    },
    Family {
        name: "gpulet_driver_calls",
        kind: Kind::Counter,
        unit: None,
        help: "Calls made to the driver.",
        labels: &[],
        source: "the agent",
        sampler: Sampler::Node(|node, series| series.point(&[], node.gpus.value.calls.made.into())),
    },
    Family {
        name: "gpulet_driver_call_failures",
        kind: Kind::Counter,
        unit: None,
        help: "Calls to the driver that failed, by what they answered.",
        labels: &[LabelName::any("call"), LabelName::listed("reason", || Cause::code_names().collect())],
        source: "the agent",
        sampler: Sampler::Node(failed_calls),
    },
    Family {
        name: "gpulet_driver_calls_unsupported",
        kind: Kind::Counter,
        unit: None,
        help: "Calls and fields of calls that this driver or a GPU does not have; gpulet metrics --explain names them.",
        labels: &[],
        source: "the agent",
        sampler: Sampler::Node(unsupported_calls),
    },
    Family {
        name: "gpulet_driver_stuck_threads",
        kind: Kind::Gauge,
        unit: None,
        help: "Threads that are stuck in a call to the driver now.",
        labels: &[],
        source: "the agent",
        sampler: Sampler::Node(|node, series| series.point(&[], node.gpus.value.calls.stuck_threads.into())),
    },
];

fn up(node: &Snapshot, series: &mut Series<'_>) {
    let reason = node.gpus.value.driver.down_reason();
    series.point(&[Label::Text(reason.unwrap_or_default())], Value::flag(reason.is_none()));
}

fn info(node: &Snapshot, series: &mut Series<'_>) {
    match &node.gpus.value.driver {
        Driver::Up(driver) => series.point(
            &[
                Label::Text(&driver.driver_version),
                Label::Text(&driver.nvml_version),
                Label::Text(driver.cuda_version.as_deref().unwrap_or_default()),
                Label::Text(&driver.library),
            ],
            Value::flag(true),
        ),
        Driver::Down(down) => series.missing(&[], Absence::DriverDown(&down.message)),
    }
}

fn unsupported_calls(node: &Snapshot, series: &mut Series<'_>) {
    let times: u64 = node.gpus.value.calls.unsupported.values().flat_map(|reasons| reasons.values()).sum();
    series.point(&[], times.into());
}

fn failed_calls(node: &Snapshot, series: &mut Series<'_>) {
    for (call, reasons) in &node.gpus.value.calls.failed {
        for (reason, times) in reasons {
            series.point(&[Label::Text(call), Label::Text(reason)], (*times).into());
        }
    }
}
