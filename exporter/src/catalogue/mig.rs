//! MIG: mode and instances.

use gpulet_inventory::gpu::Gpu;
use gpulet_inventory::mig::{GpuInstance, MigProfile};
use gpulet_inventory::sample::Sample;

use super::{Family, Kind, Label, LabelName, Sampler, Series, Value};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "gpulet_gpu_mig_mode",
        kind: Kind::Gauge,
        unit: None,
        help: "1 if MIG mode is on; state current: now, pending: after the next reset.",
        labels: &[LabelName::words("state", &["current", "pending"])],
        source: "nvmlDeviceGetMigMode",
        sampler: Sampler::Sample(mode),
    },
    Family {
        name: "gpulet_gpu_mig_instances",
        kind: Kind::Gauge,
        unit: None,
        help: "GPU instances that exist now, by profile; 0 for a profile that the GPU offers and that is not in use.",
        labels: &[LabelName::any("profile"), LabelName::any("profile_id")],
        source: "nvmlDeviceGetGpuInstanceProfileInfoV, nvmlDeviceGetGpuInstances, nvmlGpuInstanceGetInfo",
        sampler: Sampler::Sample(instances),
    },
];

fn mode(_: &Gpu, sample: &Sample, series: &mut Series<'_>) {
    let Some(mig) = series.given(&[], &sample.mig) else { return };
    series.point(&[Label::Text("current")], Value::flag(mig.mode.current));
    series.point(&[Label::Text("pending")], Value::flag(mig.mode.pending));
}

/// Profiles by id; names are absent with old drivers, and ids only compare between GPUs of one model.
fn instances(_: &Gpu, sample: &Sample, series: &mut Series<'_>) {
    let Some(mig) = series.given(&[], &sample.mig).filter(|mig| mig.mode.current) else { return };
    let Some(instances) = series.given(&[], &mig.instances) else { return };
    let profiles: &[MigProfile] = series.given(&[], &mig.profiles).map(Vec::as_slice).unwrap_or_default();
    for (position, profile) in profiles.iter().enumerate() {
        let earlier = profiles.iter().take(position).any(|other| other.id == profile.id);
        if !earlier {
            count(profile.name.as_deref(), profile.id, instances, series);
        }
    }
    for (position, instance) in instances.iter().enumerate() {
        let id = instance.profile_id;
        let earlier = instances.iter().take(position).any(|other| other.profile_id == id);
        if !earlier && !profiles.iter().any(|profile| profile.id == id) {
            count(None, id, instances, series);
        }
    }
}

fn count(name: Option<&str>, id: u32, instances: &[GpuInstance], series: &mut Series<'_>) {
    let count = instances.iter().filter(|instance| instance.profile_id == id).count();
    series.point(&[Label::Text(name.unwrap_or_default()), Label::Number(id.into())], (count as u64).into());
}
