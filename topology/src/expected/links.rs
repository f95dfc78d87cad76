//! Checks of links: against the profile where there is one, else against what the ends and the siblings can do.

use std::collections::{BTreeMap, BTreeSet};

use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::topology::{Finding, FindingReason, PlacedGpu, Severity, SlotLink, Topology};

use super::{ExpectedGpu, Profile, compare, finding};
use crate::label;

const RESEAT: &str = "reseat the card and check riser, cable and slot; firmware may also have split the slot";

pub(super) fn all(
    profile: Option<&Profile>,
    topology: &Topology,
    busy: &BTreeSet<PciAddress>,
    findings: &mut Vec<Finding>,
) {
    for gpu in &topology.gpus {
        let expected = profile.and_then(|profile| compare::expected_gpu(profile, topology, gpu));
        nvlink_degree(gpu, expected, topology, findings);
        let Some(link) = gpu.place.link else { continue };
        let wanted_width = expected.and_then(|gpu| gpu.pcie_width);
        width(&gpu.label, link, wanted_width, findings);
        gpu_speed(gpu, link, expected, topology, busy.contains(&gpu.place.pci), findings);
    }
    for nic in &topology.nics {
        let Some(link) = nic.place.link else { continue };
        let expected = profile.and_then(|profile| compare::expected_nic(profile, topology, nic));
        width(&nic.label, link, expected.and_then(|nic| nic.pcie_width), findings);
        if link.is_slow() {
            slow(&nic.label, link, "NICs do not lower it to save power", findings);
        }
    }
    for switch in &topology.pcie_switches {
        if let Some(link) = switch.link {
            width(&format!("PCIe switch {}", switch.upstream), link, None, findings);
        }
    }
}

fn width(subject: &str, link: SlotLink, expected: Option<u32>, findings: &mut Vec<Finding>) {
    let evidence = match (link.width, link.possible_width, expected) {
        (Some(now), Some(possible), _) if now < possible => {
            format!("the PCIe link has {now} lanes, both ends can have {possible}")
        }
        (_, Some(possible), Some(expected)) if possible < expected => {
            format!("the PCIe link can have {possible} lanes, expected are {expected}")
        }
        _ => return,
    };
    findings.push(finding(FindingReason::PcieWidthReduced, Severity::Fault, subject, evidence, RESEAT));
}

/// An idle GPU lowers its speed; what it can do at most, it never lowers.
fn gpu_speed(
    gpu: &PlacedGpu,
    link: SlotLink,
    expected: Option<&ExpectedGpu>,
    topology: &Topology,
    busy: bool,
    findings: &mut Vec<Finding>,
) {
    let sibling = || {
        let speed = |gpu: &PlacedGpu| gpu.place.link.and_then(|link| link.possible_speed_mts);
        most_have(topology, gpu, speed).map(|speed| (speed, "most GPUs of its kind can do"))
    };
    let by_profile = expected.and_then(|gpu| gpu.pcie_speed_mts).map(|speed| (speed, "expected is"));
    match (by_profile.or_else(sibling), link.possible_speed_mts) {
        (Some((wanted, who)), Some(possible)) if possible < wanted => findings.push(finding(
            FindingReason::PcieSpeedReduced,
            Severity::Fault,
            &gpu.label,
            format!(
                "the PCIe link can do {} at most, {who} {}",
                label::speed(possible),
                label::speed(wanted)
            ),
            "check the slot's speed in the firmware, riser and cable; a link that failed to train is held low",
        )),
        _ if busy && link.is_slow() => slow(&gpu.label, link, "the GPU is busy", findings),
        _ => {}
    }
}

fn slow(subject: &str, link: SlotLink, why_it_counts: &str, findings: &mut Vec<Finding>) {
    let (Some(now), Some(possible)) = (link.speed_mts, link.possible_speed_mts) else { return };
    findings.push(finding(
        FindingReason::PcieSpeedReduced,
        Severity::Fault,
        subject,
        format!(
            "the PCIe link runs at {}, both ends can do {}; {why_it_counts}",
            label::speed(now),
            label::speed(possible)
        ),
        RESEAT,
    ));
}

