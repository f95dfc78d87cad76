//! The expected profile and the findings.

use std::collections::BTreeSet;

use gpulet_inventory::locality::Level;
use gpulet_inventory::numa::NumaNodeId;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::reading::Reading;
use gpulet_inventory::sample::Fabric;
use gpulet_inventory::topology::{Finding, FindingReason, Severity};
use gpulet_topology::expected::Profile;
use gpulet_topology::findings;

use crate::support::machine::Machine;
use crate::support::machines;

fn without_profile(machine: &Machine) -> Vec<Finding> {
    findings(None, &machine.topology(), &BTreeSet::new())
}

fn against(before: &Machine, now: &Machine) -> Vec<Finding> {
    let profile = Profile::of(&before.topology());
    let text = serde_json::to_string(&profile).unwrap();
    let kept: Profile = serde_json::from_str(&text).unwrap();
    assert_eq!(kept, profile);
    kept.check().unwrap();
    findings(Some(&kept), &now.topology(), &BTreeSet::new())
}

fn words(findings: &[Finding]) -> Vec<(FindingReason, &str)> {
    findings.iter().map(|finding| (finding.reason, finding.subject.as_str())).collect()
}

fn remove(machine: &mut Machine, pci: PciAddress) {
    machine.host.pci.retain(|device| device.address != pci);
    machine.host.nics.retain(|nic| nic.pci != pci);
    machine.gpus.retain(|gpu| gpu.pci != pci);
}

#[test]
fn a_sound_machine_has_no_findings_with_or_without_its_profile() {
    for machine in [machines::dgx_h100(), machines::l40s_4x(), machines::dgx_1v()] {
        assert_eq!(without_profile(&machine), []);
        assert_eq!(against(&machine, &machine), []);
    }
}

#[test]
fn a_missing_gpu_nic_switch_and_nvswitch_are_found() {
    let before = machines::dgx_h100();
    let topology = before.topology();
    let mut now = before.clone();
    remove(&mut now, before.gpus[3].pci);
    let nic = topology.nics[12].place.pci;
    remove(&mut now, nic);
    let nvswitch = topology.nvswitches[1].pci;
    remove(&mut now, nvswitch);
    let found = against(&before, &now);
    assert_eq!(
        words(&found),
        [
            (FindingReason::GpuMissing, before.gpus[3].pci.to_string().as_str()),
            (FindingReason::NicMissing, nic.to_string().as_str()),
            (FindingReason::NvSwitchMissing, nvswitch.to_string().as_str()),
        ]
    );
    assert!(found.iter().all(|finding| !finding.evidence.is_empty() && !finding.remedy.is_empty()));

    // The buses of the other NVSwitches moved with it.
    for (nvswitch, bus) in topology.nvswitches.iter().skip(2).zip(0xf0..) {
        now.pci(nvswitch.pci).address.bus = bus;
    }
    let found = against(&before, &now);
    let last = found.last().unwrap();
    assert_eq!((last.reason, last.subject.as_str()), (FindingReason::NvSwitchMissing, "several"));
    assert!(last.evidence.starts_with("4 are expected and 3 are there; not at"), "{}", last.evidence);

    // The whole arm with GPU 0, its NIC and their switch is gone.
    let mut now = before.clone();
    let arm = topology.gpus[0].place.path.clone().unwrap().bridges[3];
    now.host.pci.retain(|device| !device.path.bridges.contains(&arm));
    let here: Vec<PciAddress> = now.host.pci.iter().map(|device| device.address).collect();
    now.host.nics.retain(|nic| here.contains(&nic.pci));
    now.gpus.retain(|gpu| here.contains(&gpu.pci));
    let found = against(&before, &now);
    let reasons: Vec<FindingReason> = found.iter().map(|finding| finding.reason).collect();
    assert_eq!(reasons, [FindingReason::GpuMissing, FindingReason::NicMissing, FindingReason::SwitchMissing]);
    assert_eq!(found[2].subject, arm.to_string());
}

