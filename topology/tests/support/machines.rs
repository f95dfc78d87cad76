//! Machines whose tables are published.

use gpulet_inventory::locality::Level;

use super::machine::{Machine, Spot};

/// All of them, by name.
pub fn all() -> Vec<(&'static str, Machine)> {
    vec![
        ("dgx-h100", dgx_h100()),
        ("l40s-4x", l40s_4x()),
        ("dgx-1v", dgx_1v()),
        ("a100-pcie-nvlink-pairs", a100_pcie_nvlink_pairs()),
        ("pcie-8x4090", pcie_8x4090()),
        ("gb200-nvl72-tray", gb200_tray()),
        ("consumer-2gpu-numa-unknown", consumer_2gpu()),
    ]
}

/// Two switches below a third, each with a GPU and its NIC; NICs 8 to 12 share one more switch.
pub fn dgx_h100() -> Machine {
    let mut m = Machine::new("NVIDIA H100 80GB HBM3");
    m.node(0, "0-55,112-167", 1008);
    m.node(1, "56-111,168-223", 1008);
    for pair in 0..4 {
        let slot = m.slot(Some(pair / 2));
        let top = m.switch(&slot);
        for half in 0..2 {
            let arm = m.port(&top);
            let below = m.switch(&arm);
            let (gpu, nic) = (m.port(&below), m.port(&below));
            m.gpu(&gpu);
            m.nic(&nic, &format!("mlx5_{}", 2 * pair + half), 400_000);
        }
    }
    let slot = m.slot(Some(1));
    let storage = m.switch(&slot);
    for nic in 8..13 {
        let port = m.port(&storage);
        m.nic(&port, &format!("mlx5_{nic}"), if nic == 8 { 100_000 } else { 200_000 });
    }
    let slot = m.slot(Some(1));
    let switches = m.switch(&slot);
    for _ in 0..4 {
        let port = m.port(&switches);
        m.nvswitch(&port);
    }
    m.switched(18);
    m
}

pub fn l40s_4x() -> Machine {
    let mut m = Machine::new("NVIDIA L40S");
    m.node(0, "0-95,192-287", 756);
    m.node(1, "96-191,288-383", 756);
    for gpu in 0..4 {
        let slot = m.slot(Some(gpu / 2));
        m.gpu(&slot);
    }
    let slot = m.slot(Some(1));
    let first = m.nic(&slot, "mlx5_0", 200_000);
    m.second_port(first, "mlx5_1", 200_000);
    m
}

/// Per socket one root complex with two switches, each with two GPUs and a NIC.
pub fn dgx_1v() -> Machine {
    let mut m = Machine::new("Tesla V100-SXM2-32GB");
    m.node(0, "0-19,40-59", 252);
    m.node(1, "20-39,60-79", 252);
    for socket in 0..2 {
        let root = m.root(Some(socket));
        for half in 0..2 {
            let port = m.port(&root);
            let switch = m.switch(&port);
            let ports: Vec<Spot> = (0..3).map(|_| m.port(&switch)).collect();
            m.gpu(&ports[0]);
            m.gpu(&ports[1]);
            m.nic(&ports[2], &format!("mlx5_{}", 2 * socket + half), 100_000);
        }
    }
    for (a, b, links) in [
        (0, 1, 1),
        (0, 2, 1),
        (0, 3, 2),
        (0, 4, 2),
        (1, 2, 2),
        (1, 3, 1),
        (1, 5, 2),
        (2, 3, 2),
        (2, 6, 1),
        (3, 7, 1),
        (4, 5, 1),
        (4, 6, 1),
        (4, 7, 2),
        (5, 6, 2),
        (5, 7, 1),
        (6, 7, 2),
    ] {
        m.linked(a, b, links);
    }
    m
}

/// Bridged pairs; the published words say SYS within a socket, which sysfs does not.
pub fn a100_pcie_nvlink_pairs() -> Machine {
    let mut m = Machine::new("NVIDIA A100 80GB PCIe");
    m.node(0, "0-31", 504);
    m.node(1, "32-63", 504);
    for gpu in 0..8 {
        let slot = m.slot(Some(gpu / 4));
        m.gpu(&slot);
    }
    for (a, b) in [(0, 2), (1, 3), (4, 5), (6, 7)] {
        m.linked(a, b, 12);
    }
    m.driver_says(|_, _| Level::Sys);
    m
}

/// No NVLink, and the driver says SYS for all; a dual-port NIC shares the root complex of GPU 6.
pub fn pcie_8x4090() -> Machine {
    let mut m = Machine::new("NVIDIA GeForce RTX 4090");
    m.node(0, "0-55,112-167", 504);
    m.node(1, "56-111,168-223", 504);
    for gpu in 0..8 {
        let root = m.root(Some(gpu / 4));
        let port = m.port(&root);
        m.gpu(&port);
        if gpu == 6 {
            let port = m.port(&root);
            let first = m.nic(&port, "mlx5_0", 100_000);
            m.second_port(first, "mlx5_1", 100_000);
        }
    }
    m.driver_says(|_, _| Level::Sys);
    m
}

/// 34 NUMA nodes: two with CPUs, and eight per GPU of which seven are spare.
pub fn gb200_tray() -> Machine {
    let mut m = Machine::new("NVIDIA GB200");
    m.node(0, "0-71", 478);
    m.node(1, "72-143", 478);
    for gpu in 0..4 {
        let slot = m.slot(Some(gpu / 2));
        m.gpu(&slot);
    }
    for node in 2..34 {
        m.node(node, "", if (node - 2) % 8 == 0 { 185 } else { 0 });
    }
    for gpu in 0..4 {
        m.own_memory(gpu, 2 + 8 * gpu as u32);
    }
    for nic in 0..8 {
        if nic % 4 == 3 {
            continue;
        }
        let slot = m.slot(Some(nic / 4));
        let first = m.nic(&slot, &format!("mlx5_{nic}"), 400_000);
        if nic % 4 == 2 {
            m.second_port(first, &format!("mlx5_{}", nic + 1), 200_000);
        }
    }
    m.switched(18);
    m.driver_says(|_, _| Level::Sys);
    for gpu in &mut m.locality.as_mut().unwrap().gpus {
        gpu.c2c_links = gpulet_inventory::reading::Reading::Supported(10);
    }
    m
}

/// One node, and a firmware that says -1.
pub fn consumer_2gpu() -> Machine {
    let mut m = Machine::new("NVIDIA GeForce RTX 3090");
    m.node(0, "0-11", 62);
    let root = m.root(None);
    for _ in 0..2 {
        let port = m.port(&root);
        m.gpu(&port);
    }
    m
}
