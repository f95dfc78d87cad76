//! NVLink, per link.

use gpulet_inventory::gpu::Gpu;
use gpulet_inventory::link::{NvLink, NvLinkVersion, RemoteKind};
use gpulet_inventory::reading::{Answer, Reading};
use gpulet_inventory::sample::Sample;

use super::{Absence, Family, Kind, Label, LabelName, Sampler, Series, Value};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "gpulet_gpu_nvlink",
        kind: Kind::Info,
        unit: None,
        help: "NVLink version of a link and where its other end sits; absent while the driver does not tell, as for a link that is down.",
        labels: &[
            LabelName::any("link"),
            LabelName::any("version"),
            LabelName::listed("remote", || RemoteKind::ALL.map(RemoteKind::as_str).into()),
            LabelName::any("remote_pci_bus_id"),
        ],
        source: "nvmlDeviceGetNvLinkVersion, nvmlDeviceGetNvLinkRemoteDeviceType, nvmlDeviceGetNvLinkRemotePciInfo_v2",
        sampler: Sampler::Sample(info),
    },
    Family {
        name: "gpulet_gpu_nvlink_up",
        kind: Kind::Gauge,
        unit: None,
        help: "Whether an NVLink is up.",
        labels: &[LabelName::any("link")],
        source: "nvmlDeviceGetNvLinkState",
        sampler: Sampler::Sample(up),
    },
    Family {
        name: "gpulet_gpu_nvlink_transmitted_bytes",
        kind: Kind::Counter,
        unit: Some("bytes"),
        help: "Bytes sent over an NVLink since the driver was loaded.",
        labels: &[LabelName::any("link")],
        source: "nvmlDeviceGetFieldValues: NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX",
        sampler: Sampler::Sample(|_, sample, series| traffic(sample, series, |link| &link.transmitted_bytes)),
    },
    Family {
        name: "gpulet_gpu_nvlink_received_bytes",
        kind: Kind::Counter,
        unit: Some("bytes"),
        help: "Bytes received over an NVLink since the driver was loaded.",
        labels: &[LabelName::any("link")],
        source: "nvmlDeviceGetFieldValues: NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX",
        sampler: Sampler::Sample(|_, sample, series| traffic(sample, series, |link| &link.received_bytes)),
    },
];

fn number(link: &NvLink) -> Label<'static> {
    Label::Number(link.link.into())
}

fn info(_: &Gpu, sample: &Sample, series: &mut Series<'_>) {
    for link in series.given(&[], &sample.nvlinks).into_iter().flatten() {
        if let Some(answer) = untold(link) {
            series.missing(&[number(link)], Absence::Refused(answer));
            continue;
        }
        series.point(
            &[
                number(link),
                link.version
                    .value()
                    .map_or(Label::NONE, |version| Label::NvLinkVersion(NvLinkVersion(*version))),
                link.remote_kind.value().map_or(Label::NONE, |kind| Label::Text(kind.as_str())),
                link.remote_pci.value().map_or(Label::NONE, |pci| Label::Pci(*pci)),
            ],
            Value::flag(true),
        );
    }
}

/// Why a link's series must wait: it would have other labels than it has while the link is up. What the driver does
/// not support for a link that is up it never tells.
fn untold(link: &NvLink) -> Option<Answer> {
    fn answer<T>(reading: &Reading<T>, active: bool) -> Option<Answer> {
        match reading {
            Reading::Supported(_) => None,
            Reading::Unsupported(answer) => (!active).then_some(*answer),
            Reading::Failed(answer) => Some(*answer),
        }
    }
    let active = link.active;
    answer(&link.version, active)
        .or_else(|| answer(&link.remote_kind, active))
        .or_else(|| answer(&link.remote_pci, active))
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
