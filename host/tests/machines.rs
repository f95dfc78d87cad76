//! Machines whose trees are not what one expects.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use gpulet_inventory::host::PciKind;
use support::{BRIDGE, GPU, NIC, Tree, above, device};

const NODE: &str = "sys/devices/system/node";
const CPU: &str = "sys/devices/system/cpu";

fn with<'a>(base: [(&'a str, &'a str); 3], more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    base.iter().chain(more).copied().collect()
}

#[test]
fn numa_nodes_with_gaps_without_cpus_and_without_memory() {
    let tree = Tree::new();
    tree.files(NODE, &[("online", "0,8,252-253"), ("has_cpu", "0,8")]);
    for (node, cpus, kib, distances) in [
        (0, "0-3", Some(1 << 20), "10 40 80 80"),
        (8, "4-7", None, "40 10 80 80"),
        (252, "", Some(16 << 20), "80 80 10 80"),
        (253, "", Some(0), "80 80 80 10"),
    ] {
        let directory = format!("{NODE}/node{node}");
        tree.files(&directory, &[("cpulist", cpus), ("distance", distances)]);
        if let Some(kib) = kib {
            tree.files(&directory, &[("meminfo", &format!("Node {node} MemTotal: {kib} kB"))]);
        }
    }
    for (pages, total, free) in [("2048kB", "512", "100"), ("1048576kB", "0", "0")] {
        let directory = format!("{NODE}/node0/hugepages/hugepages-{pages}");
        tree.files(&directory, &[("nr_hugepages", total), ("free_hugepages", free)]);
    }
    // Not online: it does not count.
    tree.files(&format!("{NODE}/node9"), &[("cpulist", "9")]);
    let host = tree.read();
    assert_eq!(host.oddities, []);
    let told: Vec<_> = host
        .numa_nodes
        .iter()
        .map(|node| (node.id.0, node.cpus.to_string(), node.memory_bytes, node.distances[1]))
        .collect();
    let cpus = |text: &str| text.to_owned();
    assert_eq!(
        told,
        [
            (0, cpus("0-3"), Some(1 << 30), 40),
            (8, cpus("4-7"), None, 10),
            (252, cpus(""), Some(16 << 30), 80),
            (253, cpus(""), Some(0), 80),
        ]
    );
    let pages: Vec<_> =
        host.huge_pages.iter().map(|p| (p.numa_node.0, p.page_bytes, p.total, p.free)).collect();
    assert_eq!(pages, [(0, 2 << 20, 512, 100), (0, 1 << 30, 0, 0)]);
}

#[test]
fn offline_cpus_and_cores_that_repeat_in_each_package() {
    let tree = Tree::new();
    tree.files(CPU, &[("online", "1-3,5"), ("present", "0-5"), ("offline", "0,4")]);
    for (cpu, package, core, siblings) in [(1, "0", "0", "1,5"), (5, "0", "0", "1,5"), (2, "1", "0", "2")] {
        tree.files(
            &format!("{CPU}/cpu{cpu}/topology"),
            &[("physical_package_id", package), ("core_id", core), ("thread_siblings_list", siblings)],
        );
    }
    // The kernel does not know; and a newer kernel's name of the list.
    tree.files(&format!("{CPU}/cpu3/topology"), &[("physical_package_id", "-1"), ("core_id", "0")]);
    for (cpu, level, index, shared) in
        [(1, "1", 0, "1,5"), (1, "3", 3, "1-2,5"), (1, "2", 2, "1,5"), (3, "2", 1, "3"), (3, "1", 0, "3")]
    {
        let directory = format!("{CPU}/cpu{cpu}/cache/index{index}");
        tree.files(&directory, &[("level", level), ("shared_cpu_list", shared)]);
    }
    let host = tree.read();
    assert_eq!(host.oddities, []);
    assert_eq!((host.cpus.online.to_string().as_str(), host.cpus.present.len()), ("1-3,5", 6));
    let places: Vec<_> =
        host.cpus.places.iter().map(|p| (p.cpu, p.package, p.siblings.to_string())).collect();
    let list = |text: &str| text.to_owned();
    assert_eq!(places, [(1, 0, list("1,5")), (2, 1, list("2")), (5, 0, list("1,5"))]);
    let caches: Vec<_> = host.cpus.last_level_caches.iter().map(ToString::to_string).collect();
    assert_eq!(caches, ["1-2,5", "3"]);
}

