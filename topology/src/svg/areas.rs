//! Areas, root complexes, switches, NICs and the PCIe links between them.

use gpulet_inventory::topology::{SlotLink, Topology};

use super::canvas::{Anchor, Canvas, Rect, fit, text_width};
use super::leaf;
use super::place::{PlacedArea, PlacedBox, Rows};
use super::tree::{Kind, PADDING};
use crate::label;

/// Everything but the GPUs, which go above the NVLinks.
pub(super) fn draw(canvas: &mut Canvas, topology: &Topology, rows: &Rows) {
    for area in &rows.areas {
        frame(canvas, area);
        for placed in &area.boxes {
            edge(canvas, topology, placed, area.upper);
        }
        for placed in &area.boxes {
            match &placed.kind {
                Kind::Root(name) => bar(canvas, "root", placed.rect, name, &label::name(name)),
                Kind::Switch(at) => switch(canvas, topology, *at, placed.rect),
                Kind::Nics(nics) => {
                    let nics: Vec<_> = nics.iter().filter_map(|nic| topology.nics.get(*nic)).collect();
                    leaf::draw_nics(canvas, &nics, placed.rect);
                }
                Kind::Gpu(_) => {}
            }
        }
    }
}

pub(super) fn draw_gpus(canvas: &mut Canvas, topology: &Topology, rows: &Rows) {
    for (gpu, slot) in topology.gpus.iter().zip(&rows.gpus) {
        if let Some((rect, _)) = slot {
            leaf::draw_gpu(canvas, gpu, *rect);
        }
    }
}

fn frame(canvas: &mut Canvas, area: &PlacedArea) {
    canvas.rect(if area.known { "area" } else { "area unknown" }, area.rect, 10);
    let x = area.rect.x + PADDING;
    let y = if area.upper { area.rect.y + 19 } else { area.rect.bottom() - 24 };
    canvas.text("title", (x, y), Anchor::Start, &area.title);
    canvas.text("muted", (x, y + 14), Anchor::Start, &area.subtitle);
}

fn switch(canvas: &mut Canvas, topology: &Topology, at: usize, rect: Rect) {
    let Some(switch) = topology.pcie_switches.get(at) else { return };
    let address = switch.upstream.to_string();
    let long = format!("PCIe switch {address}");
    let shown = if text_width(&long, 9) <= rect.width { &long } else { &address };
    let ports = label::list(switch.downstream.iter().map(ToString::to_string));
    bar(canvas, "switch", rect, shown, &format!("{long}\ndownstream ports {ports}"));
}

fn bar(canvas: &mut Canvas, class: &str, rect: Rect, text: &str, tip: &str) {
    canvas.open(tip);
    canvas.rect(class, rect, 4);
    let y = rect.y + rect.height / 2 + 4;
    canvas.text("small", (rect.middle(), y), Anchor::Middle, &fit(text, 9, rect.width));
    canvas.close();
}

/// The link from the box above, red where lanes are missing.
fn edge(canvas: &mut Canvas, topology: &Topology, placed: &PlacedBox, upper: bool) {
    let Some(parent) = placed.parent else { return };
    let x = placed.rect.middle();
    let (from, to) = match upper {
        true => (parent.bottom(), placed.rect.y),
        false => (parent.y, placed.rect.bottom()),
    };
    let narrow = link(topology, &placed.kind).filter(SlotLink::is_narrow);
    canvas.line(if narrow.is_some() { "edge-bad" } else { "edge" }, (x, from), (x, to), None);
    if let (Some(text), Kind::Switch(_)) = (narrow.as_ref().and_then(label::width), &placed.kind) {
        canvas.pill(true, (x, (from + to) / 2), &text);
    }
}

/// For two NICs the worse link.
fn link(topology: &Topology, kind: &Kind) -> Option<SlotLink> {
    match kind {
        Kind::Root(_) => None,
        Kind::Switch(at) => topology.pcie_switches.get(*at)?.link,
        Kind::Gpu(at) => topology.gpus.get(*at)?.place.link,
        Kind::Nics(nics) => {
            let mut links = nics.iter().filter_map(|nic| topology.nics.get(*nic)?.place.link);
            let first = links.next()?;
            Some(if first.is_narrow() { first } else { links.find(SlotLink::is_narrow).unwrap_or(first) })
        }
    }
}
