//! Who holds a GPU, and to whom the kubelet gave it.

use gpulet_inventory::holders::{Allocated, HeldDevice, Instance};
use gpulet_inventory::snapshot::{GpuState, Snapshot};

use super::{Family, Kind, Label, LabelName, Sampler, Series, Value};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "gpulet_gpu_holder",
        kind: Kind::Info,
        unit: None,
        help: "Whose processes hold a GPU or MIG instance; owner is pod, host: and a unit such as \
               host:nvidia-persistenced.service, or unknown for a process that was gone before it was looked at. \
               Without the Kubernetes API a Pod has its UID only.",
        labels: &[
            LabelName::any("gpu_instance"),
            LabelName::any("compute_instance"),
            LabelName::any("owner"),
            LabelName::any("namespace"),
            LabelName::any("pod"),
            LabelName::any("pod_uid"),
            LabelName::any("container"),
        ],
        source: "nvmlDeviceGetComputeRunningProcesses_v3, nvmlDeviceGetGraphicsRunningProcesses_v3, \
                 nvmlDeviceGetMPSComputeRunningProcesses_v3, /proc/PID/cgroup, the Kubernetes API",
        sampler: Sampler::Gpu(holders),
    },
    Family {
        name: "gpulet_gpu_allocated",
        kind: Kind::Info,
        unit: None,
        help: "Which containers the kubelet gave a GPU or MIG instance, whether they use it or not; several where it is \
               shared.",
        labels: &[
            LabelName::any("gpu_instance"),
            LabelName::any("compute_instance"),
            LabelName::any("resource"),
            LabelName::any("namespace"),
            LabelName::any("pod"),
            LabelName::any("container"),
        ],
        source: "the kubelet: PodResources List",
        sampler: Sampler::Gpu(allocated),
    },
    Family {
        name: "gpulet_kubelet_unknown_devices",
        kind: Kind::Gauge,
        unit: None,
        help: "GPUs and MIG instances that the kubelet gave to containers and that this node does not have now.",
        labels: &[],
        source: "the kubelet: PodResources List, held against the driver's GPUs and instances",
        sampler: Sampler::Node(|node, series| {
            series.point(&[], (node.holders.value.unknown.len() as u64).into());
        }),
    },
];

/// The GPU itself and its instances.
fn devices<'s>(node: &'s Snapshot, state: &'s GpuState) -> impl Iterator<Item = &'s HeldDevice> {
    node.holders.value.devices.iter().filter(|device| device.id.gpu == state.gpu.uuid)
}

fn instance<'a>(instance: Option<Instance>) -> [Label<'a>; 2] {
    let gpu = instance.map_or(Label::NONE, |instance| Label::Number(instance.gpu.0.into()));
    let compute = instance.and_then(|instance| instance.compute);
    [gpu, compute.map_or(Label::NONE, |compute| Label::Number(compute.0.into()))]
}

fn holders(node: &Snapshot, state: &GpuState, series: &mut Series<'_>) {
    // Of a GPU whose processes the driver does not list, the call that refused is told.
    if state.sample.as_ref().is_some_and(|sample| series.given(&[], &sample.processes).is_none()) {
        return;
    }
    for device in devices(node, state) {
        let [gpu_instance, compute_instance] = instance(device.id.instance);
        for owner in &device.owners {
            let pod = owner.pod();
            series.point(
                &[
                    gpu_instance,
                    compute_instance,
                    Label::Text(owner.as_str()),
                    Label::Text(pod.and_then(|pod| pod.namespace.as_deref()).unwrap_or_default()),
                    Label::Text(pod.and_then(|pod| pod.name.as_deref()).unwrap_or_default()),
                    Label::Text(pod.map_or("", |pod| &pod.uid)),
                    Label::Text(pod.and_then(|pod| pod.container.as_deref()).unwrap_or_default()),
                ],
                Value::flag(true),
            );
        }
    }
}

fn allocated(node: &Snapshot, state: &GpuState, series: &mut Series<'_>) {
    for device in devices(node, state) {
        let [gpu_instance, compute_instance] = instance(device.id.instance);
        for (position, to) in device.allocated.iter().enumerate() {
            // A container may have several shares of one device.
            if device.allocated.iter().take(position).any(|earlier| is_same(earlier, to)) {
                continue;
            }
            let labels = [&to.resource, &to.namespace, &to.pod, &to.container].map(|text| Label::Text(text));
            let [resource, namespace, pod, container] = labels;
            series.point(
                &[gpu_instance, compute_instance, resource, namespace, pod, container],
                Value::flag(true),
            );
        }
    }
}

fn is_same(one: &Allocated, other: &Allocated) -> bool {
    (&one.resource, &one.namespace, &one.pod, &one.container)
        == (&other.resource, &other.namespace, &other.pod, &other.container)
}
