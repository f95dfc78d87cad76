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

fn nvlink_degree(
    gpu: &PlacedGpu,
    expected: Option<&ExpectedGpu>,
    topology: &Topology,
    findings: &mut Vec<Finding>,
) {
    if gpu.nvlinks.unread.is_some() {
        return;
    }
    let active = |gpu: &PlacedGpu| gpu.nvlinks.unread.is_none().then_some(gpu.nvlinks.active);
    let sibling = || most_have(topology, gpu, active).map(|links| (links, "most GPUs of its kind have"));
    let by_profile = expected.and_then(|gpu| gpu.nvlinks).map(|links| (links, "expected are"));
    let Some((wanted, who)) = by_profile.or_else(sibling).filter(|(wanted, _)| gpu.nvlinks.active < *wanted)
    else {
        return;
    };
    let mut evidence = format!("{} NVLinks are up, {who} {wanted}", gpu.nvlinks.active);
    if !gpu.nvlinks.down.is_empty() {
        let down = label::list(gpu.nvlinks.down.iter().map(ToString::to_string));
        evidence.push_str(&format!("; down: {down}"));
    }
    findings.push(finding(
        FindingReason::NvlinkDegraded,
        Severity::Fault,
        &gpu.label,
        evidence,
        "look for Xid 74 in the kernel log, reset the GPU; if it stays, check NVSwitches, baseboard or bridge",
    ));
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
