//! Errors: ECC, remapped rows, Xids, and what the driver says must be done.

use gpulet_inventory::gpu::Gpu;
use gpulet_inventory::sample::Sample;
use gpulet_inventory::snapshot::{GpuState, Snapshot};

use super::{Family, Kind, Label, LabelName, Sampler, Series, Value};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "gpulet_gpu_ecc_enabled",
        kind: Kind::Gauge,
        unit: None,
        help: "Whether ECC is on.",
        labels: &[],
        source: "nvmlDeviceGetEccMode",
        sampler: Sampler::Sample(|_, sample, series| {
            series.reading(&[], &sample.ecc.enabled, Value::flag);
        }),
    },
    Family {
        name: "gpulet_gpu_ecc_errors",
        kind: Kind::Counter,
        unit: None,
        help: "Memory errors; scope volatile counts since the driver was loaded, aggregate in the life of the board.",
        labels: &[
            LabelName::words("type", &["corrected", "uncorrected"]),
            LabelName::words("scope", &["volatile", "aggregate"]),
        ],
        source: "nvmlDeviceGetTotalEccErrors",
        sampler: Sampler::Sample(ecc),
    },
    Family {
        name: "gpulet_gpu_remapped_rows",
        kind: Kind::Counter,
        unit: None,
        help: "Rows of memory replaced by spare ones in the life of the board, by the kind of error.",
        labels: &[LabelName::words("type", &["correctable", "uncorrectable"])],
        source: "nvmlDeviceGetRemappedRows",
        sampler: Sampler::Sample(remapped),
    },
    Family {
        name: "gpulet_gpu_row_remap_pending",
        kind: Kind::Gauge,
        unit: None,
        help: "Whether a row waits for a reset to be replaced.",
        labels: &[],
        source: "nvmlDeviceGetRemappedRows",
        sampler: Sampler::Sample(|_, sample, series| {
            series.reading(&[], &sample.remapped_rows, |rows| Value::flag(rows.pending));
        }),
    },
    Family {
        name: "gpulet_gpu_row_remap_failed",
        kind: Kind::Gauge,
        unit: None,
        help: "Whether a row could not be replaced.",
        labels: &[],
        source: "nvmlDeviceGetRemappedRows",
        sampler: Sampler::Sample(|_, sample, series| {
            series.reading(&[], &sample.remapped_rows, |rows| Value::flag(rows.failed));
        }),
    },
    Family {
        name: "gpulet_gpu_xid_errors",
        kind: Kind::Counter,
        unit: None,
        help: "Xid errors seen since this process started; codes that end or threaten a GPU's use start at 0 once the driver tells of Xids.",
        labels: &[LabelName::any("xid")],
        source: "nvmlEventSetWait_v2, or nvmlEventSetWait",
        sampler: Sampler::Gpu(xids),
    },
    Family {
        name: "gpulet_gpu_recovery_action",
        kind: Kind::Gauge,
        unit: None,
        help: "What the driver says must be done about a GPU: 1 for the action that holds.",
        labels: &[LabelName::listed("action", || ACTIONS.into_iter().chain([OTHER]).collect())],
        source: "nvmlDeviceGetFieldValues: NVML_FI_DEV_GET_GPU_RECOVERY_ACTION",
        sampler: Sampler::Sample(recovery),
    },
];

/// Xids after which a GPU cannot be used, or should not for long (source: NVIDIA's Xid catalogue: those with a reset, a
/// restart, a drain or a decoding as the next step). They are there from the start, or `increase()` would miss the first.
pub(super) const DANGEROUS: [u32; 30] = [
    46, 48, 54, 62, 63, 64, 74, 79, 92, 94, 95, 109, 110, 119, 120, 136, 140, 143, 144, 145, 146, 149, 150,
    151, 154, 155, 156, 157, 158, 160,
];

/// By the driver's number (source: `nvmlDeviceGpuRecoveryAction_t`).
const ACTIONS: [&str; 8] = [
    "none",
    "gpu_reset",
    "node_reboot",
    "drain_p2p",
    "drain_and_reset",
    "recover_imex_domain",
    "pcie_bus_reset",
    "system_reboot",
];

/// For a number that is newer than this program.
const OTHER: &str = "other";

fn ecc(_: &Gpu, sample: &Sample, series: &mut Series<'_>) {
    let ecc = &sample.ecc;
    for (kind, scope, errors) in [
        ("corrected", "volatile", &ecc.volatile_corrected),
        ("uncorrected", "volatile", &ecc.volatile_uncorrected),
        ("corrected", "aggregate", &ecc.aggregate_corrected),
        ("uncorrected", "aggregate", &ecc.aggregate_uncorrected),
    ] {
        series.reading(&[Label::Text(kind), Label::Text(scope)], errors, Value::from);
    }
}

fn remapped(_: &Gpu, sample: &Sample, series: &mut Series<'_>) {
    let Some(rows) = series.given(&[], &sample.remapped_rows) else { return };
    series.point(&[Label::Text("correctable")], rows.correctable.into());
    series.point(&[Label::Text("uncorrectable")], rows.uncorrectable.into());
}

fn xids(_: &Snapshot, state: &GpuState, series: &mut Series<'_>) {
    let Some(xids) = series.given(&[], &state.xids) else { return };
    for code in DANGEROUS {
        let times = xids.get(&code).copied().unwrap_or_default();
        series.point(&[Label::Number(code.into())], times.into());
    }
    for (code, times) in xids.iter().filter(|(code, _)| !DANGEROUS.contains(code)) {
        series.point(&[Label::Number((*code).into())], (*times).into());
    }
}

fn recovery(_: &Gpu, sample: &Sample, series: &mut Series<'_>) {
    let Some(action) = series.given(&[], &sample.recovery_action) else { return };
    let known = usize::try_from(*action).ok().and_then(|number| ACTIONS.get(number)).copied();
    series.one_of(&ACTIONS, known.unwrap_or(OTHER));
    series.one_of(&[OTHER], known.unwrap_or(OTHER));
}
