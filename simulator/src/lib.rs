//! A simulated GPU node.

pub mod command;
pub mod engine;
pub mod node;
pub mod state;
