//! Links and distances, the best set of GPUs, the drawings.
//!
//! [`build`] concludes the [`gpulet_inventory::topology::Topology`] from what the kernel and the driver say;
//! everything else here reads it:
//!
//! - [`cells`] and [`table`]: the matrix that people know from `nvidia-smi topo -m`
//! - [`dot`] and [`svg`]: the pictures
//! - [`best()`]: which N of the free GPUs belong together
//! - [`expected`]: what the node should look like, and what is wrong with it
//! - [`nrt`]: the NodeResourceTopology object

pub mod best;
mod dot;
pub mod expected;
mod label;
mod matrix;
mod model;
pub mod nrt;
mod svg;
mod table;

pub use best::{best, largest_free_sets};
pub use dot::dot;
pub use expected::findings;
pub use matrix::{Cell, Cells, Word, cells};
pub use model::{GpuView, build};
pub use svg::svg;
pub use table::table;