#[test]
fn another_gpu_in_the_same_place_is_as_good_and_one_in_another_place_is_noted() {
    let before = machines::l40s_4x();
    let mut now = before.clone();
    now.gpus[2].uuid = "GPU-aaaaaaaa-0000-0000-0000-000000000000".parse().unwrap();
    assert_eq!(against(&before, &now), []);
    let (first, second) = (now.gpus[0].pci, now.gpus[3].pci);
    (now.gpus[0].pci, now.gpus[3].pci) = (second, first);
    let found = against(&before, &now);
    assert_eq!(words(&found), [(FindingReason::GpuMoved, "GPU0"), (FindingReason::GpuMoved, "GPU3")]);
    assert!(found[0].evidence.contains("NUMA node 1, expected on 0"), "{}", found[0].evidence);
    assert_eq!(found[0].severity, Severity::Note);
}

#[test]
fn a_gpu_of_another_model_in_the_same_place_is_a_fault() {
    let before = machines::l40s_4x();
    let mut now = before.clone();
    now.gpus[2].uuid = "GPU-aaaaaaaa-0000-0000-0000-000000000000".parse().unwrap();
    now.gpus[2].name = "NVIDIA L4".to_owned();
    let found = against(&before, &now);
    assert_eq!(words(&found), [(FindingReason::GpuModelChanged, "GPU2")]);
    assert_eq!(found[0].severity, Severity::Fault);
    let place = now.gpus[2].pci;
    assert_eq!(found[0].evidence, format!("NVIDIA L40S is expected at {place}, and NVIDIA L4 is there"));
    // The same GPU by its UUID: a driver may call it otherwise.
    now.gpus[2].uuid = before.gpus[2].uuid.clone();
    let found = against(&before, &now);
    assert_eq!(words(&found), [(FindingReason::GpuModelChanged, "GPU2")]);
    assert_eq!(found[0].severity, Severity::Note);
}

#[test]
fn a_nic_that_lost_its_rdma_device_is_a_fault() {
    let before = machines::dgx_h100();
    let mut now = before.clone();
    // As without mlx5_ib: the network interface stays, the RDMA device with name and GUID is gone.
    let nic = &mut now.host.nics[1];
    let rdma = nic.rdma.take().unwrap();
    nic.interfaces = vec!["eth1".to_owned()];
    let place = nic.pci;
    let found = against(&before, &now);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].reason, found[0].severity), (FindingReason::NicWithoutRdma, Severity::Fault));
    let name = rdma.name;
    assert_eq!(found[0].evidence, format!("{name} is expected at {place}, and the device there has no RDMA"));
    // It was none when the profile was saved: nothing is lost.
    assert_eq!(against(&now, &now), []);
    assert_eq!(against(&now, &before), []);
}

#[test]
fn a_gpu_is_missing_also_where_another_got_its_address() {
    let before = machines::l40s_4x();
    let mut now = before.clone();
    // The first GPU is gone; each of the others has the address of the one before.
    let addresses: Vec<PciAddress> = now.gpus.iter().map(|gpu| gpu.pci).collect();
    now.host.pci.retain(|device| device.address != addresses[3]);
    now.gpus.remove(0);
    now.gpus.iter_mut().zip(addresses).for_each(|(gpu, address)| gpu.pci = address);
    let found = against(&before, &now);
    assert_eq!(found[0].reason, FindingReason::GpuMissing);
    assert_eq!(found[0].subject, before.gpus[0].pci.to_string());
    let others: Vec<FindingReason> = found[1..].iter().map(|finding| finding.reason).collect();
    assert_eq!(others, [FindingReason::GpuMoved; 3]);
}

#[test]
fn a_nic_is_missing_also_where_another_got_its_address() {
    let before = machines::dgx_h100();
    let mut now = before.clone();
    let guid = |machine: &Machine, at: usize| machine.host.nics[at].rdma.as_ref().unwrap().node_guid.clone();
    let (gone, lower) = (now.host.nics[1].pci, guid(&now, 1));
    now.host.nics[0].rdma.as_mut().unwrap().node_guid = lower;
    remove(&mut now, gone);
    let found = against(&before, &now);
    let subjects: Vec<&str> = found
        .iter()
        .filter(|finding| finding.reason == FindingReason::NicMissing)
        .map(|finding| finding.subject.as_str())
        .collect();
    assert_eq!(subjects, [before.host.nics[0].pci.to_string()]);
}

