//! What is concluded of places, links and fabrics.

use std::sync::Arc;

use gpulet_inventory::host::{Host, PciDevice, PciKind};
use gpulet_inventory::link::RemoteKind;
use gpulet_inventory::locality::Level;
use gpulet_inventory::numa::NumaNodeId;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::reading::Reading;
use gpulet_inventory::sample::Fabric;
use gpulet_inventory::snapshot::{CallStats, DownReason, Driver, DriverInfo, NodeGpus, UnlistedGpu};
use gpulet_inventory::topology::{Device, FabricAbsent, FabricPlace, NumaKind, NumaSource, SeenBy, Topology};

use gpulet_topology::{GpuView, build};

use crate::support::machine::{LOST, Machine, nvlink};
use crate::support::{machines, snapshot};

fn level(topology: &Topology, a: Device, b: Device) -> &'static str {
    topology.pair(a, b).unwrap().level.unwrap().as_str()
}

fn sources(topology: &Topology) -> Vec<(Option<u32>, NumaSource)> {
    topology.gpus.iter().map(|gpu| (gpu.place.numa.node.map(|node| node.0), gpu.place.numa.source)).collect()
}

#[test]
fn a_switch_is_an_upstream_port_and_its_downstream_ports() {
    let topology = machines::dgx_h100().topology();
    let [top, first, second] = &topology.pcie_switches[..3] else { panic!() };
    assert_eq!((top.parent, first.parent, second.parent), (None, Some(0), Some(0)));
    assert_eq!((top.downstream.len(), first.downstream.len()), (2, 2));
    assert_eq!(topology.gpus[0].place.pcie_switch, Some(1));
    assert_eq!(topology.gpus[1].place.pcie_switch, Some(2));
    // Four groups of three, the storage switch, and the one above the NVSwitches.
    assert_eq!(topology.pcie_switches.len(), 14);
    assert_eq!(topology.nvswitches.len(), 4);
}

#[test]
fn levels_follow_from_how_far_up_two_paths_meet() {
    let mut m = Machine::new("GPU");
    m.node(0, "0-3", 8);
    m.node(1, "4-7", 8);
    let root = m.root(Some(0));
    let port = m.port(&root);
    let outer = m.switch(&port);
    let (arm, other_arm, third_arm) = (m.port(&outer), m.port(&outer), m.port(&outer));
    let inner = m.switch(&arm);
    let (deep, deeper) = (m.port(&inner), m.port(&inner));
    let gpus = [m.gpu(&deep), m.gpu(&deeper), m.gpu(&other_arm), m.gpu(&third_arm)];
    let second_port = m.port(&root);
    let beside = m.gpu(&second_port);
    let on_bus = m.gpu(&root);
    let same_node = m.slot(Some(0));
    let same_node = m.gpu(&same_node);
    let far = m.slot(Some(1));
    let far = m.gpu(&far);
    let first = m.nic(&far_spot(&m, far), "mlx5_0", 1);
    m.second_port(first, "mlx5_1", 1);
    let t = m.topology();
    let gpu = |at: usize| Device::Gpu(gpus[at]);
    assert_eq!(level(&t, gpu(0), gpu(1)), "PIX", "two ports of the inner switch");
    assert_eq!(level(&t, gpu(0), gpu(2)), "PXB", "inner and outer switch");
    assert_eq!(level(&t, gpu(2), gpu(3)), "PIX", "two ports of the outer switch");
    assert_eq!(level(&t, gpu(0), Device::Gpu(beside)), "PHB", "two root ports of one root");
    assert_eq!(level(&t, Device::Gpu(beside), Device::Gpu(on_bus)), "PHB", "directly on the root bus");
    assert_eq!(level(&t, gpu(0), Device::Gpu(same_node)), "NODE");
    assert_eq!(level(&t, gpu(0), Device::Gpu(far)), "SYS");
    assert_eq!(level(&t, Device::Nic(0), Device::Nic(1)), "PIX", "two functions of one card");
    assert_eq!(level(&t, Device::Nic(0), Device::Gpu(far)), "PIX", "below one root port");
    assert_eq!(t.pair(Device::Nic(1), Device::Nic(0)), t.pair(Device::Nic(0), Device::Nic(1)));
    assert_eq!(t.pair(gpu(0), gpu(0)), None);
    assert_eq!(t.pair(gpu(0), Device::Nic(2)), None);
}

