//! NVLinks and NVSwitches, in the channel between the rows of areas.

use gpulet_inventory::topology::{Device, NvlinkIsland, Topology};

use super::canvas::{Anchor, Canvas, Rect};
use super::place::Rows;

/// Height of an NVSwitch bar.
const BAR: i32 = 30;
/// Between a bar and the areas, and between two bars.
const CLEAR: i32 = 38;
/// How far the flattest curve dips into the channel.
const DIP: i32 = 46;

type Boxes = [Option<(Rect, bool)>];

/// Two GPUs with direct links.
struct Couple {
    a: usize,
    b: usize,
    links: u32,
    asymmetric: bool,
}

fn couples(topology: &Topology) -> Vec<Couple> {
    let direct = topology.pairs.iter().filter_map(|pair| {
        let nvlink = pair.nvlink.filter(|nvlink| !nvlink.through_switch)?;
        let (Device::Gpu(a), Device::Gpu(b)) = (pair.a, pair.b) else { return None };
        Some(Couple { a, b, links: nvlink.links, asymmetric: nvlink.asymmetric.is_some() })
    });
    direct.collect()
}

fn switched(topology: &Topology) -> impl Iterator<Item = &NvlinkIsland> {
    topology.nvlink_islands.iter().filter(|island| island.through_switch)
}

/// The height that the channel needs. `upper` has the boxes of the upper row, `all` those of both.
pub(super) fn height(topology: &Topology, upper: &Boxes, all: &Boxes, two_rows: bool) -> i32 {
    let bars = i32::try_from(switched(topology).count()).unwrap_or(0);
    let is_upper = |gpu: usize| upper.get(gpu).is_some_and(Option::is_some);
    // How far curves dip from above, from below, and the room for those that cross.
    let (mut above, mut below, mut across) = (0, 0, 0);
    for couple in couples(topology) {
        let dip = span(all, &couple).map_or(0, dip);
        match (is_upper(couple.a), is_upper(couple.b)) {
            (true, true) => above = above.max(dip),
            (false, false) => below = below.max(dip),
            _ => across = 40,
        }
    }
    let curves = if above + below + across > 0 { above + below + across.max(16) } else { 0 };
    let switches = match (bars, two_rows) {
        (0, _) => 0,
        (bars, true) => bars * (BAR + CLEAR) + CLEAR,
        (bars, false) => bars * (BAR + CLEAR),
    };
    match (switches + curves, two_rows) {
        (0, true) => 16,
        (height, _) => height,
    }
}

fn span(boxes: &Boxes, couple: &Couple) -> Option<i32> {
    let (a, _) = boxes.get(couple.a).copied().flatten()?;
    let (b, _) = boxes.get(couple.b).copied().flatten()?;
    Some((a.middle() - b.middle()).abs())
}

fn dip(span: i32) -> i32 {
    DIP + span / 6
}

pub(super) fn draw(canvas: &mut Canvas, topology: &Topology, rows: &Rows) {
    curves(canvas, topology, rows);
    let two_rows = rows.areas.iter().any(|area| !area.upper);
    let islands: Vec<&NvlinkIsland> = switched(topology).collect();
    let needed = i32::try_from(islands.len()).unwrap_or(0) * (BAR + CLEAR) - CLEAR;
    let mut y = match two_rows {
        true => rows.channel.y + (rows.channel.height - needed) / 2,
        false => rows.channel.y + CLEAR,
    };
    for island in islands {
        bar(canvas, topology, rows, island, y);
        y += BAR + CLEAR;
    }
}

