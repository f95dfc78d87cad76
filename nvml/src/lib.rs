//! The only door to the driver: everything that gpulet learns from or asks of `libnvidia-ml` goes through here.
//!
//! - [`Driver`] is the node's driver: opened, sampled, let go of, opened again
//! - [`Options`]: which library, how long a call may take
//! - [`event`]: what the driver tells by itself

#![warn(missing_docs)]

mod capability;
mod code;
mod constants;
mod driver;
mod epoch;
pub mod event;
mod events;
mod library;
mod listing;
mod lock;
mod member;
mod node;
mod opening;
mod options;
mod plausible;
mod quiesce;
mod raw;
mod read;
mod reader;
mod session;
mod stats;
mod tracker;
mod worker;

pub use driver::{Classes, Driver};
pub use options::Options;
pub use quiesce::{QuiesceError, StuckCall};
