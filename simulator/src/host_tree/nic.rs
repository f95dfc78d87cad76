//! `/sys/class/infiniband` and `/sys/class/net`.

use std::path::Path;

use super::pci;
use super::tree::Tree;
use crate::node::Node;
use crate::node::description::{LinkLayer, NicDescription};
use crate::node::tree::Kind;

/// Adds RDMA devices and network interfaces.
pub(super) fn add(tree: &mut Tree, node: &Node) {
    for (index, function) in (0_u64..).zip(node.functions()) {
        let Kind::Nic(nic) = &function.kind else { continue };
        let device = pci::directory(function);
        // A locally administered address, one per adapter.
        let guid = 0x0200_5eff_fe00_0000 | index << 8;
        if let Some(name) = &nic.rdma {
            rdma(tree, nic, name, &device, guid);
        }
        if let Some(name) = &nic.net {
            interface(tree, nic, name, &device, guid);
        }
    }
}

fn rdma(tree: &mut Tree, nic: &NicDescription, name: &str, device: &Path, guid: u64) {
    let path = device.join("infiniband").join(name);
    tree.link(path.join("device"), device);
    tree.link(path.join("subsystem"), "sys/class/infiniband");
    tree.file(
        path.join("node_type"),
        if nic.link_layer == LinkLayer::Unspecified { "7: unspecified" } else { "1: CA" },
    );
    tree.file(path.join("node_guid"), quartets(guid));
    tree.file(path.join("sys_image_guid"), quartets(guid));
    tree.file(path.join("fw_ver"), "28.39.3560");
    for port in 1..=nic.ports {
        let path = path.join(format!("ports/{port}"));
        tree.file(path.join("state"), "4: ACTIVE");
        tree.file(path.join("phys_state"), "5: LinkUp");
        tree.file(path.join("rate"), rate(nic));
        tree.file(path.join("link_layer"), layer(nic.link_layer));
        tree.file(path.join("lid"), format!("{port:#x}"));
    }
    tree.link(format!("sys/class/infiniband/{name}"), path);
}

fn interface(tree: &mut Tree, nic: &NicDescription, name: &str, device: &Path, guid: u64) {
    let path = device.join("net").join(name);
    tree.link(path.join("device"), device);
    tree.link(path.join("subsystem"), "sys/class/net");
    let ethernet = nic.link_layer != LinkLayer::Infiniband;
    tree.file(path.join("address"), address(guid));
    // ARPHRD_ETHER and ARPHRD_INFINIBAND.
    tree.file(path.join("type"), if ethernet { 1 } else { 32 });
    tree.file(path.join("mtu"), if ethernet { 9000 } else { 4092 });
    tree.file(path.join("operstate"), "up");
    tree.file(path.join("carrier"), 1);
    tree.file(path.join("speed"), u64::from(nic.rate_gbps) * 1000);
    tree.file(path.join("dev_port"), 0);
    tree.link(format!("sys/class/net/{name}"), path);
}

fn layer(layer: LinkLayer) -> &'static str {
    match layer {
        LinkLayer::Infiniband => "InfiniBand",
        LinkLayer::Ethernet => "Ethernet",
        LinkLayer::Unspecified => "Unspecified",
    }
}

/// The rate as the kernel writes it, with lanes and the speed's name.
fn rate(nic: &NicDescription) -> String {
    let form = match nic.rate_gbps {
        800 => "4X XDR",
        400 => "4X NDR",
        200 => "4X HDR",
        100 => "4X EDR",
        56 => "4X FDR",
        40 => "4X QDR",
        25 => "1X EDR",
        10 => "1X QDR",
        _ => "4X",
    };
    format!("{} Gb/sec ({form})", nic.rate_gbps)
}

fn quartets(guid: u64) -> String {
    let [a, b, c, d, e, f, g, h] = guid.to_be_bytes();
    format!("{a:02x}{b:02x}:{c:02x}{d:02x}:{e:02x}{f:02x}:{g:02x}{h:02x}")
}

fn address(guid: u64) -> String {
    let [a, b, c, _, _, f, g, h] = guid.to_be_bytes();
    format!("{a:02x}:{b:02x}:{c:02x}:{f:02x}:{g:02x}:{h:02x}")
}
