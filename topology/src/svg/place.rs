//! Where areas and boxes go on the page.

use gpulet_inventory::topology::Topology;

use super::canvas::Rect;
use super::channel;
use super::leaf;
use super::tree::{self, Area, GAP, Kind, Node, PADDING};

/// Height of title and subtitle of an area.
const TITLES: i32 = 44;
/// Height of the bar of a root complex.
pub(super) const ROOT: i32 = 20;
/// Height of the bar of a switch.
pub(super) const SWITCH: i32 = 22;
/// Height of the links between two levels.
pub(super) const STEP: i32 = 22;
/// Blank between two areas.
const BETWEEN: i32 = 16;

/// All that is placed.
pub(super) struct Rows {
    pub(super) areas: Vec<PlacedArea>,
    /// Width of the widest row, title included.
    pub(super) width: i32,
    /// The channel for NVLinks: below the upper row, above the lower one.
    pub(super) channel: Rect,
    pub(super) bottom: i32,
    /// GPUs' boxes by position, and whether they stand above the channel.
    pub(super) gpus: Vec<Option<(Rect, bool)>>,
}

/// One area with the boxes in it.
pub(super) struct PlacedArea {
    pub(super) rect: Rect,
    pub(super) title: String,
    pub(super) subtitle: String,
    pub(super) known: bool,
    /// Whether it grows downward.
    pub(super) upper: bool,
    pub(super) boxes: Vec<PlacedBox>,
}

impl PlacedArea {
    fn move_down(&mut self, by: i32) {
        self.rect.y += by;
        for placed in &mut self.boxes {
            placed.rect.y += by;
            placed.parent = placed.parent.map(|rect| Rect { y: rect.y + by, ..rect });
        }
    }
}

/// One box.
pub(super) struct PlacedBox {
    pub(super) kind: Kind,
    pub(super) rect: Rect,
    /// The box that it hangs from.
    pub(super) parent: Option<Rect>,
}

/// Places everything from (`left`, `top`) on.
pub(super) fn rows(topology: &Topology, left: i32, top: i32) -> Rows {
    let mut upper = tree::areas(topology);
    let lower = upper.split_off(split(&upper));
    let width = row_width(&upper).max(row_width(&lower)).max(420);
    let leaves = leaf::height(topology);
    let mut placed = Vec::new();
    let upper_bottom = place_row(upper, true, (left, top), width, leaves, &mut placed);
    let upper_gpus = gpu_boxes(topology, &placed);
    let two_rows = !lower.is_empty();
    let mut bottom = upper_bottom;
    if two_rows {
        // How high the channel is follows from where the lower boxes are across, which it does not change.
        bottom = place_row(lower, false, (left, upper_bottom), width, leaves, &mut placed);
    }
    let height = channel::height(topology, &upper_gpus, &gpu_boxes(topology, &placed), two_rows);
    for area in placed.iter_mut().filter(|area| !area.upper) {
        area.move_down(height);
    }
    let gpus = gpu_boxes(topology, &placed);
    let channel = Rect { x: left, y: upper_bottom, width, height };
    Rows { areas: placed, width, channel, bottom: bottom + height, gpus }
}

/// How many areas the upper row takes: so that the wider row is as narrow as can be.
fn split(areas: &[Area]) -> usize {
    let wider = |at: usize| {
        let (upper, lower) = areas.split_at_checked(at).unwrap_or((areas, &[]));
        row_width(upper).max(row_width(lower))
    };
    (1..=areas.len()).min_by_key(|at| wider(*at)).unwrap_or(0)
}

fn row_width(areas: &[Area]) -> i32 {
    let gaps = BETWEEN * i32::try_from(areas.len().saturating_sub(1)).unwrap_or(0);
    areas.iter().map(|area| area.width).sum::<i32>() + gaps
}

/// Gives the lower edge of the row. A narrow row is spread to the whole width.
fn place_row(
    areas: Vec<Area>,
    upper: bool,
    (left, top): (i32, i32),
    width: i32,
    leaves: i32,
    placed: &mut Vec<PlacedArea>,
) -> i32 {
    let levels = areas.iter().map(Area::switch_rows).max().unwrap_or(0);
    let levels = i32::try_from(levels).unwrap_or(0);
    let height = TITLES + ROOT + STEP + levels * (SWITCH + STEP) + leaves + PADDING;
    let spare = (width - row_width(&areas)).max(0) / i32::try_from(areas.len().max(1)).unwrap_or(1);
    let mut x = left;
    for area in areas {
        let rect = Rect { x, y: top, width: area.width + spare, height };
        x = rect.right() + BETWEEN;
        placed.push(place_area(area, rect, upper, levels));
    }
    if placed.is_empty() { top } else { top + height }
}

fn place_area(area: Area, rect: Rect, upper: bool, levels: i32) -> PlacedArea {
    let mut x = rect.x + PADDING;
    let page = Page { area: rect, upper, leaf_row: TITLES + ROOT + STEP + levels * (SWITCH + STEP) };
    let mut boxes = Vec::new();
    for root in area.roots {
        let width = root.width;
        page.put(root, x, TITLES, None, &mut boxes);
        x += width + GAP;
    }
    PlacedArea { rect, title: area.title, subtitle: area.subtitle, known: area.known, upper, boxes }
}

/// Turns distances from an area's outer edge into places on the page.
struct Page {
    area: Rect,
    upper: bool,
    leaf_row: i32,
}

impl Page {
    fn put(&self, node: Node, x: i32, depth: i32, parent: Option<Rect>, boxes: &mut Vec<PlacedBox>) {
        let (from, height) = match node.kind {
            Kind::Root(_) => (depth, ROOT),
            Kind::Switch(_) => (depth, SWITCH),
            Kind::Gpu(_) | Kind::Nics(_) => (self.leaf_row, self.area.height - self.leaf_row - PADDING),
        };
        let y = if self.upper { self.area.y + from } else { self.area.bottom() - from - height };
        let rect = Rect { x, y, width: node.width, height };
        boxes.push(PlacedBox { kind: node.kind, rect, parent });
        let mut x = x;
        for child in node.children {
            let width = child.width;
            self.put(child, x, from + height + STEP, Some(rect), boxes);
            x += width + GAP;
        }
    }
}

fn gpu_boxes(topology: &Topology, areas: &[PlacedArea]) -> Vec<Option<(Rect, bool)>> {
    let mut gpus = vec![None; topology.gpus.len()];
    for area in areas {
        for placed in &area.boxes {
            if let Kind::Gpu(gpu) = placed.kind
                && let Some(slot) = gpus.get_mut(gpu)
            {
                *slot = Some((placed.rect, area.upper));
            }
        }
    }
    gpus
}
