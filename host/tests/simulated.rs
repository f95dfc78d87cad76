//! Hardware of simulated nodes, against their descriptions.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use gpulet_host::{Root, hardware};
use gpulet_inventory::host::{Host, PciKind};
use gpulet_simulator::engine::Engine;
use gpulet_simulator::host_tree;
use gpulet_simulator::node::Node;
use support::{above, device, read_and_replay};
use tempfile::TempDir;

fn written(name: &str) -> TempDir {
    let directory = tempfile::tempdir_in(gpulet_simulator::scratch_dir()).unwrap();
    let engine = Engine::new(&Node::load(name).unwrap(), 1, 0).unwrap();
    host_tree::write(engine.node(), engine.state(), directory.path()).unwrap();
    directory
}

fn node(name: &str) -> (TempDir, Host) {
    let directory = written(name);
    let host = read_and_replay(&Root::new(directory.path()));
    assert_eq!(host.oddities, [], "{name}");
    (directory, host)
}

fn count(host: &Host, kind: PciKind) -> usize {
    host.pci.iter().filter(|device| device.kind == kind).count()
}

#[test]
fn dgx_h100() {
    let (_directory, host) = node("dgx-h100");
    let kinds = [PciKind::Gpu, PciKind::NvSwitch, PciKind::Nic].map(|kind| count(&host, kind));
    assert_eq!((kinds, host.nics.len()), ([8, 4, 13], 13));
    assert!(host.pci.is_sorted_by_key(|device| device.address));

    let gpu = device(&host, "0000:43:00.0");
    assert_eq!(above(gpu), "pci0000:15 0000:15:01.0 0000:16:00.0 0000:17:01.0 0000:3f:00.0 0000:40:01.0");
    assert_eq!((gpu.numa_node.unwrap().0, gpu.driver.as_deref()), (0, Some("nvidia")));
    assert_eq!(gpu.local_cpus.as_ref().unwrap().to_string(), "0-55,112-167");
    let link = gpu.link.unwrap();
    assert_eq!((link.max_speed_mts, link.max_width, link.width), (Some(32_000), Some(16), Some(16)));
    for bridge in &gpu.path.bridges {
        let bridge = device(&host, &bridge.to_string());
        assert_eq!((bridge.kind, bridge.driver.as_deref()), (PciKind::Bridge, Some("pcieport")));
    }
    assert_eq!(above(device(&host, "0000:3f:00.0")), "pci0000:15 0000:15:01.0 0000:16:00.0 0000:17:01.0");
    // The bridge above the disk is above nothing of ours.
    assert!(host.pci.iter().all(|device| device.address.to_string() != "0000:00:03.0"));

    let nic = host.nics.iter().find(|nic| nic.pci.to_string() == "0000:41:00.0").unwrap();
    let rdma = nic.rdma.as_ref().unwrap();
    assert_eq!((nic.interfaces.as_slice(), rdma.name.as_str()), (&["ibs107".to_owned()][..], "mlx5_1"));
    let port = &rdma.ports[0];
    assert_eq!((port.number, port.rate_mbps), (1, Some(400_000)));
    assert_eq!((port.state.as_deref(), port.link_layer.as_deref()), (Some("ACTIVE"), Some("InfiniBand")));

    assert_eq!((host.cpus.online.len(), host.cpus.places.len()), (224, 224));
    let place = &host.cpus.places[168];
    assert_eq!((place.cpu, place.package, place.siblings.to_string().as_str()), (168, 1, "56,168"));
    assert_eq!(host.numa_nodes[1].distances, [21, 10]);
    assert_eq!(host.numa_nodes[1].memory_bytes, Some(1 << 40));
    assert_eq!(host.huge_pages.len(), 4, "two sizes on two nodes");
    assert_eq!(host.nvidia_module.as_deref(), Some("580.105.08"));

    let last = host.pci.iter().rfind(|device| device.kind == PciKind::Gpu).unwrap();
    assert_eq!(last.numa_node.unwrap().0, 1);
}

#[test]
fn every_shipped_node() {
    for name in gpulet_simulator::node::shipped() {
        let node_description = Node::load(name).unwrap();
        let host = hardware::read(&Root::new(written(name).path()));
        assert_eq!(host.oddities, [], "{name}");
        assert_eq!(count(&host, PciKind::Gpu), node_description.gpus().len(), "{name}");
        assert_eq!(host.numa_nodes.len(), node_description.description().numa.len(), "{name}");
        let cpus = node_description.description().cpu.count();
        assert_eq!(host.cpus.places.len() as u64, cpus, "{name}");
        // Every function is where its description has it.
        for function in node_description.functions() {
            if let Some(found) = host.pci.iter().find(|device| device.address == function.at) {
                assert_eq!(found.path.bridges, function.above, "{name}: {}", function.at);
                assert_eq!(found.path.root, function.root.to_string(), "{name}: {}", function.at);
                assert_eq!(found.numa_node.map(|node| node.0), function.numa, "{name}: {}", function.at);
            }
        }
    }
}

#[test]
fn a_machine_without_gpus() {
    let (_directory, host) = node("cpu-only");
    assert_eq!((count(&host, PciKind::Gpu), host.nvidia_module), (0, None));
    assert_eq!(host.cpus.online.to_string(), "0-31");
}

#[test]
fn nothing_at_all() {
    let directory = tempfile::tempdir().unwrap();
    assert_eq!(hardware::read(&Root::new(directory.path())), Host::default());
    assert_eq!(hardware::read(&Root::new(directory.path().join("missing"))), Host::default());
}
