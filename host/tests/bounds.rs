//! More of everything than a machine has, and names that are none.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use gpulet_host::recorded::Entry;
use gpulet_host::{Bundle, Recorded, Root, hardware};
use gpulet_inventory::host::{Host, PciKind};
use support::{GPU, NIC, Tree};

fn count(host: &Host, kind: PciKind) -> usize {
    host.pci.iter().filter(|device| device.kind == kind).count()
}

fn function(recorded: &mut Vec<(String, Entry)>, parent: &str, address: &str, files: &[(&str, &str)]) {
    let directory = format!("devices/{parent}/{address}");
    for (name, content) in files {
        recorded.push((format!("sys/{directory}/{name}"), Entry::File((*content).into())));
    }
    let link = Entry::Link(format!("../../../{directory}"));
    recorded.push((format!("sys/bus/pci/devices/{address}"), link));
}

#[test]
fn of_too_many_functions_gpus_and_physical_ones_are_read() {
    let tree = Tree::new();
    for number in 0..600 {
        let address = format!("0000:{:02x}:{:02x}.0", number / 32, number % 32);
        tree.pci("pci0000:00", &address, &NIC);
        // The first half of them are virtual.
        if number < 300 {
            tree.link(&format!("sys/devices/pci0000:00/{address}/physfn"), "../0000:12:00.0");
        }
    }
    for number in 0..4 {
        tree.pci("pci0001:00", &format!("0001:0{number}:00.0"), &GPU);
    }
    let host = tree.read();
    assert_eq!((count(&host, PciKind::Gpu), count(&host, PciKind::Nic), host.nics.len()), (4, 508, 508));
    let physical = host.pci.iter().filter(|nic| nic.kind == PciKind::Nic && nic.physical_function.is_none());
    assert_eq!(physical.count(), 300);
    assert!(host.pci.is_sorted_by_key(|device| device.address));
    assert_eq!(host.oddities.len(), 1, "{:?}", host.oddities);
    assert!(host.oddities[0].problem.contains("604 GPUs"), "{:?}", host.oddities);
}

#[test]
fn the_bridges_that_are_read_are_bounded() {
    let mut recorded = Vec::new();
    for number in 0..400 {
        let bridges: Vec<String> = (0..12).map(|depth| format!("{number:04x}:{depth:02x}:01.0")).collect();
        let parent = format!("pci{number:04x}:00/{}", bridges.join("/"));
        for bridge in 0..bridges.len() {
            let parent = format!("pci{number:04x}:00/{}", bridges[..bridge].join("/"));
            let directory = format!("sys/devices/{}/{}", parent.trim_end_matches('/'), bridges[bridge]);
            for (name, content) in support::BRIDGE {
                recorded.push((format!("{directory}/{name}"), Entry::File(content.into())));
            }
        }
        function(&mut recorded, &parent, &format!("{number:04x}:20:00.0"), &GPU);
    }
    let host: Recorded = recorded.into_iter().collect();
    let host = hardware::read(&Root::replay(Bundle { host, ..Bundle::default() }));
    assert_eq!((count(&host, PciKind::Gpu), count(&host, PciKind::Bridge)), (400, 4096));
    assert_eq!(host.oddities.len(), 1, "{:?}", host.oddities);
    assert!(host.oddities[0].problem.contains("bridges"), "{:?}", host.oddities);
}

#[test]
fn a_crowd_of_interfaces_and_ports_is_bounded() {
    let tree = Tree::new();
    tree.pci("pci0000:00", "0000:00:01.0", &NIC);
    let nic = "sys/devices/pci0000:00/0000:00:01.0";
    for number in 0..1100 {
        std::fs::create_dir_all(tree.path().join(format!("{nic}/net/eth{number}"))).unwrap();
        tree.files(&format!("{nic}/infiniband/mlx5_0/ports/{number}"), &[("state", "4: ACTIVE")]);
    }
    let host = tree.read();
    assert_eq!(host.nics[0].interfaces.len(), 1024);
    assert_eq!(host.nics[0].rdma.as_ref().unwrap().ports.len(), 1024);
    assert_eq!(host.oddities.len(), 2, "{:?}", host.oddities);
}

#[test]
fn names_that_are_none_are_replaced_and_odd() {
    let tree = Tree::new();
    tree.pci("pci0000:00", "0000:00:01.0", &NIC);
    let nic = "sys/devices/pci0000:00/0000:00:01.0";
    let long = "r".repeat(200);
    for name in ["eth0", "e\u{1b}[31m", "an-interface-of-30-characters-"] {
        std::fs::create_dir_all(tree.path().join(nic).join("net").join(name)).unwrap();
    }
    tree.files(&format!("{nic}/infiniband/{long}/ports/1"), &[("state", "4: ACTIVE")]);
    let host = tree.read();
    assert_eq!(host.nics[0].interfaces, ["an-interface-of", "e?[31m", "eth0"]);
    let rdma = host.nics[0].rdma.as_ref().unwrap();
    assert_eq!((rdma.name.as_str(), rdma.ports.len()), (&long[..63], 1), "it is read under its own name");
    assert_eq!(host.oddities.len(), 3, "{:?}", host.oddities);
    assert!(host.oddities.iter().all(|oddity| !oddity.path.contains('\u{1b}')), "{:?}", host.oddities);
}
