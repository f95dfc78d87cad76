//! Checks that need no profile: contradictions and gaps in the topology itself.

use gpulet_inventory::locality::Level;
use gpulet_inventory::topology::{
    Device, FabricAbsent, FabricPlace, Finding, FindingReason, PlacedGpu, SeenBy, Severity, Topology,
};

use super::finding;
use crate::label;

pub(super) fn all(topology: &Topology, findings: &mut Vec<Finding>) {
    down(topology, findings);
    seen_by_one(topology, findings);
    numa_unknown(topology, findings);
    divergence(topology, findings);
    asymmetric(topology, findings);
    acs(topology, findings);
    fabric(topology, findings);
}

/// Where the driver itself is down it says so elsewhere, once.
fn down(topology: &Topology, findings: &mut Vec<Finding>) {
    for gpu in &topology.gpus {
        let Some(reason) = label::fault(gpu) else { continue };
        findings.push(finding(
            FindingReason::GpuDown,
            Severity::Fault,
            &gpu.label,
            format!("the driver gets no answer from the GPU at {}: {reason}", gpu.place.pci),
            "look for Xid and NVRM messages on this address in the kernel log; gpulet quiesce, reset the GPU, gpulet resume; if it \
             stays, power-cycle the node",
        ));
    }
}

/// Without any GPU in the driver's list the driver itself is the matter, and it says so elsewhere.
fn seen_by_one(topology: &Topology, findings: &mut Vec<Finding>) {
    if topology.gpus.iter().all(|gpu| gpu.seen_by == SeenBy::Kernel) {
        return;
    }
    for gpu in &topology.gpus {
        match (gpu.seen_by, gpu.kernel_driver.as_deref()) {
            (SeenBy::Both, _) => {}
            (SeenBy::Kernel, Some(driver @ ("vfio-pci" | "pci-stub"))) => findings.push(finding(
                FindingReason::GpuWithoutDriver,
                Severity::Note,
                &gpu.label,
                format!("it is bound to {driver}, kept for a virtual machine"),
                "nothing, if a virtual machine shall have it; else bind it to the nvidia driver",
            )),
            (SeenBy::Kernel, driver) => findings.push(finding(
                FindingReason::GpuWithoutDriver,
                Severity::Fault,
                &gpu.label,
                format!(
                    "it is on the PCI bus, kernel driver {}, and not in the driver's list",
                    label::name(driver.unwrap_or("none"))
                ),
                "look in the kernel log for NVRM messages on this address; bind it to the nvidia driver, or reset it",
            )),
            (SeenBy::Driver, _) => findings.push(finding(
                FindingReason::GpuHidden,
                Severity::Note,
                &gpu.label,
                format!("the driver lists it at {} and sysfs has no such device", gpu.place.pci),
                "mount the host's /sys into this container, or check --host-root",
            )),
        }
    }
}

fn numa_unknown(topology: &Topology, findings: &mut Vec<Finding>) {
    if topology.numa_nodes.is_empty() {
        return;
    }
    let listed = topology.gpus.iter().filter(|gpu| gpu.seen_by != SeenBy::Driver);
    for gpu in listed.filter(|gpu| gpu.place.numa.node.is_none()) {
        findings.push(finding(
            FindingReason::NumaUnknown,
            Severity::Fault,
            &gpu.label,
            "neither sysfs (numa_node is -1), the bridges above it, its local CPUs nor the driver name a NUMA node"
                .to_owned(),
            "update the firmware, or set the NUMA affinity of its slot there; until then nothing is placed near it",
        ));
    }
}

/// One finding for all pairs with the same two words, which are its subject.
fn divergence(topology: &Topology, findings: &mut Vec<Finding>) {
    let mut words: Vec<(Level, Level, Vec<String>)> = Vec::new();
    for pair in topology.pairs.iter().filter(|pair| pair.diverges()) {
        let (Some(kernel), Some(driver)) = (pair.level, pair.driver_level) else { continue };
        let couple = format!("{}-{}", topology.label(pair.a), topology.label(pair.b));
        match words.iter_mut().find(|(k, d, _)| (*k, *d) == (kernel, driver)) {
            Some((.., couples)) => couples.push(couple),
            None => words.push((kernel, driver, vec![couple])),
        }
    }
    for (kernel, driver, couples) in words {
        findings.push(finding(
            FindingReason::LevelDivergence,
            Severity::Note,
            &format!("{}/{}", kernel.as_str(), driver.as_str()),
            format!(
                "sysfs says {} and the driver says {} of {}",
                kernel.as_str(),
                driver.as_str(),
                label::list(couples)
            ),
            "nothing: placement goes by sysfs; nvidia-smi and NCCL may show the driver's word",
        ));
    }
}