#[test]
fn functions_with_one_guid_stay_where_they_are() {
    let mut machine = machines::dgx_h100();
    let shared = machine.host.nics[0].rdma.as_ref().unwrap().node_guid.clone();
    machine.host.nics[1].rdma.as_mut().unwrap().node_guid = shared;
    assert_eq!(against(&machine, &machine), []);
}

#[test]
fn a_nic_that_moved_is_known_by_its_guid() {
    let before = machines::dgx_h100();
    let mut now = before.clone();
    // NIC 0 and NIC 8 change places, and their names with them, as the kernel would name them.
    let (guid_0, guid_8) = {
        let guid = |at: usize| now.host.nics[at].rdma.as_ref().unwrap().node_guid.clone();
        (guid(0), guid(8))
    };
    now.host.nics[0].rdma.as_mut().unwrap().node_guid = guid_8;
    now.host.nics[8].rdma.as_mut().unwrap().node_guid = guid_0;
    let found = against(&before, &now);
    assert_eq!(words(&found), [(FindingReason::NicMoved, "NIC0"), (FindingReason::NicMoved, "NIC8")]);
    assert!(found[1].evidence.contains("NUMA node 1, expected on 0"), "{}", found[1].evidence);
    assert!(found[1].evidence.contains("no longer near"), "{}", found[1].evidence);
}

#[test]
fn nvlinks_below_the_others_are_found_without_a_profile() {
    let mut machine = machines::dgx_h100();
    machine.links_down(2, 18);
    machine.links_down(5, 1);
    let found = without_profile(&machine);
    assert_eq!(
        words(&found),
        [(FindingReason::NvlinkDegraded, "GPU2"), (FindingReason::NvlinkDegraded, "GPU5")]
    );
    assert!(found[1].evidence.contains("17 NVLinks are up, most GPUs of its kind have 18; down: 17"));
}

#[test]
fn nvlinks_that_all_lost_are_found_by_the_profile_only() {
    let before = machines::dgx_h100();
    let mut now = before.clone();
    (0..8).for_each(|gpu| now.links_down(gpu, 2));
    assert_eq!(without_profile(&now), []);
    let found = against(&before, &now);
    assert_eq!(found.len(), 8);
    assert!(found.iter().all(|finding| finding.reason == FindingReason::NvlinkDegraded));
}

#[test]
fn links_that_are_down_for_mig_mode_are_no_fault() {
    let before = machines::dgx_h100();
    let mut now = before.clone();
    now.mig_on(3);
    assert_eq!(now.topology().gpus[3].mig_mode, Some(true));
    for found in [without_profile(&now), against(&before, &now)] {
        assert_eq!(words(&found), [(FindingReason::NvlinkDegraded, "GPU3")]);
        assert_eq!(found[0].severity, Severity::Note);
        assert!(found[0].evidence.contains("MIG mode"), "{}", found[0].evidence);
        assert!(!found[0].remedy.contains("reset"), "{}", found[0].remedy);
    }
    // Six of eight in MIG mode are no majority: the seventh is still held against the eighth.
    (0..6).for_each(|gpu| now.mig_on(gpu));
    now.links_down(6, 18);
    let found = against(&before, &now);
    let faults: Vec<&str> = found
        .iter()
        .filter(|finding| finding.severity == Severity::Fault)
        .map(|finding| finding.subject.as_str())
        .collect();
    assert_eq!(faults, ["GPU6"]);
    assert_eq!(without_profile(&now), [], "one against one is no majority, and six have no say");
    // A profile of that day expects no number of links of them.
    let links: Vec<Option<u32>> = Profile::of(&now.topology()).gpus.iter().map(|gpu| gpu.nvlinks).collect();
    assert_eq!(links, [None, None, None, None, None, None, Some(0), Some(18)]);
}

