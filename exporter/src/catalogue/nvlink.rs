//! NVLink, per link.

use gpulet_inventory::gpu::Gpu;
use gpulet_inventory::link::NvLink;
use gpulet_inventory::reading::Reading;
use gpulet_inventory::sample::Sample;

use super::{Family, Kind, Label, Sampler, Series, Value};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "gpulet_gpu_nvlink",
        kind: Kind::Info,
        unit: None,
        help: "What an NVLink is and where its other end sits.",
        labels: &["link", "version", "remote", "remote_pci_bus_id"],
        source: "nvmlDeviceGetNvLinkVersion, nvmlDeviceGetNvLinkRemoteDeviceType, nvmlDeviceGetNvLinkRemotePciInfo_v2",
        sampler: Sampler::Sample(info),
    },
    Family {
        name: "gpulet_gpu_nvlink_up",
        kind: Kind::Gauge,
        unit: None,
        help: "Whether an NVLink is up.",
        labels: &["link"],
        source: "nvmlDeviceGetNvLinkState",
        sampler: Sampler::Sample(up),
    },
    Family {
        name: "gpulet_gpu_nvlink_transmitted_bytes",
        kind: Kind::Counter,
        unit: Some("bytes"),
        help: "Bytes sent over an NVLink since the driver was loaded.",
        labels: &["link"],
        source: "nvmlDeviceGetFieldValues: NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX",
        sampler: Sampler::Sample(|_, sample, series| traffic(sample, series, |link| &link.transmitted_bytes)),
    },
    Family {
        name: "gpulet_gpu_nvlink_received_bytes",
        kind: Kind::Counter,
        unit: Some("bytes"),
        help: "Bytes received over an NVLink since the driver was loaded.",
        labels: &["link"],
        source: "nvmlDeviceGetFieldValues: NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX",
        sampler: Sampler::Sample(|_, sample, series| traffic(sample, series, |link| &link.received_bytes)),
    },
];

fn number(link: &NvLink) -> Label<'static> {
    Label::Number(link.link.into())
}

fn info(_: &Gpu, sample: &Sample, series: &mut Series<'_>) {
    for link in series.given(&[], &sample.nvlinks).into_iter().flatten() {
        series.point(
            &[
                number(link),
                link.version.value().map_or(Label::NONE, |version| Label::Number((*version).into())),
                link.remote_kind.value().map_or(Label::NONE, |kind| Label::Text(kind.as_str())),
                link.remote_pci.value().map_or(Label::NONE, |pci| Label::Pci(*pci)),
            ],
            Value::flag(true),
        );
    }
}

fn up(_: &Gpu, sample: &Sample, series: &mut Series<'_>) {
    for link in series.given(&[], &sample.nvlinks).into_iter().flatten() {
        series.point(&[number(link)], Value::flag(link.active));
    }
}

fn traffic(sample: &Sample, series: &mut Series<'_>, direction: fn(&NvLink) -> &Reading<u64>) {
    for link in series.given(&[], &sample.nvlinks).into_iter().flatten() {
        series.reading(&[number(link)], direction(link), Value::from);
    }
}
