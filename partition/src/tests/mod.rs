//! The planner against every layout that there is, and against a GPU of its own kind.

mod apply;
mod computes;
mod counts;
mod exhaustive;
mod layouts;
mod mode;
mod model;
mod node;
pub(crate) mod nodes;
mod properties;
mod protocol;
pub(crate) mod tables;
mod traps;