#[test]
fn a_bridge_with_one_end_in_mig_mode_is_not_asymmetric() {
    let mut machine = machines::a100_pcie_nvlink_pairs();
    machine.locality = None;
    machine.mig_on(0);
    let reasons: Vec<FindingReason> = without_profile(&machine).iter().map(|found| found.reason).collect();
    assert_eq!(reasons, [FindingReason::NvlinkDegraded]);
}

#[test]
fn a_pcie_card_without_bridge_is_a_note_until_a_profile_expects_one() {
    let mut machine = machines::a100_pcie_nvlink_pairs();
    machine.locality = None;
    let slot = machine.slot(Some(1));
    let single = machine.gpu(&slot);
    let found = without_profile(&machine);
    assert_eq!(words(&found), [(FindingReason::NvlinkDegraded, "GPU8")]);
    assert_eq!(found[0].severity, Severity::Note);
    assert!(found[0].evidence.contains("bridges"), "{}", found[0].evidence);
    assert_eq!(against(&machine, &machine), []);
    let mut bridged = machine.clone();
    let slot = bridged.slot(Some(1));
    let other = bridged.gpu(&slot);
    bridged.linked(single, other, 12);
    let mut parted = bridged.clone();
    parted.links_down(single, 12);
    parted.links_down(other, 12);
    let severities: Vec<Severity> = against(&bridged, &parted).iter().map(|found| found.severity).collect();
    assert_eq!(severities, [Severity::Fault; 2]);
    // A bridge that lost a part of its links is broken, whatever was meant.
    let mut machine = machines::a100_pcie_nvlink_pairs();
    machine.locality = None;
    machine.links_down(0, 4);
    machine.links_down(2, 4);
    assert_eq!(without_profile(&machine).len(), 2);
    assert!(without_profile(&machine).iter().all(|found| found.severity == Severity::Fault));
    // Links of a baseboard are wired: one GPU without is broken.
    let mut machine = machines::dgx_1v();
    machine.links_down(5, 6);
    let found = without_profile(&machine);
    let degraded = found.iter().find(|found| found.reason == FindingReason::NvlinkDegraded).unwrap();
    assert_eq!((degraded.subject.as_str(), degraded.severity), ("GPU5", Severity::Fault));
    // The same of links to NVSwitches that no two GPUs share, for they are registered apart.
    let mut machine = machines::dgx_h100();
    for (clique, gpu) in (0..).zip(&mut machine.gpus) {
        let cluster_uuid = Some("8f6d2c3a-0000-1111-2222-333344445555".to_owned());
        gpu.fabric =
            Reading::Supported(Fabric { state: 3, status: 0, clique_id: Some(clique), cluster_uuid });
    }
    machine.links_down(5, 18);
    assert_eq!(machine.topology().nvlink_islands, []);
    let found = without_profile(&machine);
    let degraded = found.iter().find(|found| found.reason == FindingReason::NvlinkDegraded).unwrap();
    assert_eq!((degraded.subject.as_str(), degraded.severity), ("GPU5", Severity::Fault));
}

#[test]
fn asymmetric_links_are_closed_by_the_lesser_count_and_found() {
    let mut machine = machines::a100_pcie_nvlink_pairs();
    machine.locality = None;
    machine.linked_from(0, 2, 3);
    machine.linked_from(5, 7, 4);
    let topology = machine.topology();
    assert_eq!((topology.nvlinks(0, 2), topology.nvlinks(5, 7)), (12, 0));
    let found: Vec<Finding> = without_profile(&machine);
    let asymmetric = found.iter().filter(|finding| finding.reason == FindingReason::NvlinkAsymmetric);
    let subjects: Vec<&str> = asymmetric.map(|finding| finding.subject.as_str()).collect();
    assert_eq!(subjects, ["GPU0-GPU2", "GPU5-GPU7"]);
}

