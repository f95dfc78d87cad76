//! Heading, legend and notes.

use gpulet_inventory::topology::{NumaKind, PlacedGpu, SlotLink, Topology};

use super::canvas::{Anchor, Canvas, Rect, text_width};
use crate::label;

const LINE: i32 = 16;
const SWATCH: i32 = 14;

pub(super) fn heading(canvas: &mut Canvas, topology: &Topology, left: i32) {
    canvas.text("heading", (left, 34), Anchor::Start, "GPU topology");
    canvas.text("muted", (left, 52), Anchor::Start, &summary(topology));
}

/// `8 × NVIDIA H100 80GB HBM3 · 13 NICs · 4 NVSwitches`.
fn summary(topology: &Topology) -> String {
    let mut names: Vec<(&str, usize)> = Vec::new();
    for gpu in &topology.gpus {
        let nameless = if gpu.index.is_some() { "GPU of unknown model" } else { "GPU without driver" };
        let name = gpu.name.as_deref().unwrap_or(nameless);
        match names.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => names.push((name, 1)),
        }
    }
    let mut parts: Vec<String> =
        names.iter().map(|(name, count)| format!("{count} × {}", label::name(name))).collect();
    if parts.is_empty() {
        parts.push("no GPU".to_owned());
    }
    let mut count = |number: usize, one: &str, more: &str| match number {
        0 => {}
        1 => parts.push(format!("1 {one}")),
        number => parts.push(format!("{number} {more}")),
    };
    count(topology.nics.len(), "NIC", "NICs");
    count(topology.nvswitches.len(), "NVSwitch", "NVSwitches");
    parts.join(" · ")
}

/// Notes, broken into lines of a width.
pub(super) fn lines(topology: &Topology, width: i32) -> Vec<String> {
    notes(topology).iter().flat_map(|note| wrap(note, width)).collect()
}

pub(super) fn height(topology: &Topology, lines: &[String], width: i32) -> i32 {
    let swatches = swatch_rows(&entries(topology), width).len();
    LINE * i32::try_from(swatches + lines.len()).unwrap_or(0) + 4
}

