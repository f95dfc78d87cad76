//! The built programs, driven from outside: a simulated node, the daemon on it, and what it serves.
//!
//! Everything here is what a person could do on a terminal: run a program, send a signal, fetch a page, look into
//! `/proc`. Nothing reaches into the programs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod agent;
mod control_plane;
mod node;
mod partition;
mod program;
mod real_node;
mod scrape;
mod text_only;

pub use agent::{Agent, Response};
pub use control_plane::{Answer, Bound, Client, ControlPlane, Identity, Request, Stage, documents, pod};
pub use node::Node;
pub use partition::{Division, Finished, Gpu, Instance, Moment, Running, Site};
pub use program::{gpulet, gpulet_sim, others_python, wait_until, wait_within};
pub use real_node::{Answers, Device, Holding, Memory, Ran, RealNode};
pub use scrape::Scrape;
pub use text_only::TextOnly;
