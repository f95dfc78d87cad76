//! A simulated GPU node.

pub mod state;
