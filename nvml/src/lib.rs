//! The only door to the driver: everything that gpulet learns from or asks of `libnvidia-ml` goes through here.
//!
//! - [`Driver`] is the node's driver: opened, sampled, let go of, opened again
//! - [`Options`]: which library, how long a call may take
//! - [`event`]: what the driver tells by itself

#![warn(missing_docs)]

mod driver;
pub mod event;
mod options;
mod quiesce;

pub use driver::{Classes, Driver};
pub use options::Options;
pub use quiesce::{QuiesceError, StuckCall};
