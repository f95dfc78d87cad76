//! Where the GPUs sit, what is wrong with that, and how much room is left.

use gpulet_inventory::snapshot::Snapshot;
use gpulet_inventory::topology::{FindingReason, SeenBy};

use super::{Family, Kind, Label, LabelName, Sampler, Series, Value};

/// What the topology is read from.
const SOURCE: &str = "/sys/bus/pci/devices, /sys/devices/system/node, /sys/class/infiniband, \
                      nvmlDeviceGetTopologyCommonAncestor, nvmlDeviceGetNvLinkRemotePciInfo_v2, the expected profile";

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "gpulet_pci_gpu",
        kind: Kind::Info,
        unit: None,
        help: "NVIDIA GPUs that the kernel sees on the PCI bus, with the kernel driver that is bound to each.",
        labels: &[LabelName::any("pci_bus_id"), LabelName::any("driver"), LabelName::any("numa_node")],
        source: "/sys/bus/pci/devices",
        sampler: Sampler::Node(on_the_bus),
    },
    Family {
        name: "gpulet_topology_findings",
        kind: Kind::Gauge,
        unit: None,
        help: "What is wrong with the topology or worth knowing, by reason; /topology has the evidence and the remedy.",
        labels: &[LabelName::listed("reason", || FindingReason::ALL.map(FindingReason::as_str).into())],
        source: SOURCE,
        sampler: Sampler::Node(findings),
    },
    Family {
        name: "gpulet_topology_largest_free_set",
        kind: Kind::Gauge,
        unit: None,
        help: "GPUs in the largest free set within one NUMA node, PCIe switch or NVLink island; free is a GPU that \
               answers and that no process holds, whether or not it is allocated to a Pod.",
        labels: &[LabelName::words("within", &["numa_node", "pcie_switch", "nvlink_island"])],
        source: "the topology and nvmlDeviceGetComputeRunningProcesses_v3, nvmlDeviceGetGraphicsRunningProcesses_v3, \
                 nvmlDeviceGetMPSComputeRunningProcesses_v3",
        sampler: Sampler::Node(largest_free_sets),
    },
];

fn on_the_bus(node: &Snapshot, series: &mut Series<'_>) {
    let seen = |gpu: &&gpulet_inventory::topology::PlacedGpu| gpu.seen_by != SeenBy::Driver;
    for gpu in node.topology.value.model.gpus.iter().filter(seen) {
        let driver = Label::Text(gpu.kernel_driver.as_deref().unwrap_or_default());
        let numa_node = gpu.place.numa.node.map_or(Label::NONE, |node| Label::Number(node.0.into()));
        series.point(&[Label::Pci(gpu.place.pci), driver, numa_node], Value::flag(true));
    }
}

/// Every reason has its series, so that none comes or goes with a finding.
fn findings(node: &Snapshot, series: &mut Series<'_>) {
    for reason in FindingReason::ALL {
        let count = node.topology.value.findings.iter().filter(|finding| finding.reason == reason).count();
        series.point(&[Label::Text(reason.as_str())], (count as u64).into());
    }
}

fn largest_free_sets(node: &Snapshot, series: &mut Series<'_>) {
    let sets = &node.free_sets;
    for (within, set) in [
        ("numa_node", &sets.numa_node),
        ("pcie_switch", &sets.pcie_switch),
        ("nvlink_island", &sets.nvlink_island),
    ] {
        series.point(&[Label::Text(within)], (set.len() as u64).into());
    }
}