#[test]
fn lanes_are_judged_by_both_ends_and_speed_only_when_it_is_not_power_saving() {
    let mut machine = machines::l40s_4x();
    let gpus: Vec<PciAddress> = machine.gpus.iter().map(|gpu| gpu.pci).collect();
    machine.pci(gpus[0]).link.as_mut().unwrap().width = Some(8);
    machine.pci(gpus[1]).link.as_mut().unwrap().speed_mts = Some(2_500);
    machine.pci(gpus[2]).link.as_mut().unwrap().max_speed_mts = Some(8_000);
    // A slot of eight lanes: not the card's fault.
    let port = *machine.pci(gpus[3]).path.bridges.last().unwrap();
    machine.pci(port).link.as_mut().unwrap().max_width = Some(8);
    machine.pci(gpus[3]).link.as_mut().unwrap().width = Some(8);
    let found = without_profile(&machine);
    assert_eq!(
        words(&found),
        [(FindingReason::PcieWidthReduced, "GPU0"), (FindingReason::PcieSpeedReduced, "GPU2")]
    );
    assert_eq!(found[0].evidence, "the PCIe link has 8 lanes, both ends can have 16");
    assert!(found[1].evidence.contains("Gen3 (8 GT/s) at most"), "{}", found[1].evidence);

    let busy: BTreeSet<PciAddress> = [gpus[1]].into();
    let found = findings(None, &machine.topology(), &busy);
    let slow = found.iter().find(|finding| finding.subject == "GPU1").unwrap();
    assert!(slow.evidence.contains("Gen1 (2.5 GT/s), both ends can do Gen5 (32 GT/s)"), "{}", slow.evidence);

    let mut before = machine.clone();
    before.pci(port).link.as_mut().unwrap().max_width = Some(16);
    before.pci(gpus[3]).link.as_mut().unwrap().width = Some(16);
    let found = against(&before, &machine);
    assert!(words(&found).contains(&(FindingReason::PcieWidthReduced, "GPU3")));
}

#[test]
fn a_narrow_uplink_of_a_switch_is_found() {
    let mut machine = machines::dgx_1v();
    let upstream = machine.topology().pcie_switches[0].upstream;
    machine.pci(upstream).link.as_mut().unwrap().width = Some(4);
    let subject = format!("PCIe switch {upstream}");
    assert_eq!(words(&without_profile(&machine)), [(FindingReason::PcieWidthReduced, subject.as_str())]);
}

#[test]
fn a_gpu_of_which_nobody_knows_the_node_is_found() {
    let mut machine = machines::l40s_4x();
    let pci = machine.gpus[1].pci;
    for device in &mut machine.host.pci {
        device.numa_node = None;
        device.local_cpus = Some("0-383".parse().unwrap());
    }
    machine.pci(pci).numa_node = Some(NumaNodeId(99));
    let found = without_profile(&machine);
    assert_eq!(found.len(), 4);
    assert!(found.iter().all(|finding| finding.reason == FindingReason::NumaUnknown));
}

#[test]
fn divergence_is_one_note_for_all_pairs_of_two_words() {
    let mut machine = machines::l40s_4x();
    machine.driver_says(|_, _| Level::Sys);
    let found = without_profile(&machine);
    assert_eq!(words(&found), [(FindingReason::LevelDivergence, "NODE/SYS")]);
    assert_eq!(found[0].evidence, "sysfs says NODE and the driver says SYS of GPU0-GPU1 and GPU2-GPU3");
    assert_eq!(found[0].severity, Severity::Note);
    // PIX and "same board" are one to nvidia-smi.
    let mut machine = machines::dgx_1v();
    machine.driver_says(|a, b| match (a / 2 == b / 2, a / 4 == b / 4) {
        (true, _) => Level::Same,
        (_, true) => Level::Phb,
        _ => Level::Sys,
    });
    assert_eq!(without_profile(&machine), []);
}

#[test]
fn acs_that_redirects_between_devices_of_one_switch_is_found() {
    let mut machine = machines::dgx_1v();
    let topology = machine.topology();
    let port = topology.pcie_switches[1].downstream[0];
    machine.pci(port).acs_redirects = Some(true);
    // A root port may redirect: nothing goes through it between devices below it.
    let root_port = topology.gpus[0].place.path.as_ref().unwrap().bridges[0];
    machine.pci(root_port).acs_redirects = Some(true);
    let found = without_profile(&machine);
    let upstream = topology.pcie_switches[1].upstream.to_string();
    assert_eq!(words(&found), [(FindingReason::AcsRedirect, upstream.as_str())]);
    assert!(found[0].evidence.contains("between GPU2, GPU3 and NIC1"), "{}", found[0].evidence);
}

