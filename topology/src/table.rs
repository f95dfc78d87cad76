//! The matrix as text: what people know from `nvidia-smi topo -m`, with footnotes where the driver sees it otherwise.

use std::fmt::Write;

use gpulet_inventory::topology::{NumaSource, SeenBy, Topology};

use crate::label;
use crate::matrix::{Cell, Cells, cells, in_table};

const LEGEND: &str = "\
Legend:

  X    = Self
  SYS  = Path over PCIe and the interconnect between NUMA nodes
  NODE = Path over PCIe and the interconnect between PCIe host bridges within a NUMA node
  PHB  = Path over PCIe and a PCIe host bridge
  PXB  = Path over several PCIe bridges, without a host bridge
  PIX  = Path over at most one PCIe bridge
  NV#  = # bonded NVLinks, NVSwitches included
";

/// The table of a topology, aligned for a terminal, ending with a line break.
pub fn table(topology: &Topology) -> String {
    if topology.gpus.is_empty() && topology.nics.is_empty() {
        return "No GPUs and no NICs: neither the kernel nor the driver lists any.\n".to_owned();
    }
    let cells = cells(topology);
    let mut text = match cells.rows.is_empty() {
        true => "No GPUs and no RDMA devices.\n".to_owned(),
        false => format!("{}\n{LEGEND}", aligned(&grid(topology, &cells))),
    };
    nic_legend(topology, &mut text);
    footnotes(topology, &cells, &mut text);
    text
}

/// Header and rows as words; NIC rows end after the last NIC, as in `nvidia-smi`.
fn grid(topology: &Topology, cells: &Cells) -> Vec<Vec<String>> {
    let mut header = vec![String::new()];
    header.extend(cells.labels.iter().cloned());
    header.extend(["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"].map(str::to_owned));
    let mut grid = vec![header];
    for (at, (label, row)) in cells.labels.iter().zip(&cells.rows).enumerate() {
        let mut words = vec![label.clone()];
        words.extend(row.iter().map(shown));
        if let Some(gpu) = topology.gpus.get(at) {
            let numa = &gpu.place.numa;
            words.push(or_none(numa.cpus.as_ref().filter(|cpus| !cpus.is_empty())));
            let guessed = numa.node.is_some() && numa.source != NumaSource::Sysfs;
            words.push(format!("{}{}", or_none(numa.node), if guessed { "~" } else { "" }));
            words.push(or_none(gpu.memory_node));
        }
        grid.push(words);
    }
    grid
}

fn shown(cell: &Cell) -> String {
    format!("{}{}", cell.word, if cell.driver_says.is_some() { "*" } else { "" })
}

fn or_none(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "N/A".to_owned(), |value| value.to_string())
}

fn aligned(grid: &[Vec<String>]) -> String {
    let columns = grid.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        grid.iter().filter_map(|row| row.get(column)).map(|word| word.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in grid {
        let mut line = String::new();
        for (word, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{word:<width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn nic_legend(topology: &Topology, text: &mut String) {
    if topology.nics.is_empty() {
        return;
    }
    text.push_str("\nNIC Legend:\n\n");
    let labels = topology.nics.iter().map(|nic| nic.label.len()).max().unwrap_or(0);
    for nic in &topology.nics {
        let mut notes = vec![nic.place.pci.to_string()];
        notes.extend(nic.rdma.iter().flat_map(|_| &nic.interfaces).map(|name| label::name(name)));
        notes.extend(label::rate(nic));
        if !in_table(nic) {
            notes.push(format!("no RDMA, {}", label::numa_node(nic.place.numa.node)));
        }
        match nic.place.virtual_functions.len() {
            0 => {}
            1 => notes.push("1 virtual function".to_owned()),
            functions => notes.push(format!("{functions} virtual functions")),
        }
        let _ =
            writeln!(text, "  {:<labels$}: {} ({})", nic.label, label::name(&nic.name()), notes.join(", "));
    }
}

fn footnotes(topology: &Topology, cells: &Cells, text: &mut String) {
    let mut notes = Vec::new();
    divergences(cells, &mut notes);
    let guessed = topology.gpus.iter().filter(|gpu| gpu.place.numa.node.is_some());
    for source in [NumaSource::Bridge, NumaSource::LocalCpus, NumaSource::Driver, NumaSource::SingleNode] {
        let by = |gpu: &&_| named_by(gpu, source);
        let labels: Vec<&str> = guessed.clone().filter(by).map(|gpu| gpu.label.as_str()).collect();
        if !labels.is_empty() {
            notes.push(format!("~ NUMA node of {}: {}", label::list(labels), explained(source)));
        }
    }
    for gpu in &topology.gpus {
        if let Some(reason) = gpu.down {
            notes.push(format!("{} does not answer: {reason}", gpu.label));
        }
        match gpu.seen_by {
            SeenBy::Both => {}
            SeenBy::Kernel => notes.push(format!(
                "{} is on the PCI bus (kernel driver: {}) and not in the driver's list",
                gpu.label,
                label::name(gpu.kernel_driver.as_deref().unwrap_or("none"))
            )),
            SeenBy::Driver => {
                notes.push(format!("{} ({}) is not shown by sysfs", gpu.label, gpu.place.pci));
            }
        }
    }
    if !notes.is_empty() {
        let _ = writeln!(text, "\nNotes:\n\n  {}", notes.join("\n  "));
    }
}

fn named_by(gpu: &gpulet_inventory::topology::PlacedGpu, source: NumaSource) -> bool {
    gpu.place.numa.source == source
}

fn explained(source: NumaSource) -> &'static str {
    match source {
        NumaSource::Sysfs => "sysfs says so",
        NumaSource::Bridge => "the firmware names it for a PCIe bridge above only",
        NumaSource::LocalCpus => "the firmware names none; it is the node of the local CPUs",
        NumaSource::Driver => "the kernel names none; the driver does",
        NumaSource::SingleNode => "the firmware names none; the machine has only this one",
        NumaSource::Unknown => "nobody says",
    }
}

/// One line per two words that differ, with the pairs that they differ for.
fn divergences(cells: &Cells, notes: &mut Vec<String>) {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for (at, row) in cells.rows.iter().enumerate() {
        for (other, cell) in row.iter().enumerate().skip(at + 1) {
            let Some(driver) = cell.driver_says else { continue };
            let line = format!("* sysfs says {}, the driver (nvidia-smi) {}", cell.word, driver.as_str());
            let label = |at: usize| cells.labels.get(at).map_or("?", String::as_str);
            let pair = format!("{}-{}", label(at), label(other));
            match lines.iter_mut().find(|(known, _)| *known == line) {
                Some((_, pairs)) => pairs.push(pair),
                None => lines.push((line, vec![pair])),
            }
        }
    }
    notes.extend(lines.into_iter().map(|(line, pairs)| format!("{line}: {}", pairs.join(", "))));
}
