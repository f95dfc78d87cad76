//! The matrix against the published tables, and the table's text.

use gpulet_inventory::topology::Topology;
use gpulet_topology::{cells, table};

use crate::support::machine::Machine;
use crate::support::{machines, published};

/// What differs from the published table: `row column ours/theirs`.
fn differences(name: &str, topology: &Topology) -> Vec<String> {
    let (ours, theirs) = (cells(topology), published::kept(name));
    assert_eq!(ours.labels.len(), theirs.labels.len(), "{name}");
    let mut found = Vec::new();
    for (at, (_, row)) in theirs.rows.iter().enumerate() {
        for (column, word) in row.iter().enumerate() {
            let cell = ours.rows[at][column].word.to_string();
            if cell != *word {
                found.push(format!("{} {} {cell}/{word}", ours.labels[at], ours.labels[column]));
            }
        }
    }
    let text = |value: Option<String>| value.unwrap_or_else(|| "N/A".to_owned());
    for (at, theirs) in theirs.cpu_affinity.iter().enumerate() {
        let ours = text(ours.cpu_affinity[at].as_ref().map(ToString::to_string));
        if ours != *theirs {
            found.push(format!("GPU{at} CPU {ours}/{theirs}"));
        }
    }
    for (at, theirs) in theirs.numa_affinity.iter().enumerate() {
        let ours = text(ours.numa_affinity[at].map(|node| node.to_string()));
        if ours != *theirs {
            found.push(format!("GPU{at} NUMA {ours}/{theirs}"));
        }
    }
    for (at, theirs) in theirs.gpu_numa_id.iter().enumerate() {
        let ours = text(ours.gpu_numa_id[at].map(|node| node.to_string()));
        if ours != *theirs {
            found.push(format!("GPU{at} GPU NUMA {ours}/{theirs}"));
        }
    }
    found
}

#[test]
fn tables_of_machines_whose_firmware_is_right_are_the_same() {
    for (name, machine) in [
        ("dgx-h100", machines::dgx_h100()),
        ("dgx-a100", machines::dgx_a100()),
        ("l40s-4x", machines::l40s_4x()),
        ("dgx-1v", machines::dgx_1v()),
    ] {
        assert_eq!(differences(name, &machine.topology()), [] as [String; 0], "{name}");
    }
}

#[test]
fn within_a_socket_sysfs_says_node_where_the_driver_says_sys() {
    let topology = machines::pcie_8x4090().topology();
    let found = differences("pcie-8x4090", &topology);
    // Twelve pairs of GPUs, and the NICs with the three other GPUs of their node, each both ways.
    assert_eq!(found.len(), 2 * (12 + 6), "{found:?}");
    assert!(found.iter().all(|difference| difference.ends_with("NODE/SYS")), "{found:?}");
    let diverging = topology.pairs.iter().filter(|pair| pair.diverges()).count();
    assert_eq!(diverging, 12);
}

#[test]
fn a_machine_of_one_node_has_a_numa_node_also_where_the_firmware_names_none() {
    let topology = machines::consumer_2gpu().topology();
    assert_eq!(differences("consumer-2gpu-numa-unknown", &topology), ["GPU0 NUMA 0/N/A", "GPU1 NUMA 0/N/A"]);
}

#[test]
fn memory_of_gpus_is_not_their_numa_affinity() {
    let topology = machines::gb200_tray().topology();
    let found = differences("gb200-nvl72-tray", &topology);
    let numa: Vec<&String> = found.iter().filter(|difference| difference.contains("NUMA")).collect();
    assert_eq!(
        numa,
        [
            "GPU0 NUMA 0/0,3-9,11-17",
            "GPU1 NUMA 0/0,3-9,11-17",
            "GPU2 NUMA 1/1,19-25,27-33",
            "GPU3 NUMA 1/1,19-25,27-33"
        ]
    );
    assert!(found.iter().all(|d| d.contains("NUMA") || d.ends_with("NODE/SYS")), "{found:?}");
}

#[test]
fn nvlinks_stand_in_the_cell_in_place_of_the_path() {
    let topology = machines::a100_pcie_nvlink_pairs().topology();
    let found = differences("a100-pcie-nvlink-pairs", &topology);
    assert!(found.iter().all(|difference| difference.ends_with("NODE/SYS")), "{found:?}");
    assert_eq!(found.len(), 2 * 8);
}

#[test]
fn the_table_is_aligned_and_has_the_columns_that_people_know() {
    let text = table(&machines::l40s_4x().topology());
    let expected = "\
      GPU0  GPU1  GPU2  GPU3  NIC0  NIC1  CPU Affinity    NUMA Affinity  GPU NUMA ID
GPU0  X     NODE  SYS   SYS   SYS   SYS   0-95,192-287    0              N/A
GPU1  NODE  X     SYS   SYS   SYS   SYS   0-95,192-287    0              N/A
GPU2  SYS   SYS   X     NODE  NODE  NODE  96-191,288-383  1              N/A
GPU3  SYS   SYS   NODE  X     NODE  NODE  96-191,288-383  1              N/A
NIC0  SYS   SYS   NODE  NODE  X     PIX
NIC1  SYS   SYS   NODE  NODE  PIX   X
";
    assert!(text.trim_start().starts_with(expected), "{text}");
    assert!(text.contains("  NIC1: mlx5_1 (0000:0f:00.1, 200G)\n"), "{text}");
}

#[test]
fn cells_where_the_driver_differs_are_marked_and_explained() {
    let text = table(&machines::pcie_8x4090().topology());
    assert!(text.lines().nth(1).unwrap().starts_with("GPU0  X      NODE*"), "{text}");
    assert!(text.contains("* sysfs says NODE, the driver (nvidia-smi) SYS: GPU0-GPU1, GPU0-GPU2"), "{text}");
    let text = table(&machines::consumer_2gpu().topology());
    assert!(text.contains("~ NUMA node of GPU0 and GPU1: the firmware names none"), "{text}");
}

#[test]
fn a_machine_with_nothing_says_so() {
    assert!(table(&Machine::default().topology()).starts_with("No GPUs and no NICs"));
    let mut machine = Machine::default();
    machine.node(0, "0-3", 8);
    let slot = machine.slot(Some(0));
    machine.nic(&slot, "ens1", 0);
    let text =
        "No GPUs and no RDMA devices.\n\nNIC Legend:\n\n  NIC0: ens1 (0000:03:00.0, no RDMA, NUMA node 0)\n";
    assert_eq!(table(&machine.topology()), text);
}
