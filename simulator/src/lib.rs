//! A simulated GPU node.

pub mod command;
pub mod node;
pub mod state;
