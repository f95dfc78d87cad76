//! What the written files and the simulated driver say of where devices are, against the published tables of such
//! machines (`nvidia-smi topo -m`).

use std::collections::BTreeSet;

use gpulet_inventory::locality::Level;

use super::place::{Device, devices};
use super::*;

/// A published table; a partial one has fewer rows than columns.
struct Table<'a> {
    columns: Vec<&'a str>,
    rows: Vec<Row<'a>>,
    /// Which of CPU affinity, NUMA affinity and the GPU's NUMA node follow the cells of a GPU.
    tail: Vec<&'static str>,
}

struct Row<'a> {
    name: &'a str,
    cells: Vec<&'a str>,
    tail: Vec<&'a str>,
}

impl<'a> Table<'a> {
    fn parse(text: &'a str) -> Self {
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let header = lines.next().unwrap();
        let columns: Vec<&str> = header.split_whitespace().take_while(|name| *name != "CPU").collect();
        let tail = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"];
        let rows = lines.map(|line| {
            let mut tokens = line.split_whitespace();
            let name = tokens.next().unwrap();
            let cells: Vec<&str> = tokens.by_ref().take(columns.len()).collect();
            assert_eq!(cells.len(), columns.len(), "{name}");
            Row { name, cells, tail: tokens.collect() }
        });
        let rows = rows.collect();
        Self { columns, rows, tail: tail.into_iter().filter(|name| header.contains(name)).collect() }
    }
}

/// A cell in which the table does not say what sysfs does: row, column, the table's word, that of sysfs.
type Divergence = (String, String, String, String);

/// What a comparison came to.
struct Comparison {
    /// Cells compared.
    cells: usize,
    /// Where table and sysfs differ.
    divergences: BTreeSet<Divergence>,
}

/// Compares every cell of a table with sysfs, and those that the driver answers with the driver, which must agree.
fn compare(node: &str, table: &str) -> Comparison {
    let written = Written::node(node);
    let found = devices(&written);
    let table = Table::parse(table);
    let device = |name: &str| {
        let is = |device: &Device| device.label == name || device.rdma.as_deref() == Some(name);
        found.iter().position(is).unwrap_or_else(|| panic!("{node} has no {name}"))
    };
    let columns: Vec<usize> = table.columns.iter().map(|name| device(name)).collect();
    assert_eq!(columns, (0..found.len()).collect::<Vec<_>>(), "{node} has the table's devices in its order");
    let mut comparison = Comparison { cells: 0, divergences: BTreeSet::new() };
    let mut note = |row: &str, column: &str, table: &str, sysfs: &str| {
        comparison.cells += 1;
        if table != sysfs {
            let cell = [row, column, table, sysfs].map(str::to_owned);
            comparison.divergences.insert(cell.into());
        }
    };
    for row in &table.rows {
        let own = device(row.name);
        for (other, cell) in columns.iter().zip(&row.cells) {
            let (own_device, other_device) = (&found[own], &found[*other]);
            let links = nvlinks(&written, own, *other);
            let sysfs = match (own == *other, links) {
                (true, _) => "X".to_owned(),
                (_, 0) => own_device.seen.level(&other_device.seen).to_owned(),
                (_, links) => format!("NV{links}"),
            };
            note(row.name, table.columns[*other], cell, &sysfs);
            if own != *other && links == 0 && own.max(*other) < written.engine.state().gpus.len() {
                let told = driver_level(&written, own, *other, &sysfs);
                assert_eq!(told, *cell, "the driver of {node} of {} and {}", row.name, other_device.label);
            }
        }
        assert_eq!(row.tail.len(), if row.name.starts_with("GPU") { table.tail.len() } else { 0 });
        for (what, cell) in table.tail.iter().zip(&row.tail) {
            assert_eq!(
                driver_word(&written, own, what),
                *cell,
                "the driver of {node} of {} {what}",
                row.name
            );
            let seen = &found[own].seen;
            match *what {
                "CPU Affinity" => note(row.name, what, cell, &seen.cpus),
                "NUMA Affinity" => {
                    note(row.name, what, cell, if seen.numa == "-1" { "N/A" } else { &seen.numa })
                }
                _ => note(row.name, what, cell, &memory_node(&written, own)),
            }
        }
    }
    comparison
}

/// NVLinks between two devices that are up, through switches or direct; 0 without.
fn nvlinks(written: &Written, one: usize, other: usize) -> usize {
    let gpus = &written.engine.state().gpus;
    let (Some(one), Some(other)) = (gpus.get(one), gpus.get(other)) else { return 0 };
    let switched = |gpu: &crate::state::GpuState| {
        gpu.nvlinks.iter().filter(|link| link.up && link.remote_type == 2).count()
    };
    let at = (other.identity.pci_domain, other.identity.pci_bus, other.identity.pci_device, 0);
    let direct = one.nvlinks.iter().filter(|link| link.up && link.remote_type == 0 && link.remote_pci == at);
    direct.count() + switched(one).min(switched(other))
}