fn far_spot(m: &Machine, gpu: usize) -> crate::support::machine::Spot {
    let device = m.host.pci.iter().find(|device| device.address == m.gpus[gpu].pci).unwrap();
    crate::support::machine::Spot { path: device.path.clone(), numa: device.numa_node }
}

#[test]
fn the_numa_node_comes_from_the_first_that_knows_it() {
    let mut machine = machines::l40s_4x();
    let gpus: Vec<PciAddress> = machine.gpus.iter().map(|gpu| gpu.pci).collect();
    for pci in &gpus[1..] {
        machine.pci(*pci).numa_node = None;
    }
    machine.pci(gpus[1]).numa_node = Some(NumaNodeId(7));
    machine.pci(gpus[2]).local_cpus = Some("96-99".parse().unwrap());
    machine.pci(gpus[3]).local_cpus = Some("0-383".parse().unwrap());
    for pci in &gpus[2..] {
        let bridge = *machine.pci(*pci).path.bridges.last().unwrap();
        machine.pci(bridge).numa_node = None;
    }
    machine.driver_says(|_, _| Level::Sys);
    let driver = &mut machine.locality.as_mut().unwrap().gpus[3];
    driver.memory_affinity = Reading::Supported("1,3-9".parse().unwrap());
    assert_eq!(
        sources(&machine.topology()),
        [
            (Some(0), NumaSource::Sysfs),
            (Some(0), NumaSource::Bridge),
            (Some(1), NumaSource::LocalCpus),
            (Some(1), NumaSource::Driver),
        ]
    );
    let driver = &mut machine.locality.as_mut().unwrap().gpus[3];
    driver.memory_affinity = Reading::Supported("0-1".parse().unwrap());
    driver.cpu_affinity = Reading::Supported("100-101,300".parse().unwrap());
    assert_eq!(sources(&machine.topology())[3], (Some(1), NumaSource::Driver));
    machine.locality = None;
    let topology = machine.topology();
    assert_eq!(sources(&topology)[3], (None, NumaSource::Unknown));
    assert_eq!(topology.gpus[3].place.numa.cpus.as_ref().unwrap().to_string(), "0-383");
    assert_eq!(level(&topology, Device::Gpu(2), Device::Gpu(3)), "SYS", "unknown is not near");
    let one_node = machines::consumer_2gpu().topology();
    assert_eq!(sources(&one_node), [(Some(0), NumaSource::SingleNode); 2]);
}

#[test]
fn a_kernel_without_numa_is_one_node() {
    let mut machine = machines::l40s_4x();
    machine.host.numa_nodes.clear();
    machine.host.pci.iter_mut().for_each(|device| device.numa_node = None);
    let topology = machine.topology();
    assert_eq!(sources(&topology)[0], (None, NumaSource::Unknown));
    assert_eq!(level(&topology, Device::Gpu(0), Device::Gpu(3)), "NODE");
}

#[test]
fn memory_of_gpus_is_told_from_memory_without_cpus() {
    let mut machine = machines::gb200_tray();
    machine.node(34, "", 512);
    let topology = machine.topology();
    let kind = |id| topology.numa_node(NumaNodeId(id)).unwrap().kind;
    assert_eq!(kind(1), NumaKind::Cpu);
    assert_eq!((kind(2), kind(9)), (NumaKind::GpuMemory { gpu: 0 }, NumaKind::GpuMemory { gpu: 0 }));
    assert_eq!((kind(26), kind(33)), (NumaKind::GpuMemory { gpu: 3 }, NumaKind::GpuMemory { gpu: 3 }));
    assert_eq!(kind(34), NumaKind::Memory);
    assert_eq!(topology.gpus[1].memory_node, Some(NumaNodeId(10)));
    assert_eq!(topology.gpus[1].c2c_links, Some(10));
    machine.host.gpu_memory.clear();
    machine.locality.as_mut().unwrap().gpus[1].own_numa_node = Reading::Supported(10);
    assert_eq!(machine.topology().gpus[1].memory_node, Some(NumaNodeId(10)), "as the driver says");
}

