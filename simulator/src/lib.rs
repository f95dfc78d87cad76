//! A simulated GPU node.
//!
//! ```text
//!  node (YAML) ─▶ engine ─▶ server ─▶ share (mapped state) ─▶ abi: libnvidia-ml.so in any process
//!                   ▲          └────▶ host_tree (sys, proc, dev)
//!                   └── commands (gpulet-sim, tests)
//! ```
//! The state lives in the process that serves the node ([`SimulatedNode`], or `gpulet-sim serve`); the library that
//! clients load only answers from it, so several processes see one node and it outlives any of them.

mod abi;
pub mod client;
pub mod command;
pub mod device_plugin;
mod division;
pub mod driver_call;
pub mod engine;
pub mod host_tree;
pub mod kubelet;
mod library;
pub mod node;
pub mod programs;
mod protocol;
mod scratch;
pub mod server;
pub mod share;
mod simulated_node;
pub mod state;
mod uuid;

pub use abi::{LEGACY_SYMBOLS, SYMBOLS};
pub use scratch::scratch_dir;
pub use server::ClockMode;
pub use simulated_node::SimulatedNode;
