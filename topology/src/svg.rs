//! The topology as a picture.
//!
//! NUMA nodes are areas. In each, trees grow from the root complexes through PCIe switches to GPUs and NICs. Where
//! there are several areas they stand in two rows, the lower one upside down, so that all GPUs border on the channel
//! between the rows; NVLinks and NVSwitches are drawn there.

mod areas;
mod canvas;
mod channel;
mod leaf;
mod legend;
mod place;
mod style;
mod tree;

use gpulet_inventory::topology::Topology;

use canvas::Canvas;

/// Blank border around everything.
const MARGIN: i32 = 20;
/// Height of the heading.
const HEADING: i32 = 46;

/// The topology as a standalone SVG document, for light and dark backgrounds.
pub fn svg(topology: &Topology) -> String {
    let rows = place::rows(topology, MARGIN, MARGIN + HEADING);
    let lines = legend::lines(topology, rows.width);
    let legend_top = rows.bottom + 18;
    let height = legend_top + legend::height(topology, &lines, rows.width) + MARGIN;
    let mut canvas = Canvas::new(rows.width + 2 * MARGIN, height);
    canvas.style(style::CSS);
    canvas.background();
    legend::heading(&mut canvas, topology, MARGIN);
    areas::draw(&mut canvas, topology, &rows);
    channel::draw(&mut canvas, topology, &rows);
    areas::draw_gpus(&mut canvas, topology, &rows);
    legend::draw(&mut canvas, topology, &lines, (MARGIN, legend_top), rows.width);
    canvas.finish()
}
