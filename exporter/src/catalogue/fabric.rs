//! Registration with an NVSwitch fabric.

use gpulet_inventory::gpu::Gpu;
use gpulet_inventory::sample::{Fabric, Sample};

use super::{Family, Kind, Label, LabelName, Sampler, Series, Value};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "gpulet_gpu_fabric_state",
        kind: Kind::Gauge,
        unit: None,
        help: "Registration of a GPU with its NVSwitch fabric: 1 for the state that holds.",
        labels: &[LabelName::words("state", &STATES)],
        source: "nvmlDeviceGetGpuFabricInfoV",
        sampler: Sampler::Sample(|_, sample, series| {
            let fabric = series.given(&[], &sample.fabric);
            fabric.into_iter().for_each(|fabric| series.one_of(&STATES, state(fabric)));
        }),
    },
    Family {
        name: "gpulet_gpu_fabric",
        kind: Kind::Info,
        unit: None,
        help: "The NVLink domain and the clique that a GPU has joined.",
        labels: &[LabelName::any("cluster_uuid"), LabelName::any("clique_id")],
        source: "nvmlDeviceGetGpuFabricInfoV",
        sampler: Sampler::Sample(info),
    },
];

const STATES: [&str; 6] = ["not_supported", "not_started", "in_progress", "completed", "failed", "other"];

/// The status means something only once registration is over.
fn state(fabric: &Fabric) -> &'static str {
    match (fabric.state, fabric.status) {
        (0, _) => "not_supported",
        (1, _) => "not_started",
        (2, _) => "in_progress",
        (3, 0) => "completed",
        (3, _) => "failed",
        _ => "other",
    }
}

fn info(_: &Gpu, sample: &Sample, series: &mut Series<'_>) {
    let Some(fabric) = series.given(&[], &sample.fabric).filter(|fabric| state(fabric) == "completed") else {
        return;
    };
    let cluster = Label::Text(fabric.cluster_uuid.as_deref().unwrap_or_default());
    let clique = fabric.clique_id.map_or(Label::NONE, |id| Label::Number(id.into()));
    series.point(&[cluster, clique], Value::flag(true));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completed_registration_with_an_error_has_failed() {
        let fabric = |state, status| Fabric { state, status, clique_id: None, cluster_uuid: None };
        assert_eq!(state(&fabric(3, 0)), "completed");
        assert_eq!(state(&fabric(3, 999)), "failed");
        assert_eq!(state(&fabric(1, 999)), "not_started");
        assert_eq!(state(&fabric(4, 0)), "other");
        assert!((0..6).all(|number| STATES.contains(&state(&fabric(number, 0)))));
    }
}