fn driver_level(written: &Written, one: usize, other: usize, sysfs: &str) -> String {
    let told = &written.engine.state().gpus[one].identity.told_levels;
    let level = told.get(&u32::try_from(other).unwrap()).map(|level| Level::from_number(*level).unwrap());
    level.map_or_else(|| sysfs.to_owned(), |level| level.as_str().to_owned())
}

fn driver_word(written: &Written, gpu: usize, what: &str) -> String {
    let identity = &written.engine.state().gpus[gpu].identity;
    let list = |words: &[u64]| {
        let bits = (0..).zip(words).flat_map(|(at, word)| {
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * 64 + bit)
        });
        let list = bits.collect::<CpuSet>().to_string();
        if list.is_empty() { "N/A".to_owned() } else { list }
    };
    match what {
        "CPU Affinity" => list(&identity.cpu_affinity),
        "NUMA Affinity" => list(&identity.memory_affinity),
        _ => identity.memory_numa_node.map_or_else(|| "N/A".to_owned(), |node| node.to_string()),
    }
}

fn memory_node(written: &Written, gpu: usize) -> String {
    let at = written.engine.node().gpus()[gpu].description.at;
    let file = format!("proc/driver/nvidia/gpus/{at}/numa_status");
    if !written.path(&file).exists() {
        return "N/A".to_owned();
    }
    let text = written.read(&file);
    text.lines().find_map(|line| line.strip_prefix("Node:")).unwrap().trim().to_owned()
}

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../../tests/fixtures/", $name, ".txt"))
    };
}

/// Complete tables, with the number of their devices and of the cells about a GPU alone.
#[test]
fn complete_tables_are_met_cell_by_cell() {
    for (node, table, devices, alone) in [
        ("dgx-1v", fixture!("dgx-1v"), 12, 8),
        ("dgx-a100", fixture!("dgx-a100"), 18, 8 * 3),
        ("dgx-h100", fixture!("dgx-h100"), 21, 8 * 3),
        ("hgx-a100-nps4", fixture!("hgx-a100-nps4"), 18, 8 * 2),
        ("hgx-a100-2numa", fixture!("hgx-a100-2numa"), 16, 8 * 2),
        ("hgx-h100", fixture!("hgx-h100"), 16, 8 * 3),
        ("l40s-4x", fixture!("l40s-4x"), 6, 4 * 3),
        ("consumer-numa-unknown", fixture!("consumer-2gpu-numa-unknown"), 2, 2 * 3),
    ] {
        let comparison = compare(node, table);
        assert_eq!(comparison.divergences, BTreeSet::new(), "{node}");
        assert_eq!(comparison.cells, devices * devices + alone, "{node}");
    }
}

#[test]
fn rows_of_partial_tables_are_met_cell_by_cell() {
    for (node, table, rows, columns, alone) in [
        ("dgx-2", fixture!("dgx-2-partial"), 4, 26, 4),
        ("b200-gpu2-nvlink-down", fixture!("b200-gpu2-nvlink-down-partial"), 6, 20, 6 * 3),
        ("h100-reversed-nics", fixture!("h100-reversed-nics-partial"), 14, 17, 8 * 3),
    ] {
        let comparison = compare(node, table);
        assert_eq!(comparison.divergences, BTreeSet::new(), "{node}");
        assert_eq!(comparison.cells, rows * columns + alone, "{node}");
    }
}

/// Cells of two devices, such as `GPU0 GPU1`, in both rows that have them.
fn both(pairs: &[&str], table: &str, sysfs: &str) -> BTreeSet<Divergence> {
    let ways = pairs.iter().flat_map(|pair| {
        let (a, b) = pair.split_once(' ').unwrap();
        [(a, b), (b, a)]
    });
    ways.map(|(a, b)| [a, b, table, sysfs].map(str::to_owned).into()).collect()
}

/// Cells of one GPU.
fn alone(cells: &[(&str, &str, &str)], what: &str) -> BTreeSet<Divergence> {
    let cell = |(gpu, table, sysfs): &(&str, &str, &str)| [gpu, what, table, sysfs].map(str::to_owned).into();
    cells.iter().map(cell).collect()
}

/// On this board nvidia-smi puts everything that is not below one root at SYS, though `numa_node` is the same.
#[test]
fn the_server_of_eight_consumer_boards_differs_where_listed() {
    let comparison = compare("pcie-8x4090", fixture!("pcie-8x4090"));
    let pairs = [
        "GPU0 GPU1",
        "GPU0 GPU2",
        "GPU0 GPU3",
        "GPU1 GPU2",
        "GPU1 GPU3",
        "GPU2 GPU3",
        "GPU4 GPU5",
        "GPU4 GPU6",
        "GPU4 GPU7",
        "GPU5 GPU6",
        "GPU5 GPU7",
        "GPU6 GPU7",
        "GPU4 NIC0",
        "GPU4 NIC1",
        "GPU5 NIC0",
        "GPU5 NIC1",
        "GPU7 NIC0",
        "GPU7 NIC1",
    ];
    assert_eq!(comparison.divergences, both(&pairs, "SYS", "NODE"));
    assert_eq!(comparison.cells, 10 * 10 + 8 * 3);
}

