//! The NodeResourceTopology object of machines built in memory, read as a scheduler reads it.

mod attributes;
mod cpus;
mod devices;
mod golden;
mod hazards;
mod memory;
mod node;
mod parts;
mod properties;
mod scheduler;
mod why;
mod zones;