#[test]
fn roots_of_vmd_and_azure_and_domains_of_any_length() {
    let tree = Tree::new();
    let vmd = "pci0000:16/0000:16:05.5/pci10000:00";
    tree.pci(vmd, "10000:00:02.0", &BRIDGE);
    tree.pci(&format!("{vmd}/10000:00:02.0"), "10000:01:00.0", &with(NIC, &[("numa_node", "-1")]));
    let azure = "LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/47505500-0001-0000-3130-444531303244";
    tree.pci(&format!("{azure}/pci0001:00"), "0001:00:00.0", &with(GPU, &[("numa_node", "1")]));
    tree.pci("pciffff0000:00", "ffff0000:00:01.0", &GPU);
    let host = tree.read();
    assert_eq!(host.oddities, []);
    let addresses: Vec<_> = host.pci.iter().map(|device| device.address.to_string()).collect();
    assert_eq!(addresses, ["0001:00:00.0", "10000:00:02.0", "10000:01:00.0", "ffff0000:00:01.0"]);
    assert_eq!(above(&host.pci[0]), "pci0001:00");
    assert_eq!(above(&host.pci[2]), "pci10000:00 10000:00:02.0");
    assert_eq!(host.pci[2].numa_node, None, "-1 is no node");
    assert_eq!(host.pci[2].link, None, "no file tells of one");
}

#[test]
fn virtual_functions_name_their_physical_one() {
    let tree = Tree::new();
    let port = "pci0000:3a/0000:3a:00.0";
    tree.pci("pci0000:3a", "0000:3a:00.0", &BRIDGE);
    tree.pci(port, "0000:3b:00.0", &with(NIC, &[("numa_node", "1")]));
    tree.pci(port, "0000:3b:01.2", &NIC);
    let device_of = |address: &str| format!("sys/devices/{port}/{address}");
    tree.link(&format!("{}/physfn", device_of("0000:3b:01.2")), "../0000:3b:00.0");
    for (address, rdma) in [("0000:3b:00.0", "mlx5_0"), ("0000:3b:01.2", "mlx5_10")] {
        let directory = format!("{}/infiniband/{rdma}", device_of(address));
        tree.files(&directory, &[("node_guid", "506b:4b03:00a1:b2c3")]);
        tree.files(&format!("{directory}/ports/2"), &[("state", "1: DOWN"), ("rate", "2.5 Gb/sec (1X SDR)")]);
        tree.files(&format!("{directory}/ports/1"), &[("state", "4: ACTIVE"), ("link_layer", "Ethernet")]);
    }
    for name in ["ens1f0np0", "ens1f0np0_rep"] {
        tree.files(&format!("{}/net/{name}", device_of("0000:3b:00.0")), &[("address", "50:6b:4b:a1:b2:c3")]);
    }
    let host = tree.read();
    assert_eq!(host.oddities, []);
    let physical = |address: &str| device(&host, address).physical_function.map(|at| at.to_string());
    assert_eq!(physical("0000:3b:01.2").as_deref(), Some("0000:3b:00.0"));
    assert_eq!(physical("0000:3b:00.0"), None);
    assert_eq!(host.nics.len(), 2);
    assert_eq!(host.nics[0].interfaces, ["ens1f0np0", "ens1f0np0_rep"]);
    assert!(host.nics[1].interfaces.is_empty());
    let rdma = host.nics[0].rdma.as_ref().unwrap();
    let ports: Vec<_> = rdma.ports.iter().map(|p| (p.number, p.state.as_deref(), p.rate_mbps)).collect();
    assert_eq!(ports, [(1, Some("ACTIVE"), None), (2, Some("DOWN"), Some(2_500))]);
    assert_eq!(rdma.node_guid.as_deref(), Some("506b:4b03:00a1:b2c3"));
}

#[test]
fn interfaces_of_virtual_machines_and_network_controllers_of_other_classes() {
    let tree = Tree::new();
    tree.pci(
        "pci0000:00",
        "0000:00:03.0",
        &[("class", "0x020000"), ("vendor", "0x1af4"), ("device", "0x1041")],
    );
    let at = "sys/devices/pci0000:00/0000:00:03.0";
    tree.link(&format!("{at}/driver"), "../../../bus/pci/drivers/virtio-pci");
    tree.files(&format!("{at}/virtio2/net/eth0"), &[("mtu", "1500")]);
    let other = [("class", "0x028000"), ("vendor", "0x15b3"), ("device", "0x1003")];
    tree.pci("pci0000:00", "0000:00:04.0", &other);
    tree.files("sys/devices/pci0000:00/0000:00:04.0/infiniband/mlx4_0", &[("node_guid", "1:2:3:4")]);
    tree.pci("pci0000:00", "0000:00:05.0", &other);
    let host = tree.read();
    assert_eq!(host.oddities, []);
    assert_eq!(host.nics.len(), 2, "one of the others is a Wi-Fi card for all we know");
    assert_eq!(host.nics[0].interfaces, ["eth0"]);
    assert_eq!(host.nics[1].rdma.as_ref().unwrap().name, "mlx4_0");
}