#[test]
fn gpus_that_only_one_side_sees_are_in() {
    let mut machine = machines::l40s_4x();
    let gone = machine.gpus.remove(1);
    let hidden = machine.gpus[2].pci;
    machine.host.pci.retain(|device| device.address != hidden);
    machine.driver_says(|_, _| Level::Sys);
    let topology = machine.topology();
    let seen: Vec<(&str, SeenBy)> =
        topology.gpus.iter().map(|gpu| (gpu.label.as_str(), gpu.seen_by)).collect();
    assert_eq!(
        seen,
        [
            ("GPU0", SeenBy::Both),
            ("GPU2", SeenBy::Both),
            ("GPU3", SeenBy::Driver),
            (gone.pci.to_string().as_str(), SeenBy::Kernel),
        ]
    );
    let pair = topology.pair(Device::Gpu(0), Device::Gpu(2)).unwrap();
    assert_eq!((pair.level, pair.best_known_level(), pair.diverges()), (None, Some(Level::Sys), false));
    assert_eq!(level(&topology, Device::Gpu(0), Device::Gpu(3)), "NODE");
}

fn virtual_function(machine: &mut Machine, parent: PciAddress, function: u8) -> PciAddress {
    let mut device: PciDevice = machine.pci(parent).clone();
    device.address.function = function;
    device.physical_function = Some(parent);
    let address = device.address;
    machine.host.pci.push(device);
    address
}

#[test]
fn virtual_functions_belong_to_their_parent_and_stand_alone_without_it() {
    let mut machine = machines::l40s_4x();
    let nic = machine.host.nics[0].pci;
    let gpu = machine.gpus[0].pci;
    let (nic_vf, gpu_vf) = (virtual_function(&mut machine, nic, 2), virtual_function(&mut machine, gpu, 4));
    let mut net = machine.host.nics[0].clone();
    net.pci = nic_vf;
    net.rdma.as_mut().unwrap().name = "mlx5_2".to_owned();
    machine.host.nics.push(net);
    let topology = machine.topology();
    assert_eq!((topology.gpus.len(), topology.nics.len()), (4, 2));
    assert_eq!(topology.nics[0].place.virtual_functions, [nic_vf]);
    assert_eq!(topology.gpus[0].place.virtual_functions, [gpu_vf]);
    machine.host.pci.retain(|device| device.address != nic);
    machine.host.nics.retain(|known| known.pci != nic);
    let names: Vec<String> = machine.topology().nics.iter().map(|nic| nic.name()).collect();
    assert_eq!(names, ["mlx5_1", "mlx5_2"]);
}

#[test]
fn nics_are_numbered_by_rdma_name_and_plain_ones_come_last() {
    let mut machine = Machine::new("GPU");
    for name in ["ens3", "mlx5_10", "mlx5_9", "mlx5_bond_0"] {
        let slot = machine.slot(None);
        machine.nic(&slot, name, 100_000);
    }
    let slot = machine.slot(None);
    let undriven = machine.nic(&slot, "x", 0);
    machine.host.nics.pop();
    let topology = machine.topology();
    let names: Vec<(String, String)> =
        topology.nics.iter().map(|nic| (nic.label.clone(), nic.name())).collect();
    let expected = [
        ("NIC0", "mlx5_9"),
        ("NIC1", "mlx5_10"),
        ("NIC2", "mlx5_bond_0"),
        ("NIC3", "ens3"),
        ("NIC4", &undriven.to_string()),
    ];
    assert_eq!(names, expected.map(|(label, name)| (label.to_owned(), name.to_owned())));
    assert_eq!(gpulet_topology::cells(&topology).labels, ["NIC0", "NIC1", "NIC2"]);
}

#[test]
fn links_whose_other_end_is_hidden_go_to_switches() {
    let mut machine = machines::l40s_4x();
    for gpu in &mut machine.gpus[..3] {
        let hidden = |link| nvlink(link, RemoteKind::Unknown, None);
        gpu.nvlinks = Reading::Supported((0..12).map(hidden).collect());
    }
    machine.links_down(1, 2);
    let topology = machine.topology();
    assert_eq!((topology.nvlinks(0, 1), topology.nvlinks(0, 2), topology.nvlinks(0, 3)), (10, 12, 0));
    assert_eq!(topology.gpus[1].nvlinks.assumed_switches, 10);
    assert_eq!(topology.gpus[1].nvlinks.down, [10, 11]);
    let [island] = &topology.nvlink_islands[..] else { panic!() };
    assert_eq!((&island.gpus[..], island.through_switch, island.full_mesh), (&[0, 1, 2][..], true, true));
    assert_eq!((island.fewest_links, island.most_links), (10, 12));
}