#[test]
fn a_gpu_that_only_one_side_sees_is_found() {
    let mut machine = machines::l40s_4x();
    let (vm, lost) = (machine.gpus[0].pci, machine.gpus[1].pci);
    machine.pci(vm).driver = Some("vfio-pci".to_owned());
    machine.gpus.remove(0);
    machine.gpus.remove(0);
    let hidden = machine.gpus[0].pci;
    machine.host.pci.retain(|device| device.address != hidden);
    let found = without_profile(&machine);
    assert_eq!(
        words(&found),
        [
            (FindingReason::GpuWithoutDriver, lost.to_string().as_str()),
            (FindingReason::GpuWithoutDriver, vm.to_string().as_str()),
            (FindingReason::GpuHidden, "GPU2"),
        ]
    );
    machine.gpus.clear();
    assert_eq!(without_profile(&machine), [], "without a driver the driver is the matter");
}

#[test]
fn an_incomplete_fabric_is_found() {
    let mut machine = machines::dgx_h100();
    let fabric = |state, clique_id| {
        Reading::Supported(Fabric {
            state,
            status: 0,
            clique_id,
            cluster_uuid: Some("8f6d2c3a-0000-1111-2222-333344445555".to_owned()),
        })
    };
    machine.gpus.iter_mut().for_each(|gpu| gpu.fabric = fabric(2, None));
    let found = without_profile(&machine);
    assert_eq!(found.len(), 8);
    assert!(found[0].evidence.contains("InProgress"), "{}", found[0].evidence);
    machine.gpus.iter_mut().for_each(|gpu| gpu.fabric = fabric(3, Some(1)));
    assert_eq!(without_profile(&machine), []);
    machine.gpus[6].fabric = fabric(3, Some(2));
    let found = without_profile(&machine);
    assert_eq!(words(&found), [(FindingReason::FabricIncomplete, "NVLink fabric")]);
    assert_eq!(machine.topology().nvlinks(5, 6), 0);
    assert_eq!(machine.topology().nvlinks(5, 7), 18);
}

#[test]
fn a_gpu_of_a_kind_without_fabric_does_not_spoil_the_clique_of_the_others() {
    let mut machine = machines::dgx_h100();
    let registered = Fabric {
        state: 3,
        status: 0,
        clique_id: Some(1),
        cluster_uuid: Some("8f6d2c3a-0000-1111-2222-333344445555".to_owned()),
    };
    machine.gpus.iter_mut().for_each(|gpu| gpu.fabric = Reading::Supported(registered.clone()));
    let display = machine.slot(Some(0));
    let display = machine.gpu(&display);
    machine.gpus[display].name = "NVIDIA T400".to_owned();
    assert_eq!(without_profile(&machine), []);
}

#[test]
fn a_profile_of_another_version_is_refused() {
    let mut profile = Profile::of(&machines::l40s_4x().topology());
    profile.version = 7;
    let error = profile.check().unwrap_err();
    assert_eq!((error.found, error.reason()), (7, "UnsupportedProfileVersion"));
}

#[test]
fn a_gpu_that_does_not_answer_is_told_and_a_driver_that_does_not_is_told_elsewhere() {
    let mut machine = machines::l40s_4x();
    machine.gpus[2].down = Some("Lost");
    let found = findings(None, &machine.topology(), &BTreeSet::new());
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].reason, found[0].subject.as_str()), (FindingReason::GpuDown, "GPU2"));
    assert!(found[0].evidence.contains("Lost"), "{found:?}");
    machine.gpus.iter_mut().for_each(|gpu| gpu.down = Some("DriverDown"));
    assert_eq!(findings(None, &machine.topology(), &BTreeSet::new()), []);
}