#[test]
fn gb200_memory_of_gpus_is_numa_nodes() {
    let tree = Tree::new();
    tree.files(NODE, &[("online", "0-33")]);
    for (gpu, node, status) in
        [("0008:01:00.0", "2", "online"), ("0009:01:00.0", "10", "online"), ("0018:01:00.0", "18", "offline")]
    {
        let text = format!("Node: {node}\nStatus: {status}\n\nAddress: 0x1000000000\nSize: 0x2f00000000");
        tree.files(&format!("proc/driver/nvidia/gpus/{gpu}"), &[("numa_status", &text)]);
    }
    tree.files("proc/driver/nvidia/gpus/0019:01:00.0", &[("information", "Model: …")]);
    let host = tree.read();
    assert_eq!(host.oddities, []);
    assert_eq!(host.numa_nodes.len(), 34);
    let nodes: Vec<_> = host.gpu_memory.iter().map(|m| (m.pci.to_string(), m.numa_node.0)).collect();
    assert_eq!(nodes, [("0008:01:00.0".to_owned(), 2), ("0009:01:00.0".to_owned(), 10)]);
}

#[test]
fn bridges_tell_whether_they_redirect() {
    let tree = Tree::new();
    tree.pci("pci0000:15", "0000:15:01.0", &BRIDGE);
    tree.pci("pci0000:15/0000:15:01.0", "0000:16:00.0", &GPU);
    let mut config = vec![0; 4096];
    // An advanced error reporting capability of version 1, then ACS with redirection of requests and completions.
    config[0x100..0x104].copy_from_slice(&0x1401_0001_u32.to_le_bytes());
    config[0x140..0x144].copy_from_slice(&0x0001_000d_u32.to_le_bytes());
    config[0x144..0x148].copy_from_slice(&0x001d_005f_u32.to_le_bytes());
    tree.file("sys/devices/pci0000:15/0000:15:01.0/config", &config);
    tree.file("sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/config", &config);
    let host = tree.read();
    assert_eq!(host.oddities, []);
    assert_eq!(device(&host, "0000:15:01.0").acs_redirects, Some(true));
    assert_eq!(device(&host, "0000:16:00.0").acs_redirects, None, "it is no bridge");
}

#[test]
fn links_that_are_down_or_unknown() {
    let tree = Tree::new();
    let link = |speed, width, max_speed, max_width| {
        [
            ("current_link_speed", speed),
            ("current_link_width", width),
            ("max_link_speed", max_speed),
            ("max_link_width", max_width),
        ]
    };
    tree.pci("pci0000:00", "0000:00:01.0", &with(GPU, &link("Unknown", "63", "32.0 GT/s PCIe", "16")));
    tree.pci("pci0000:00", "0000:00:02.0", &with(GPU, &link("Unknown", "0", "Unknown", "255")));
    let host = tree.read();
    assert_eq!(host.oddities, []);
    let lost = device(&host, "0000:00:01.0").link.unwrap();
    assert_eq!((lost.speed_mts, lost.width, lost.max_width), (None, None, Some(16)));
    assert_eq!(device(&host, "0000:00:02.0").link, None);
}

/// The paths of what was odd.
fn odd(tree: &Tree) -> Vec<String> {
    tree.read().oddities.into_iter().map(|oddity| oddity.path).collect()
}

#[test]
fn one_file_tells_what_a_function_is_and_others_where_it_does_not() {
    let tree = Tree::new();
    let uevent = "DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:2330\nPCI_SLOT_NAME=0000:00:01.0";
    tree.pci("pci0000:00", "0000:00:01.0", &[("uevent", uevent)]);
    tree.pci("pci0000:00", "0000:00:02.0", &with(GPU, &[("uevent", "PCI_CLASS=graphics\nPCI_ID=10DE:2330")]));
    tree.pci("pci0000:00", "0000:00:03.0", &with(GPU, &[("uevent", "DRIVER=nvidia")]));
    tree.link("sys/devices/pci0000:00/0000:00:03.0/driver", "../../../bus/pci/drivers/nvidia");
    let host = tree.read();
    let told: Vec<_> = host.pci.iter().map(|gpu| (gpu.kind, gpu.device, gpu.driver.as_deref())).collect();
    let gpu = |driver| (PciKind::Gpu, 0x2330, driver);
    assert_eq!(told, [gpu(Some("nvidia")), gpu(None), gpu(Some("nvidia"))]);
    assert_eq!(odd(&tree), ["sys/devices/pci0000:00/0000:00:02.0/uevent"]);
}