#[test]
fn links_to_a_gpu_elsewhere_join_nobody_here() {
    let mut machine = machines::l40s_4x();
    let elsewhere = "0000:fe:00.0".parse().unwrap();
    machine.gpus[0].nvlinks = Reading::Supported(vec![
        nvlink(0, RemoteKind::Gpu, Some(elsewhere)),
        nvlink(1, RemoteKind::Npu, None),
    ]);
    let topology = machine.topology();
    assert_eq!(topology.nvlink_islands, []);
    assert_eq!((topology.gpus[0].nvlinks.active, topology.gpus[0].nvlinks.to_switches), (2, 0));
}

#[test]
fn where_one_end_was_not_read_the_other_is_believed() {
    let mut machine = machines::a100_pcie_nvlink_pairs();
    machine.gpus[2].nvlinks = Reading::Failed(LOST);
    let topology = machine.topology();
    let pair = topology.pair(Device::Gpu(0), Device::Gpu(2)).unwrap().nvlink.unwrap();
    assert_eq!((pair.links, pair.asymmetric), (12, None));
    assert!(topology.gpus[2].nvlinks.unread.as_ref().unwrap().contains("GPU_IS_LOST"));
}

#[test]
fn a_cube_mesh_is_one_island_and_no_full_mesh() {
    let topology = machines::dgx_1v().topology();
    let [island] = &topology.nvlink_islands[..] else { panic!() };
    assert_eq!((island.gpus.len(), island.full_mesh, island.through_switch), (8, false, false));
    assert_eq!((island.fewest_links, island.most_links), (1, 2));
    let pairs = machines::a100_pcie_nvlink_pairs().topology();
    let islands: Vec<&[usize]> = pairs.nvlink_islands.iter().map(|island| &island.gpus[..]).collect();
    assert_eq!(islands, [[0, 2], [1, 3], [4, 5], [6, 7]]);
}

#[test]
fn the_fabric_is_told_or_why_there_is_none() {
    let mut machine = machines::gb200_tray();
    let uuid = "8f6d2c3a-0000-1111-2222-333344445555";
    let fabric = |state, status, uuid: &str| {
        let cluster_uuid = Some(uuid.to_owned());
        Reading::Supported(Fabric { state, status, clique_id: (state == 3).then_some(4), cluster_uuid })
    };
    let node = |machine: &Machine| machine.topology().clique;
    assert_eq!(node(&machine), FabricPlace::Absent(FabricAbsent::NotSupported));
    let mut all = |reading: Reading<Fabric>| {
        machine.gpus.iter_mut().for_each(|gpu| gpu.fabric = reading.clone());
        machine.topology().clique
    };
    let clique = FabricPlace::Clique { cluster_uuid: uuid.to_owned(), clique_id: 4 };
    assert_eq!(all(fabric(3, 0, uuid)), clique);
    for (reading, why) in [
        (fabric(1, 0, uuid), "NotStarted"),
        (fabric(2, 0, uuid), "InProgress"),
        (fabric(3, 16, uuid), "Failed"),
        (fabric(3, 0, "00000000-0000-0000-0000-000000000000"), "NoDomain"),
        (Reading::Failed(LOST), "Unread"),
    ] {
        let FabricPlace::Absent(absent) = all(reading) else { panic!("{why}") };
        assert_eq!(absent.reason(), why);
    }
    all(fabric(3, 0, uuid));
    machine.gpus[1].fabric = Reading::Failed(LOST);
    assert_eq!(node(&machine), clique, "a GPU that is lost has no say");
    machine.gpus[1].fabric = fabric(2, 0, uuid);
    assert_eq!(node(&machine), FabricPlace::Absent(FabricAbsent::Disagreeing));
}

#[test]
fn roots_of_any_name_and_long_domains_are_roots() {
    let mut machine = Machine::new("GPU");
    machine.node(0, "0-3", 8);
    let root = machine.root(Some(0));
    machine.gpu(&root);
    let other = machine.root(Some(0));
    machine.gpu(&other);
    for (device, root) in machine.host.pci.iter_mut().zip(["pci10000:e0", "pci0001:00"]) {
        assert_eq!(device.kind, PciKind::Gpu);
        device.path.root = root.to_owned();
    }
    let vmd = "10000:e1:00.0".parse().unwrap();
    machine.host.pci[0].address = vmd;
    machine.gpus[0].pci = vmd;
    let topology = machine.topology();
    assert_eq!(level(&topology, Device::Gpu(0), Device::Gpu(1)), "NODE");
    assert!(gpulet_topology::svg(&topology).contains(">pci10000:e0<"));
}

