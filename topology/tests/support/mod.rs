//! Machines built in memory, and the published tables that they are compared with.

pub mod machine;
pub mod machines;
pub mod published;
pub mod snapshot;