#[test]
fn an_odd_device_hides_no_other() {
    let tree = Tree::new();
    let well = "pci0000:00";
    tree.pci(well, "0000:00:01.0", &with(GPU, &[("numa_node", "1099511627776"), ("local_cpulist", "0-x")]));
    tree.pci(well, "0000:00:02.0", &[("class", "graphics")]);
    tree.pci(well, "0000:00:03.0", &[("class", "0x030200"), ("vendor", "0x10de"), ("device", "0x1ffff")]);
    tree.pci(well, "0000:00:04.0", &with(GPU, &[("current_link_width", "900"), ("max_link_speed", "fast")]));
    tree.pci(well, "0000:00:05.0", &with(GPU, &[("numa_node", "1")]));
    tree.link("sys/bus/pci/devices/0000:00:06.0", "../../../devices/gone");
    tree.link("sys/bus/pci/devices/0000:00:07.0", "0000:00:07.0");
    tree.file("sys/bus/pci/devices/stray", "a file where a device would be");
    let host = tree.read();
    let gpus: Vec<_> = host.pci.iter().map(|gpu| gpu.address.to_string()).collect();
    assert_eq!(gpus, ["0000:00:01.0", "0000:00:04.0", "0000:00:05.0"]);
    assert_eq!(host.pci[0].numa_node, None);
    assert_eq!(host.pci[2].numa_node.unwrap().0, 1);
    let device = |at: &str| format!("sys/devices/pci0000:00/0000:00:{at}");
    let mut expected = vec![
        device("01.0/local_cpulist"),
        device("01.0/numa_node"),
        device("02.0/class"),
        device("03.0/device"),
        device("04.0/current_link_width"),
        device("04.0/max_link_speed"),
        "sys/bus/pci/devices/0000:00:07.0".to_owned(),
        "sys/bus/pci/devices/stray".to_owned(),
    ];
    expected.sort();
    assert_eq!(odd(&tree), expected);
}

#[test]
fn absurd_and_truncated_files_are_skipped() {
    let tree = Tree::new();
    tree.file(&format!("{NODE}/online"), "0-1048576\n");
    tree.file(&format!("{CPU}/online"), vec![b'1'; 10 << 20]);
    tree.file(&format!("{CPU}/present"), [0xff, 0xfe, 0x00]);
    tree.file("proc/driver/nvidia/version", "");
    tree.files("proc/driver/nvidia/gpus/first", &[("numa_status", "Node: 3")]);
    tree.files("proc/driver/nvidia/gpus/0000:01:00.0", &[("numa_status", "Node:")]);
    tree.pci("pci0000:00", "0000:00:01.0", &NIC);
    let rdma = "sys/devices/pci0000:00/0000:00:01.0/infiniband/mlx5_0";
    tree.files(rdma, &[("node_guid", "")]);
    tree.files(&format!("{rdma}/ports/first"), &[("state", "4: ACTIVE")]);
    tree.files(
        &format!("{rdma}/ports/1"),
        &[("state", "4"), ("rate", "quick"), ("link_layer", "InfiniBand")],
    );
    let host = tree.read();
    assert_eq!((host.numa_nodes.len(), host.cpus.online.len(), host.gpu_memory.len()), (0, 0, 0));
    let port = &host.nics[0].rdma.as_ref().unwrap().ports;
    assert_eq!((port.len(), port[0].link_layer.as_deref()), (1, Some("InfiniBand")));
    assert_eq!(odd(&tree).len(), 10, "{:?}", odd(&tree));
}

#[test]
fn lists_that_contradict_each_other_cost_only_themselves() {
    let tree = Tree::new();
    tree.files(NODE, &[("online", "0-1")]);
    tree.files(&format!("{NODE}/node0"), &[("cpulist", "0-1"), ("distance", "10")]);
    tree.files(&format!("{NODE}/node1"), &[("cpulist", "2-3"), ("distance", "21 10")]);
    tree.files(CPU, &[("online", "0-3")]);
    for (cpu, siblings) in [(0, "2-3"), (1, "0-1"), (2, "0-8191")] {
        tree.files(
            &format!("{CPU}/cpu{cpu}/topology"),
            &[("physical_package_id", "0"), ("core_id", "0"), ("thread_siblings_list", siblings)],
        );
    }
    let host = tree.read();
    assert!(host.numa_nodes[0].distances.is_empty() && host.numa_nodes[1].distances == [21, 10]);
    let places: Vec<_> = host.cpus.places.iter().map(|p| (p.cpu, p.siblings.to_string())).collect();
    assert_eq!(places, [(0, "0".to_owned()), (1, "0-1".to_owned()), (2, "2".to_owned())]);
    assert_eq!(odd(&tree).len(), 3, "{:?}", odd(&tree));
}
