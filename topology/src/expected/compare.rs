//! What the profile expects and the topology has.
//!
//! A device is known by its identity where it has one, else by its place: another GPU or NIC of the same kind in the
//! same place is as good as the one before, and one of another model is not.

use std::collections::BTreeMap;

use gpulet_inventory::locality::Level;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::topology::{Device, Finding, FindingReason, PlacedGpu, PlacedNic, Severity, Topology};

use super::{ExpectedGpu, ExpectedNic, Profile, finding};
use crate::label;

pub(super) fn all(profile: &Profile, topology: &Topology, findings: &mut Vec<Finding>) {
    for expected in &profile.gpus {
        match find_gpu(profile, topology, expected) {
            None => findings.push(missing_gpu(expected)),
            Some(gpu) => {
                moved_gpu(expected, gpu, findings);
                other_model(expected, gpu, findings);
            }
        }
    }
    let near = near_gpus(topology);
    for expected in &profile.nics {
        match find_nic(profile, topology, expected) {
            None => findings.push(missing_nic(expected)),
            Some(nic) => {
                moved_nic(expected, nic, topology, &near, findings);
                without_rdma(expected, nic, findings);
            }
        }
    }
    let switches: Vec<PciAddress> = topology.pcie_switches.iter().map(|switch| switch.upstream).collect();
    missing_switches(&profile.pcie_switches, &switches, FindingReason::SwitchMissing, findings);
    let nvswitches: Vec<PciAddress> = topology.nvswitches.iter().map(|place| place.pci).collect();
    missing_switches(&profile.nvswitches, &nvswitches, FindingReason::NvSwitchMissing, findings);
}

/// What the profile expects of a GPU.
pub(super) fn expected_gpu<'a>(
    profile: &'a Profile,
    topology: &Topology,
    gpu: &PlacedGpu,
) -> Option<&'a ExpectedGpu> {
    let is_it = |found: &PlacedGpu| found.place.pci == gpu.place.pci;
    profile.gpus.iter().find(|expected| find_gpu(profile, topology, expected).is_some_and(is_it))
}

/// What the profile expects of a NIC.
pub(super) fn expected_nic<'a>(
    profile: &'a Profile,
    topology: &Topology,
    nic: &PlacedNic,
) -> Option<&'a ExpectedNic> {
    let is_it = |found: &PlacedNic| found.place.pci == nic.place.pci;
    profile.nics.iter().find(|expected| find_nic(profile, topology, expected).is_some_and(is_it))
}

/// The GPU that an expected one is now. One that is expected elsewhere does not stand in for it: with a GPU gone, the
/// kernel numbers buses anew, and another then has its address.
fn find_gpu<'a>(profile: &Profile, topology: &'a Topology, expected: &ExpectedGpu) -> Option<&'a PlacedGpu> {
    let same = |expected: &ExpectedGpu, gpu: &PlacedGpu| expected.uuid.is_some() && expected.uuid == gpu.uuid;
    let known = topology.gpus.iter().find(|gpu| same(expected, gpu));
    known.or_else(|| {
        let in_place = topology.gpus.iter().find(|gpu| gpu.place.pci == expected.pci)?;
        profile.gpus.iter().all(|other| !same(other, in_place)).then_some(in_place)
    })
}

/// The NIC that an expected one is now, as for GPUs. Functions of one card may have one GUID: then the place decides.
fn find_nic<'a>(profile: &Profile, topology: &'a Topology, expected: &ExpectedNic) -> Option<&'a PlacedNic> {
    let in_place = topology.nics.iter().find(|nic| nic.place.pci == expected.pci);
    if let Some(nic) = in_place.filter(|nic| same_guid(expected, nic)) {
        return Some(nic);
    }
    let known = topology.nics.iter().find(|nic| same_guid(expected, nic));
    known.or(in_place.filter(|nic| profile.nics.iter().all(|other| !same_guid(other, nic))))
}

/// All zeros is what firmware gives that has no GUID.
fn same_guid(expected: &ExpectedNic, nic: &PlacedNic) -> bool {
    let given = expected.node_guid.as_ref().filter(|guid| guid.bytes().any(|b| b != b'0' && b != b':'));
    given.is_some() && given == nic.node_guid.as_ref()
}

fn missing_gpu(expected: &ExpectedGpu) -> Finding {
    let name = label::name(expected.name.as_deref().unwrap_or("a GPU"));
    finding(
        FindingReason::GpuMissing,
        Severity::Fault,
        &expected.pci.to_string(),
        format!("{name} is expected there, and neither the kernel nor the driver lists one"),
        "look in the kernel log for Xid 79 and PCIe errors; power-cycle the node, then reseat or replace the GPU",
    )
}

fn moved_gpu(expected: &ExpectedGpu, gpu: &PlacedGpu, findings: &mut Vec<Finding>) {
    let mut evidence = Vec::new();
    if gpu.place.pci != expected.pci {
        evidence.push(format!("it is at {}, expected at {}", gpu.place.pci, expected.pci));
    }
    if let (Some(now), Some(before)) = (gpu.place.numa.node, expected.numa_node)
        && now != before
    {
        evidence.push(format!("it is on NUMA node {now}, expected on {before}"));
    }
    if !evidence.is_empty() {
        findings.push(finding(
            FindingReason::GpuMoved,
            Severity::Note,
            &gpu.label,
            evidence.join("; "),
            "save the profile anew if the change was wanted",
        ));
    }
}