fn asymmetric(topology: &Topology, findings: &mut Vec<Finding>) {
    for pair in &topology.pairs {
        let Some((first, second)) = pair.nvlink.and_then(|nvlink| nvlink.asymmetric) else { continue };
        if [pair.a, pair.b].iter().any(|device| is_in_mig_mode(topology, *device)) {
            continue;
        }
        let (a, b) = (topology.label(pair.a), topology.label(pair.b));
        findings.push(finding(
            FindingReason::NvlinkAsymmetric,
            Severity::Fault,
            &format!("{a}-{b}"),
            format!(
                "{a} counts {first} active NVLinks to {b}, which counts {second}; {} are used",
                first.min(second)
            ),
            "gpulet quiesce, reset both GPUs, gpulet resume; if it stays, check the NVLink bridge or the board",
        ));
    }
}

/// Such a GPU has its links off, whatever its neighbours count.
fn is_in_mig_mode(topology: &Topology, device: Device) -> bool {
    matches!(device, Device::Gpu(at) if topology.gpus.get(at).is_some_and(|gpu| gpu.mig_mode == Some(true)))
}

fn acs(topology: &Topology, findings: &mut Vec<Finding>) {
    for (at, switch) in topology.pcie_switches.iter().enumerate() {
        if switch.redirecting.is_empty() {
            continue;
        }
        let below = |device: &Device| is_below(topology, *device, at);
        let devices: Vec<Device> = topology.devices().filter(below).collect();
        let with_gpu = devices.iter().any(|device| matches!(device, Device::Gpu(_)));
        if !with_gpu || devices.len() < 2 {
            continue;
        }
        let labels = label::list(devices.iter().map(|device| topology.label(*device)));
        let ports = label::list(switch.redirecting.iter().map(ToString::to_string));
        findings.push(finding(
            FindingReason::AcsRedirect,
            Severity::Fault,
            &switch.upstream.to_string(),
            format!("ACS of port {ports} sends traffic between {labels} up to the root complex"),
            "switch ACS off in the firmware or by setpci on these ports, unless GPUs are given to virtual machines",
        ));
    }
}

/// Whether a device hangs below a switch, switches under it included.
fn is_below(topology: &Topology, device: Device, switch: usize) -> bool {
    let place = match device {
        Device::Gpu(gpu) => topology.gpus.get(gpu).map(|gpu| &gpu.place),
        Device::Nic(nic) => topology.nics.get(nic).map(|nic| &nic.place),
    };
    let mut above = place.and_then(|place| place.pcie_switch);
    while let Some(at) = above {
        if at == switch {
            return true;
        }
        let parent = topology.pcie_switches.get(at).and_then(|switch| switch.parent);
        above = parent.filter(|parent| *parent < at);
    }
    false
}

fn fabric(topology: &Topology, findings: &mut Vec<Finding>) {
    if are_registered_apart(&topology.gpus) {
        let told = |gpu: &PlacedGpu| format!("{}: {}", gpu.label, clique(&gpu.fabric));
        findings.push(finding(
            FindingReason::FabricIncomplete,
            Severity::Fault,
            "NVLink fabric",
            format!(
                "the GPUs are not in one clique ({})",
                topology.gpus.iter().map(told).collect::<Vec<_>>().join(", ")
            ),
            "check the fabric manager (or IMEX and the switch trays), then gpulet quiesce, reset the GPUs that differ, gpulet resume",
        ));
        return;
    }
    for gpu in topology.gpus.iter().filter(|gpu| gpu.nvlinks.to_switches > 0) {
        if let FabricPlace::Absent(
            why @ (FabricAbsent::NotStarted | FabricAbsent::InProgress | FabricAbsent::Failed { .. }),
        ) = &gpu.fabric
        {
            findings.push(finding(
                FindingReason::FabricIncomplete,
                Severity::Fault,
                &gpu.label,
                format!("its registration with the NVLink fabric is {}", why.reason()),
                "check that nvidia-fabricmanager runs and fits the driver's version",
            ));
        }
    }
}

/// Whether GPUs that can be registered are so differently. One of a kind that has no fabric is no matter of theirs.
fn are_registered_apart(gpus: &[PlacedGpu]) -> bool {
    let has_no_say = |place: &FabricPlace| {
        matches!(place, FabricPlace::Absent(FabricAbsent::NotSupported | FabricAbsent::Unread { .. }))
    };
    let mut places = gpus.iter().map(|gpu| &gpu.fabric).filter(|place| !has_no_say(place));
    places.next().is_some_and(|first| places.any(|place| place != first))
}

fn clique(place: &FabricPlace) -> String {
    match place {
        FabricPlace::Clique { cluster_uuid, clique_id } => {
            format!("{}.{clique_id}", label::name(cluster_uuid))
        }
        FabricPlace::Absent(why) => why.reason().to_owned(),
    }
}
