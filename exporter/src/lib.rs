//! The metric catalogue, its encoder and the HTTP server.
//!
//! - `catalogue`: every metric, declared once, and how it is sampled from a snapshot
//! - `encode`: the text format 0.0.4 and OpenMetrics 1.0, streamed into a reused buffer
//! - `explain`: the same catalogue, asked which series are missing and why
//! - [`Own`]: what the agent counts about itself; [`Kubernetes`]: of that, what has to do with Kubernetes
//! - [`server`]: the pages over HTTP
//!
//! The data's way: the agent's loops put a `Snapshot` together and count into [`Own`]; [`render`] walks the
//! catalogue over both and writes; the server keeps what was written until the snapshot changes. Nothing here
//! calls the driver.

mod catalogue;
mod encode;
mod explain;
mod kubernetes;
mod own;
pub mod server;

pub use encode::{Format, render};
pub use explain::{Missing, explain};
pub use kubernetes::{ApiCount, ApiRequest, Kubernetes};
pub use own::{BuildInfo, Own, ReloadOutcome};
pub use server::{About, Drained, Limits, Probe, Site, serve};
