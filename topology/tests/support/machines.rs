//! Machines whose tables are published.

use gpulet_inventory::locality::Level;

use super::machine::{Machine, Spot};

/// All of them, by name.
pub fn all() -> Vec<(&'static str, Machine)> {
    vec![
        ("dgx-h100", dgx_h100()),
        ("dgx-a100", dgx_a100()),
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

/// Four NUMA nodes per socket, of which one has GPUs.
pub fn dgx_a100() -> Machine {
    let mut m = Machine::new("NVIDIA A100-SXM4-80GB");
    for node in 0..8u32 {
        let first = 16 * node;
        m.node(node, &format!("{}-{},{}-{}", first, first + 15, first + 128, first + 143), 252);
    }
    for (group, node) in [3, 1, 7, 5].into_iter().enumerate() {
        let slot = m.slot(Some(node));
        let top = m.switch(&slot);
        let arm = m.port(&top);
        let below = m.switch(&arm);
        for _ in 0..2 {
            let port = m.port(&below);
            m.gpu(&port);
        }
        for nic in 0..2 {
            let arm = m.port(&top);
            let below = m.switch(&arm);
            let port = m.port(&below);
            m.nic(&port, &format!("mlx5_{}", 2 * group + nic), 200_000);
        }
    }
    let slot = m.slot(Some(6));
    let first = m.nic(&slot, "mlx5_8", 200_000);
    m.second_port(first, "mlx5_9", 200_000);
    m.switched(12);
    m
}

/// 16 GPUs, two boards of eight.
pub fn dgx_2() -> Machine {
    let mut m = Machine::new("Tesla V100-SXM3-32GB");
    m.node(0, "0-23,48-71", 755);
    m.node(1, "24-47,72-95", 755);
    for group in 0..4 {
        let slot = m.slot(Some(group / 2));
        let top = m.switch(&slot);
        for half in 0..2 {
            let arm = m.port(&top);
            let below = m.switch(&arm);
            let ports: Vec<Spot> = (0..3).map(|_| m.port(&below)).collect();
            m.gpu(&ports[0]);
            m.gpu(&ports[1]);
            m.nic(&ports[2], &format!("mlx5_{}", 2 * group + half), 100_000);
        }
    }
    m.switched(6);
    m
}

/// Everything that can be odd in a picture: down, narrow, hidden, unknown, foreign, and names full of markup.
pub fn trouble() -> Machine {
    let mut m = dgx_h100();
    m.gpu_name = "<b>\"A & B\"</b>\u{7}".to_owned();
    let root = m.root(None);
    let port = m.port(&root);
    m.gpu(&port);
    let foreign = m.gpu(&port);
    let pci = m.gpus[foreign].pci;
    m.gpus.pop();
    m.pci(pci).driver = Some("vfio-pci".to_owned());
    m.nic(&port, "ens<1>&", 0);
    m.host.numa_nodes[1].cpus = (56..400).filter(|cpu| cpu % 3 > 0).collect();
    let mut nics = m.host.nics.iter().map(|nic| nic.pci);
    let (narrow, parent) = (nics.next().unwrap(), nics.nth(8).unwrap());
    m.pci(narrow).link.as_mut().unwrap().width = Some(8);
    m.pci(parent).link.as_mut().unwrap().width = Some(4);
    for function in 1..5 {
        let mut device = m.pci(narrow).clone();
        device.address.function = function;
        device.physical_function = Some(narrow);
        m.host.pci.push(device);
    }
    let gpu = m.gpus[1].pci;
    m.pci(gpu).link.as_mut().unwrap().width = Some(8);
    let upstream = m.topology().pcie_switches[0].upstream;
    m.pci(upstream).link.as_mut().unwrap().width = Some(4);
    m.gpus[3].down = Some("Lost");
    m.links_down(2, 18);
    m.links_down(5, 2);
    m.node(2, "", 512);
    for node in &mut m.host.numa_nodes {
        node.distances = (0..3).map(|other| if other == node.id.0 { 10 } else { 21 }).collect();
    }
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