/// The very GPU that was expected stays the same model, whatever a newer driver calls it.
fn other_model(expected: &ExpectedGpu, gpu: &PlacedGpu, findings: &mut Vec<Finding>) {
    let (Some(before), Some(now)) = (&expected.name, &gpu.name) else { return };
    if before == now {
        return;
    }
    let (before, now) = (label::name(before), label::name(now));
    let (severity, evidence) = if expected.uuid.is_some() && expected.uuid == gpu.uuid {
        (Severity::Note, format!("it is expected to be called {before} and the driver calls it {now}"))
    } else {
        (Severity::Fault, format!("{before} is expected at {}, and {now} is there", expected.pci))
    };
    findings.push(finding(
        FindingReason::GpuModelChanged,
        severity,
        &gpu.label,
        evidence,
        "put the expected model back, or save the profile anew if the change was wanted",
    ));
}

fn missing_nic(expected: &ExpectedNic) -> Finding {
    let name = label::name(expected.rdma.as_deref().unwrap_or("a network device"));
    finding(
        FindingReason::NicMissing,
        Severity::Fault,
        &expected.pci.to_string(),
        format!("{name} is expected there, and the kernel lists none"),
        "look in the kernel log for its driver and PCIe errors; reseat or replace the card",
    )
}

fn moved_nic(
    expected: &ExpectedNic,
    nic: &PlacedNic,
    topology: &Topology,
    near: &BTreeMap<PciAddress, Vec<PciAddress>>,
    findings: &mut Vec<Finding>,
) {
    let mut evidence = Vec::new();
    if nic.place.pci != expected.pci {
        evidence.push(format!("it is at {}, expected at {}", nic.place.pci, expected.pci));
    }
    if let (Some(now), Some(before)) = (nic.place.numa.node, expected.numa_node)
        && now != before
    {
        evidence.push(format!("it is on NUMA node {now}, expected on {before}"));
    }
    let now = near.get(&nic.place.pci).map(Vec::as_slice).unwrap_or_default();
    let here = |pci: &&PciAddress| topology.gpus.iter().any(|gpu| gpu.place.pci == **pci);
    let away = expected.near_gpus.iter().filter(here).filter(|gpu| !now.contains(gpu));
    let lost: Vec<String> = away.map(ToString::to_string).collect();
    if !lost.is_empty() {
        evidence.push(format!("it is no longer near {}", label::list(lost)));
    }
    if !evidence.is_empty() {
        let name = label::name(&nic.name());
        findings.push(finding(
            FindingReason::NicMoved,
            Severity::Fault,
            &nic.label,
            format!("{name}: {}", evidence.join("; ")),
            "put the card back into its slot, or save the profile anew if the change was wanted",
        ));
    }
}

/// The device is still a network device to the kernel, or none at all, when the RDMA driver is not loaded.
fn without_rdma(expected: &ExpectedNic, nic: &PlacedNic, findings: &mut Vec<Finding>) {
    let Some(name) = expected.rdma.as_deref().filter(|_| nic.rdma.is_none()) else { return };
    findings.push(finding(
        FindingReason::NicWithoutRdma,
        Severity::Fault,
        &nic.label,
        format!("{} is expected at {}, and the device there has no RDMA", label::name(name), expected.pci),
        "load the RDMA driver of the card (such as mlx5_ib) and look for it in the kernel log; a container that \
         has the RDMA device for itself hides it too",
    ));
}

/// The kernel numbers buses anew when a card comes or goes, so only a smaller number of switches is a loss. Which are
/// lost is certain only where all others are where they were.
fn missing_switches(
    expected: &[PciAddress],
    now: &[PciAddress],
    reason: FindingReason,
    findings: &mut Vec<Finding>,
) {
    let absent: Vec<String> =
        expected.iter().filter(|pci| !now.contains(pci)).map(ToString::to_string).collect();
    let fewer = expected.len().saturating_sub(now.len());
    if fewer == 0 {
        return;
    }
    let counts = format!("{} are expected and {} are there", expected.len(), now.len());
    let mut lost = |subject: &str, evidence: String| {
        let remedy =
            "look in the kernel log for PCIe errors; power-cycle the node, then have the board checked";
        findings.push(finding(reason, Severity::Fault, subject, evidence, remedy));
    };
    if absent.len() == fewer {
        for pci in &absent {
            lost(pci, counts.clone());
        }
    } else {
        lost("several", format!("{counts}; not at their addresses: {}", label::list(absent)));
    }
}

/// By NIC: the GPUs that reach it without a host bridge.
pub(super) fn near_gpus(topology: &Topology) -> BTreeMap<PciAddress, Vec<PciAddress>> {
    let near = |nic: usize| {
        let close = move |gpu: usize| {
            let pair = topology.pair(Device::Gpu(gpu), Device::Nic(nic));
            pair.and_then(|pair| pair.level).is_some_and(|level| level <= Level::Pxb)
        };
        topology.gpus.iter().enumerate().filter(move |(at, _)| close(*at)).map(|(_, gpu)| gpu.place.pci)
    };
    topology.nics.iter().enumerate().map(|(at, nic)| (nic.place.pci, near(at).collect())).collect()
}
