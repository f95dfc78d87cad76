//! Boxes of GPUs and NICs.

use gpulet_inventory::topology::{PlacedGpu, PlacedNic, SeenBy, SlotLink, Topology};

use super::canvas::{Anchor, Canvas, Rect, fit};
use crate::label;

/// Width of a GPU's box: the longest reason why one is down fits.
pub(super) const GPU_WIDTH: i32 = 124;
/// Width of a NIC's box.
pub(super) const NIC_WIDTH: i32 = 76;
/// Height of a line of text.
const LINE: i32 = 13;

/// Height of the leaf row: as many lines as the fullest GPU or NIC has.
pub(super) fn height(topology: &Topology) -> i32 {
    let gpus = topology.gpus.iter().map(|gpu| gpu_lines(gpu).len());
    let lines = gpus.chain(topology.nics.iter().map(|nic| nic_lines(nic).len())).max().unwrap_or(0).max(3);
    32 + LINE * i32::try_from(lines).unwrap_or(3)
}

/// A line of text and whether it tells of something bad.
struct Line(String, bool);

fn gpu_lines(gpu: &PlacedGpu) -> Vec<Line> {
    let good = |text: String| Line(text, false);
    let mut lines = Vec::new();
    lines.extend(gpu.name.as_deref().map(|name| good(short(name))));
    if gpu.label != gpu.place.pci.to_string() {
        lines.push(good(gpu.place.pci.to_string()));
    }
    lines.extend(gpu.place.link.and_then(|link| link_line(&link)));
    lines.extend(gpu.c2c_links.filter(|links| *links > 0).map(|links| good(format!("C2C ×{links}"))));
    lines.extend(gpu.memory_node.map(|node| good(format!("memory: node {node}"))));
    match (gpu.down, gpu.seen_by) {
        (Some(reason), _) if label::fault(gpu).is_some() => lines.push(Line(format!("down: {reason}"), true)),
        (Some(_), _) => lines.push(good("driver not open".to_owned())),
        (None, SeenBy::Kernel) => {
            lines.push(good(gpu.kernel_driver.clone().unwrap_or_else(|| "no driver".to_owned())));
        }
        (None, SeenBy::Driver | SeenBy::Both) => {}
    }
    lines
}

/// A name without its maker.
fn short(name: &str) -> String {
    ["NVIDIA ", "Tesla ", "GeForce "]
        .iter()
        .fold(name, |name, maker| name.trim_start_matches(maker))
        .to_owned()
}

/// The speed shown is the highest of both ends, for an idle GPU lowers its own.
fn link_line(link: &SlotLink) -> Option<Line> {
    let width = label::width(link)?;
    if link.is_narrow() {
        return Some(Line(width, true));
    }
    let generation = link.possible_speed_mts.and_then(label::generation);
    Some(Line(generation.map_or(width.clone(), |generation| format!("Gen{generation} {width}")), false))
}

pub(super) fn draw_gpu(canvas: &mut Canvas, gpu: &PlacedGpu, rect: Rect) {
    let tip = [
        Some(gpu.label.clone()),
        gpu.name.as_deref().map(label::name),
        gpu.uuid.as_ref().map(ToString::to_string),
        Some(gpu.place.pci.to_string()),
        Some(format!("{} ({})", label::numa_node(gpu.place.numa.node), gpu.place.numa.source.as_str())),
    ];
    canvas.open(&tip.into_iter().flatten().collect::<Vec<_>>().join("\n"));
    let class = match (gpu.down, gpu.seen_by) {
        (Some(_), _) if label::fault(gpu).is_some() => "down",
        (Some(_), _) | (None, SeenBy::Kernel) => "undriven",
        (None, SeenBy::Both | SeenBy::Driver) => "gpu",
    };
    canvas.rect(class, rect, 6);
    // An address, for want of a number, is longer than a label.
    let class = if gpu.index.is_some() { "name" } else { "half" };
    canvas.text(class, (rect.middle(), rect.y + 18), Anchor::Middle, &fit(&gpu.label, 11, rect.width));
    let mut y = rect.y + 18;
    for Line(text, bad) in gpu_lines(gpu) {
        y += LINE;
        let class = if bad { "small bad" } else { "small" };
        canvas.text(class, (rect.middle(), y), Anchor::Middle, &fit(&text, 9, rect.width - 6));
    }
    canvas.close();
}

/// One NIC in the whole box, or two in a half each.
pub(super) fn draw_nics(canvas: &mut Canvas, nics: &[&PlacedNic], rect: Rect) {
    if let [only] = nics {
        return draw_nic(canvas, only, rect, &nic_lines(only));
    }
    let half = (rect.height - 6) / 2;
    for (nic, y) in nics.iter().zip([rect.y, rect.bottom() - half]) {
        let mut lines = nic_lines(nic);
        lines.retain(|Line(text, _)| *text != nic.place.pci.to_string());
        let room = usize::try_from((half - 18) / LINE).unwrap_or(1).max(1);
        let (mut bad, good): (Vec<Line>, Vec<Line>) = lines.into_iter().partition(|Line(_, bad)| *bad);
        bad.extend(good);
        bad.truncate(room);
        draw_nic(canvas, nic, Rect { y, height: half, ..rect }, &bad);
    }
}

fn nic_lines(nic: &PlacedNic) -> Vec<Line> {
    let mut lines = vec![Line(nic.name(), false)];
    let address = nic.place.pci.to_string();
    if nic.name() != address {
        lines.push(Line(address, false));
    }
    let link = nic.place.link.and_then(|link| link_line(&link));
    match (link, label::rate(nic)) {
        (Some(Line(text, true)), _) => lines.push(Line(text, true)),
        (_, Some(rate)) => lines.push(Line(rate, false)),
        (Some(line), None) => lines.push(line),
        (None, None) => {}
    }
    if !nic.place.virtual_functions.is_empty() {
        lines.push(Line(format!("+{} functions", nic.place.virtual_functions.len()), false));
    }
    lines
}

fn draw_nic(canvas: &mut Canvas, nic: &PlacedNic, rect: Rect, lines: &[Line]) {
    let mut tip = vec![nic.label.clone(), label::name(&nic.name()), nic.place.pci.to_string()];
    tip.extend(nic.interfaces.iter().map(|name| label::name(name)));
    tip.extend(nic.place.link.as_ref().and_then(label::width));
    canvas.open(&tip.join("\n"));
    canvas.rect(if nic.rdma.is_some() { "nic" } else { "nic plain" }, rect, 6);
    let half = rect.height < 50;
    let mut y = rect.y + if half { 14 } else { 18 };
    canvas.text(if half { "half" } else { "name" }, (rect.middle(), y), Anchor::Middle, &nic.label);
    for Line(text, bad) in lines {
        y += LINE;
        let class = if *bad { "small bad" } else { "small" };
        canvas.text(class, (rect.middle(), y), Anchor::Middle, &fit(text, 9, rect.width - 4));
    }
    canvas.close();
}
