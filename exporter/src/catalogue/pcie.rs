//! The PCIe link.

use super::{Family, Kind, Sampler, Value};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "gpulet_gpu_pcie_link_generation",
        kind: Kind::Gauge,
        unit: None,
        help: "PCIe generation of the link now; an idle GPU lowers it to save power.",
        labels: &[],
        source: "nvmlDeviceGetCurrPcieLinkGeneration",
        sampler: Sampler::Sample(|_, sample, series| {
            series.reading(&[], &sample.pcie.generation, Value::from);
        }),
    },
    Family {
        name: "gpulet_gpu_pcie_link_max_generation",
        kind: Kind::Gauge,
        unit: None,
        help: "PCIe generation of the link: maximum that GPU and slot can negotiate.",
        labels: &[],
        source: "nvmlDeviceGetMaxPcieLinkGeneration",
        sampler: Sampler::Sample(|gpu, _, series| {
            series.reading(&[], &gpu.pcie_max.generation, Value::from);
        }),
    },
    Family {
        name: "gpulet_gpu_pcie_link_width",
        kind: Kind::Gauge,
        unit: None,
        help: "PCIe lanes of the link now.",
        labels: &[],
        source: "nvmlDeviceGetCurrPcieLinkWidth",
        sampler: Sampler::Sample(|_, sample, series| {
            series.reading(&[], &sample.pcie.width, Value::from);
        }),
    },
    Family {
        name: "gpulet_gpu_pcie_link_max_width",
        kind: Kind::Gauge,
        unit: None,
        help: "PCIe lanes of the link: maximum that GPU and slot can negotiate.",
        labels: &[],
        source: "nvmlDeviceGetMaxPcieLinkWidth",
        sampler: Sampler::Sample(|gpu, _, series| {
            series.reading(&[], &gpu.pcie_max.width, Value::from);
        }),
    },
    Family {
        name: "gpulet_gpu_pcie_transmitted_bytes",
        kind: Kind::Counter,
        unit: Some("bytes"),
        help: "Bytes that a GPU has sent over PCIe since the driver was loaded.",
        labels: &[],
        source: "nvmlDeviceGetFieldValues: NVML_FI_DEV_PCIE_COUNT_TX_BYTES",
        sampler: Sampler::Sample(|_, sample, series| {
            series.reading(&[], &sample.pcie.transmitted_bytes, Value::from);
        }),
    },
    Family {
        name: "gpulet_gpu_pcie_received_bytes",
        kind: Kind::Counter,
        unit: Some("bytes"),
        help: "Bytes that a GPU has received over PCIe since the driver was loaded.",
        labels: &[],
        source: "nvmlDeviceGetFieldValues: NVML_FI_DEV_PCIE_COUNT_RX_BYTES",
        sampler: Sampler::Sample(|_, sample, series| {
            series.reading(&[], &sample.pcie.received_bytes, Value::from);
        }),
    },
    Family {
        name: "gpulet_gpu_pcie_replays",
        kind: Kind::Counter,
        unit: None,
        help: "PCIe packets that had to be sent again since the driver was loaded.",
        labels: &[],
        source: "nvmlDeviceGetPcieReplayCounter",
        sampler: Sampler::Sample(|_, sample, series| {
            series.reading(&[], &sample.pcie.replays, Value::from);
        }),
    },
];
