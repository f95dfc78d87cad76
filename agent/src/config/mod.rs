//! The configuration: a YAML file, and flags and environment that go before it.
//!
//! Precedence: flag, environment, file, default. Everything that is wrong with a file is told at once, each with its line.

pub(crate) mod address;
pub(crate) mod drift;
pub(crate) mod duration;
mod error;
mod file;
pub(crate) mod kubelet_address;
pub(crate) mod level;
pub(crate) mod node_name;
mod partition;
pub(crate) mod publish;
pub(crate) mod settings;
mod source;

pub(crate) use error::ConfigError;
pub(crate) use settings::{Overrides, Settings};
pub(crate) use source::Source;