fn wrap(note: &str, width: i32) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in note.split(' ') {
        let Some(line) = lines.last_mut() else { continue };
        if !line.is_empty() && text_width(line, 10) + text_width(word, 10) + 6 > width {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

fn notes(topology: &Topology) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(distances(topology));
    let memory = |kind: fn(&NumaKind) -> bool| {
        let nodes = topology.numa_nodes.iter().filter(move |area| kind(&area.kind));
        nodes.map(|area| area.node.id.0).collect::<gpulet_inventory::numa::CpuSet>()
    };
    let of_gpus = memory(|kind| matches!(kind, NumaKind::GpuMemory { .. }));
    if !of_gpus.is_empty() {
        notes.push(format!("Memory of GPUs: NUMA nodes {of_gpus}."));
    }
    let plain = memory(|kind| *kind == NumaKind::Memory);
    if !plain.is_empty() {
        notes.push(format!("Memory without CPUs: NUMA nodes {plain}."));
    }
    let diverging: Vec<String> = topology
        .pairs
        .iter()
        .filter(|pair| pair.diverges())
        .map(|pair| format!("{}-{}", topology.label(pair.a), topology.label(pair.b)))
        .collect();
    match diverging.len() {
        0 => {}
        1..=6 => notes.push(format!(
            "The driver (nvidia-smi) says otherwise than sysfs how near these are: {}.",
            diverging.join(", ")
        )),
        more => notes.push(format!(
            "The driver (nvidia-smi) says otherwise than sysfs how near {more} pairs of GPUs are; the table has them."
        )),
    }
    notes
}

/// `distances` has a column per online node.
fn distances(topology: &Topology) -> Option<String> {
    let nodes: Vec<_> =
        topology.numa_nodes.iter().enumerate().filter(|(_, a)| a.kind == NumaKind::Cpu).collect();
    if !(2..=4).contains(&nodes.len()) {
        return None;
    }
    let mut words = Vec::new();
    for (at, (_, one)) in nodes.iter().enumerate() {
        for (column, other) in nodes.iter().skip(at + 1) {
            let distance = one.node.distances.get(*column)?;
            words.push(format!("{}–{}: {distance}", one.node.id, other.node.id));
        }
    }
    Some(format!("NUMA distances (10 is local): {}.", words.join(", ")))
}

/// What the picture has, as class and word; classes that begin with `nvlink` or `edge` are lines.
pub(super) fn entries(topology: &Topology) -> Vec<(&'static str, &'static str)> {
    let narrow = |link: &Option<SlotLink>| link.as_ref().is_some_and(SlotLink::is_narrow);
    let gpu_links = topology.gpus.iter().map(|gpu| &gpu.place.link);
    let mut links = gpu_links
        .chain(topology.nics.iter().map(|nic| &nic.place.link))
        .chain(topology.pcie_switches.iter().map(|switch| &switch.link));
    let driven = |gpu: &PlacedGpu| gpu.index.is_some() && gpu.down.is_none();
    let undriven =
        |gpu: &PlacedGpu| gpu.index.is_none() || (gpu.down.is_some() && label::fault(gpu).is_none());
    let entries = [
        ("gpu", "GPU", topology.gpus.iter().any(driven)),
        ("down", "GPU that does not answer", topology.gpus.iter().any(|gpu| label::fault(gpu).is_some())),
        ("undriven", "GPU that the driver does not have now", topology.gpus.iter().any(undriven)),
        ("nic", "NIC", topology.nics.iter().any(|nic| nic.rdma.is_some())),
        ("nic plain", "NIC without RDMA", topology.nics.iter().any(|nic| nic.rdma.is_none())),
        ("switch", "PCIe switch", !topology.pcie_switches.is_empty()),
        ("root", "PCIe root complex", !topology.gpus.is_empty() || !topology.nics.is_empty()),
        ("nvlink", "NVLink, ×N links", !topology.nvlink_islands.is_empty()),
        ("edge-bad", "below what both ends can do", links.any(narrow)),
    ];
    entries.into_iter().filter(|(.., shown)| *shown).map(|(class, text, _)| (class, text)).collect()
}

/// Swatches with their words, as many to a line as fit, and the notes below.
pub(super) fn draw(
    canvas: &mut Canvas,
    topology: &Topology,
    lines: &[String],
    (left, top): (i32, i32),
    width: i32,
) {
    let mut y = top;
    for row in swatch_rows(&entries(topology), width) {
        let mut x = left;
        for (class, text) in row {
            if class.starts_with("nvlink") || class.starts_with("edge") {
                let middle = y + SWATCH / 2 - 2;
                let thickness = (class == "nvlink").then_some(4.0);
                canvas.line(class, (x, middle), (x + SWATCH, middle), thickness);
            } else {
                canvas.rect(class, Rect { x, y, width: SWATCH, height: SWATCH - 3 }, 3);
            }
            canvas.text("muted", (x + SWATCH + 5, y + 9), Anchor::Start, text);
            x += swatch_width(text);
        }
        y += LINE;
    }
    for line in lines {
        canvas.text("muted", (left, y + 11), Anchor::Start, line);
        y += LINE;
    }
}

fn swatch_width(text: &str) -> i32 {
    SWATCH + 5 + text_width(text, 10) + 14
}

type Entry = (&'static str, &'static str);

fn swatch_rows(entries: &[Entry], width: i32) -> Vec<Vec<Entry>> {
    let mut rows: Vec<Vec<Entry>> = Vec::new();
    let mut room = 0;
    for (class, text) in entries {
        let needed = swatch_width(text);
        match rows.last_mut().filter(|_| needed <= room) {
            Some(row) => row.push((class, text)),
            None => {
                rows.push(vec![(class, text)]);
                room = width;
            }
        }
        room -= needed;
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_notes_are_broken_between_words() {
        assert_eq!(wrap("one two three", 50), ["one two", "three"]);
        assert_eq!(wrap("averyveryverylongword", 30), ["averyveryverylongword"]);
    }

    #[test]
    fn swatches_go_on_as_many_lines_as_they_need() {
        let entries = [("gpu", "GPU"), ("nic", "NIC"), ("switch", "PCIe switch")];
        assert_eq!(swatch_rows(&entries, 1000).len(), 1);
        assert_eq!(swatch_rows(&entries, 110), [vec![entries[0], entries[1]], vec![entries[2]]]);
    }
}