fn bar(canvas: &mut Canvas, topology: &Topology, rows: &Rows, island: &NvlinkIsland, y: i32) {
    let at = |gpu: usize| rows.gpus.get(gpu).copied().flatten();
    // GPUs that should be here and have no link up are shown with a red stump.
    let alone = topology.gpus.iter().enumerate().filter(|(gpu, placed)| {
        !island.gpus.contains(gpu) && placed.nvlinks.total > 0 && placed.nvlinks.active == 0
    });
    let gpus: Vec<usize> = island.gpus.iter().copied().chain(alone.map(|(gpu, _)| gpu)).collect();
    let left = gpus.iter().filter_map(|gpu| at(*gpu)).map(|(rect, _)| rect.x).min();
    let right = gpus.iter().filter_map(|gpu| at(*gpu)).map(|(rect, _)| rect.right()).max();
    let (Some(left), Some(right)) = (left, right) else { return };
    let rect = Rect { x: left, y, width: right - left, height: BAR };
    let most = gpus.iter().map(|gpu| to_switches(topology, *gpu)).max().unwrap_or(0);
    for gpu in &gpus {
        let Some((gpu_rect, upper)) = at(*gpu) else { continue };
        let links = to_switches(topology, *gpu);
        let x = gpu_rect.middle();
        let (from, to) = if upper { (gpu_rect.bottom(), rect.y) } else { (gpu_rect.y, rect.bottom()) };
        let edge = if upper { rows.channel.y } else { rows.channel.bottom() };
        let bad = links < most;
        canvas.line(if bad { "nvlink-bad" } else { "nvlink" }, (x, from), (x, to), (!bad).then_some(4.0));
        let text = if bad { format!("{links} of {most}") } else { format!("×{links}") };
        canvas.pill(bad, (x, (edge + to) / 2), &text);
    }
    let text = switch_text(topology, island);
    canvas.open(&text);
    canvas.rect("nvswitch", rect, 6);
    canvas.text("title", (rect.middle(), rect.y + BAR / 2 + 5), Anchor::Middle, &text);
    canvas.close();
}

fn to_switches(topology: &Topology, gpu: usize) -> u32 {
    topology.gpus.get(gpu).map_or(0, |gpu| gpu.nvlinks.to_switches)
}

fn switch_text(topology: &Topology, island: &NvlinkIsland) -> String {
    let what = match topology.nvswitches.len() {
        0 => "NVLink switches".to_owned(),
        1 => "1 NVSwitch".to_owned(),
        switches => format!("{switches} NVSwitches"),
    };
    format!("{what} · {} GPUs", island.gpus.len())
}

fn curves(canvas: &mut Canvas, topology: &Topology, rows: &Rows) {
    let couples = couples(topology);
    let at = |gpu: usize| rows.gpus.get(gpu).copied().flatten();
    let mut pills = Vec::new();
    for couple in &couples {
        let (Some((a, a_upper)), Some((b, b_upper))) = (at(couple.a), at(couple.b)) else { continue };
        let (ax, bx) = (
            attachment(&couples, rows, couple.a, couple.b, a),
            attachment(&couples, rows, couple.b, couple.a, b),
        );
        let edge = |rect: Rect, upper: bool| if upper { rect.bottom() } else { rect.y };
        let bend = match a_upper == b_upper {
            // From the border of the area on, so that the curve leaves it.
            true => dip((a.middle() - b.middle()).abs()) * 4 / 3,
            false => rows.channel.height / 2,
        };
        let into = |y: i32, upper: bool| if upper { y + bend } else { y - bend };
        let (ay, by) = (edge(a, a_upper), edge(b, b_upper));
        let points = [(ax, ay), (ax, into(ay, a_upper)), (bx, into(by, b_upper)), (bx, by)];
        let bad = couple.links == 0 || couple.asymmetric;
        let thickness = 1.2 + 1.1 * f64::from(couple.links).sqrt() as f32;
        canvas.curve(if bad { "nvlink-bad" } else { "nvlink" }, points, thickness);
        pills.push((middle(points), couple.links, bad));
    }
    for (point, links, bad) in pills {
        canvas.pill(bad, point, &format!("×{links}"));
    }
}

/// Where on its edge a GPU's curve to a peer begins: curves are spread in the order of the peers.
fn attachment(couples: &[Couple], rows: &Rows, gpu: usize, peer: usize, rect: Rect) -> i32 {
    let middle = |gpu: usize| rows.gpus.get(gpu).copied().flatten().map_or(0, |(rect, _)| rect.middle());
    let mut peers: Vec<usize> = couples
        .iter()
        .filter_map(|couple| match (couple.a == gpu, couple.b == gpu) {
            (true, _) => Some(couple.b),
            (_, true) => Some(couple.a),
            _ => None,
        })
        .collect();
    peers.sort_by_key(|peer| (middle(*peer), *peer));
    let rank = peers.iter().position(|other| *other == peer).unwrap_or(0);
    let number = |count: usize| i32::try_from(count).unwrap_or(1);
    rect.x + rect.width * number(rank + 1) / number(peers.len() + 1)
}

/// The middle of a cubic curve.
fn middle([p0, p1, p2, p3]: [(i32, i32); 4]) -> (i32, i32) {
    let mix = |a: i32, b: i32, c: i32, d: i32| (a + 3 * b + 3 * c + d) / 8;
    (mix(p0.0, p1.0, p2.0, p3.0), mix(p0.1, p1.1, p2.1, p3.1))
}