/// NVLinks that are up; absent where that says nothing of the board: not read, or off for MIG mode.
pub(super) fn up(gpu: &PlacedGpu) -> Option<u32> {
    (gpu.nvlinks.unread.is_none() && gpu.mig_mode != Some(true)).then_some(gpu.nvlinks.active)
}

fn nvlink_degree(
    gpu: &PlacedGpu,
    expected: Option<&ExpectedGpu>,
    topology: &Topology,
    findings: &mut Vec<Finding>,
) {
    if gpu.nvlinks.unread.is_some() {
        return;
    }
    let by_profile = expected.and_then(|gpu| gpu.nvlinks);
    let by_siblings = || most_have(topology, gpu, up).map(|links| (links, "most GPUs of its kind have"));
    let wanted = by_profile.map(|links| (links, "expected are")).or_else(by_siblings);
    let Some((wanted, who)) = wanted.filter(|(wanted, _)| gpu.nvlinks.active < *wanted) else { return };
    let mut evidence = format!("{} NVLinks are up, {who} {wanted}", gpu.nvlinks.active);
    if !gpu.nvlinks.down.is_empty() {
        let down = label::list(gpu.nvlinks.down.iter().map(ToString::to_string));
        evidence.push_str(&format!("; down: {down}"));
    }
    let (severity, remedy) = if gpu.mig_mode == Some(true) {
        evidence.push_str("; it is in MIG mode, which has no NVLink");
        (Severity::Note, "nothing, while the GPU shall be in MIG mode")
    } else if by_profile.is_none() && may_lack_a_bridge(gpu, topology) {
        evidence.push_str("; others of its kind are joined by bridges, and it may be meant to have none");
        (Severity::Note, "nothing, if it has no NVLink bridge; else reseat the bridge, and save a profile")
    } else {
        (
            Severity::Fault,
            "look for Xid 74 in the kernel log; gpulet quiesce, reset the GPU, gpulet resume; if it stays, check NVSwitches, baseboard or bridge",
        )
    };
    findings.push(finding(FindingReason::NvlinkDegraded, severity, &gpu.label, evidence, remedy));
}

/// Whether a GPU without any link up is of a kind whose links come by bridges that a person puts on: PCIe cards. On
/// other boards links are wired to NVSwitches, or to more than one other GPU; the NVL cards have bridges for four.
fn may_lack_a_bridge(gpu: &PlacedGpu, topology: &Topology) -> bool {
    let name = gpu.name.as_deref().unwrap_or_default();
    let widest = if name.ends_with(" NVL") { 4 } else { 2 };
    let alike = |at: &usize| topology.gpus.get(*at).is_some_and(|other| other.name == gpu.name);
    let mut islands = topology.nvlink_islands.iter().filter(|island| island.gpus.iter().any(alike));
    let switched = topology.gpus.iter().any(|other| other.name == gpu.name && other.nvlinks.to_switches > 0);
    let wired = switched || name.contains("SXM") || islands.any(|island| island.gpus.len() > widest);
    gpu.nvlinks.active == 0 && !wired
}

/// The value that more than half of the GPUs with this one's name have.
fn most_have(
    topology: &Topology,
    like: &PlacedGpu,
    value: impl Fn(&PlacedGpu) -> Option<u32>,
) -> Option<u32> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    let siblings = topology.gpus.iter().filter(|gpu| gpu.name.is_some() && gpu.name == like.name);
    for value in siblings.filter_map(value) {
        *counts.entry(value).or_insert(0) += 1;
    }
    let all: usize = counts.values().sum();
    counts.into_iter().find(|(_, count)| 2 * count > all).map(|(value, _)| value)
}