#[test]
fn the_json_has_stable_keys() {
    let json = serde_json::to_value(machines::pcie_8x4090().topology()).unwrap();
    assert_eq!(json["gpus"][6]["pci"], "0000:15:00.0");
    assert_eq!(json["gpus"][6]["numa"]["source"], "sysfs");
    assert_eq!(json["gpus"][6]["numa"]["cpus"], "56-111,168-223");
    assert_eq!(json["gpus"][6]["seen_by"], "both");
    assert_eq!(json["numa_nodes"][1]["kind"], "cpu");
    assert_eq!(json["pairs"][0]["a"]["gpu"], 0);
    assert_eq!(json["pairs"][0]["b"]["gpu"], 1);
    assert_eq!(json["pairs"][0]["level"], "NODE");
    assert_eq!(json["pairs"][0]["driver_level"], "SYS");
    assert_eq!(json["clique"]["absent"], "not-supported");
}

#[test]
fn gpus_of_a_snapshot_are_seen_as_they_are() {
    let links = vec![nvlink(0, RemoteKind::Switch, None)];
    let fabric = Fabric { state: 3, status: 0, clique_id: Some(1), cluster_uuid: None };
    let states = snapshot::of_two(links.clone(), fabric.clone());
    let views = [&states[0], &states[1]].map(GpuView::from);
    let [up, lost] = &views;
    assert_eq!((up.index, up.name, up.down), (0, Some("NVIDIA H100"), None));
    assert_eq!(up.pci, states[0].gpu.pci);
    assert_eq!(up.nvlinks, Some(&Reading::Supported(links)));
    assert_eq!(up.fabric, Some(&Reading::Supported(fabric)));
    assert_eq!((lost.index, lost.name, lost.down), (1, None, Some("Lost")));
    assert_eq!((lost.nvlinks, lost.fabric), (None, None));
    let topology = build(&Host::default(), &views, None);
    assert_eq!(topology.gpus[1].nvlinks.unread.as_deref(), Some("Lost"));
}

/// Labels, addresses and states of a machine of four whose GPUs 1, and `further` ones, have not said which they are.
fn with_unlisted(further: &[(u32, Option<&str>)]) -> Vec<(String, String, Option<&'static str>)> {
    let host = machines::l40s_4x().host;
    let [mut first, _] =
        snapshot::of_two(Vec::new(), Fabric { state: 0, status: 0, clique_id: None, cluster_uuid: None });
    let at = |number: usize| {
        host.pci.iter().filter(|device| device.kind == PciKind::Gpu).nth(number).unwrap().address
    };
    Arc::make_mut(&mut first.gpu).pci = at(0);
    let unlisted =
        |(index, pci): (u32, Option<PciAddress>)| UnlistedGpu { index, pci, reason: DownReason::Lost(LOST) };
    let further = further.iter().map(|(index, pci)| (*index, pci.map(|pci| pci.parse().unwrap())));
    let node = NodeGpus {
        driver: Driver::Up(DriverInfo {
            driver_version: "580.1".into(),
            nvml_version: "13.580.1".into(),
            cuda_version: None,
            library: "libnvidia-ml.so.1".into(),
            epoch: 1,
        }),
        gpus: vec![first],
        unlisted: [(1, Some(at(1))), (2, Some(at(2)))].into_iter().chain(further).map(unlisted).collect(),
        calls: CallStats::default(),
    };
    let topology = build(&host, &GpuView::of(&node, &host), None);
    topology.gpus.iter().map(|gpu| (gpu.label.clone(), gpu.place.pci.to_string(), gpu.down)).collect()
}

#[test]
fn a_gpu_that_has_not_said_which_it_is_has_its_place_all_the_same() {
    let gpus = with_unlisted(&[]);
    assert_eq!(gpus[1], ("GPU1".into(), "0000:06:00.0".into(), Some("Lost")));
    assert_eq!(gpus[3], ("0000:0c:00.0".into(), "0000:0c:00.0".into(), None), "the driver does not count it");
}

#[test]
fn a_gpu_that_has_said_nothing_has_the_one_place_that_is_left() {
    let gpus = with_unlisted(&[(3, None)]);
    assert_eq!(gpus[3], ("GPU3".into(), "0000:0c:00.0".into(), Some("Lost")));
    let gpus = with_unlisted(&[(3, None), (4, None)]);
    assert_eq!(gpus[3].0, "0000:0c:00.0", "which of the two it is, nobody says");
}
