//! The machine of the protocol against a node in memory.

mod busy;
mod crashes;
mod node;
mod sampled;
mod ways;
mod world;
