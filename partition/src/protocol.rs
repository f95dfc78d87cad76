//! From what a node's labels declare to a node whose GPUs are so: a state machine without I/O.

mod journal;

pub use journal::{NodeEntry, NodeJournal, Reached, RebootMarker};