/// The same, between GPUs that no bridge joins.
#[test]
fn the_server_of_nvlink_pairs_differs_where_listed() {
    let comparison = compare("a100-pcie-nvlink-pairs", fixture!("a100-pcie-nvlink-pairs"));
    let pairs = [
        "GPU0 GPU1",
        "GPU0 GPU3",
        "GPU1 GPU2",
        "GPU2 GPU3",
        "GPU4 GPU6",
        "GPU4 GPU7",
        "GPU5 GPU6",
        "GPU5 GPU7",
    ];
    assert_eq!(comparison.divergences, both(&pairs, "SYS", "NODE"));
    assert_eq!(comparison.cells, 8 * 8 + 8 * 3);
}

#[test]
fn the_grace_tray_differs_where_listed() {
    let comparison = compare("gb200-tray", fixture!("gb200-nvl72-tray"));
    // Every device has a PCI domain of its own there; nvidia-smi takes that for another NUMA node.
    let pairs = [
        "GPU0 NIC0",
        "GPU0 NIC1",
        "GPU0 NIC2",
        "GPU0 NIC3",
        "GPU1 NIC0",
        "GPU1 NIC1",
        "GPU1 NIC2",
        "GPU1 NIC3",
        "GPU2 NIC4",
        "GPU2 NIC5",
        "GPU2 NIC6",
        "GPU2 NIC7",
        "GPU3 NIC4",
        "GPU3 NIC5",
        "GPU3 NIC6",
        "GPU3 NIC7",
        "NIC0 NIC1",
        "NIC0 NIC2",
        "NIC0 NIC3",
        "NIC1 NIC2",
        "NIC1 NIC3",
        "NIC4 NIC5",
        "NIC4 NIC6",
        "NIC4 NIC7",
        "NIC5 NIC6",
        "NIC5 NIC7",
    ];
    let mut expected = both(&pairs, "SYS", "NODE");
    // To the node of the CPUs the driver adds those that are kept for MIG instances of the GPUs beside it.
    let nodes = [
        ("GPU0", "0,3-9,11-17", "0"),
        ("GPU1", "0,3-9,11-17", "0"),
        ("GPU2", "1,19-25,27-33", "1"),
        ("GPU3", "1,19-25,27-33", "1"),
    ];
    expected.extend(alone(&nodes, "NUMA Affinity"));
    assert_eq!(comparison.divergences, expected);
    assert_eq!(comparison.cells, 12 * 12 + 4 * 3);
}

/// The driver reduces what it says to the CPUs that its caller may use, and says something else where none are left;
/// sysfs shows the machine.
#[test]
fn the_confined_process_differs_where_listed() {
    let comparison = compare("a100-cpuset-restricted", fixture!("a100-cpuset-restricted"));
    let cpus = [
        ("GPU0", "0-14,16-30", "48-63,176-191"),
        ("GPU1", "0-14,16-30", "48-63,176-191"),
        ("GPU2", "16-30,144-158", "16-31,144-159"),
        ("GPU3", "16-30,144-158", "16-31,144-159"),
        ("GPU4", "0-14,16-30", "112-127,240-255"),
        ("GPU5", "0-14,16-30", "112-127,240-255"),
        ("GPU6", "0-14,16-30", "80-95,208-223"),
        ("GPU7", "0-14,16-30", "80-95,208-223"),
    ];
    let mut expected = alone(&cpus, "CPU Affinity");
    let nodes = [
        ("GPU0", "0-7", "3"),
        ("GPU1", "0-7", "3"),
        ("GPU4", "0-7", "7"),
        ("GPU5", "0-7", "7"),
        ("GPU6", "0-7", "5"),
        ("GPU7", "0-7", "5"),
    ];
    expected.extend(alone(&nodes, "NUMA Affinity"));
    assert_eq!(comparison.divergences, expected);
    assert_eq!(comparison.cells, 19 * 19 + 8 * 2);
}

/// A comparison that cannot fail would find none in a wrong table either.
#[test]
fn a_wrong_table_is_not_met() {
    let table = fixture!("l40s-4x").replace("NIC0\tSYS\tSYS\tNODE", "NIC0\tSYS\tSYS\tPHB");
    let expected = ["NIC0", "GPU2", "PHB", "NODE"].map(str::to_owned).into();
    assert_eq!(compare("l40s-4x", &table).divergences, BTreeSet::from([expected]));
}
