//! The topology as a picture.

use gpulet_inventory::topology::Topology;

/// The topology as a standalone SVG document, for light and dark backgrounds.
pub fn svg(topology: &Topology) -> String {
    let _ = topology;
    String::new()
}
