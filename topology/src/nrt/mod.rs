//! The NodeResourceTopology object (`topology.node.k8s.io/v1alpha2`): what schedulers read of a node.
//!
//! - [`object`]: its form; [`observed`]: as the API server has it; [`ownership`]: who wrote what of it
//! - [`build`]: the object from what kernel, driver, kubelet and API say, with the reason for each figure
//! - [`publisher`]: when it is read and written

mod attributes;
mod built;
mod fingerprint;
mod inputs;
pub mod object;
pub mod observed;
pub mod ownership;
pub mod publisher;
mod zones;

pub use built::{Account, Built, Note, NoteReason, Share};
pub use fingerprint::fingerprint;
pub use inputs::{DeviceName, Hardware, Inputs, unknown_hardware};
pub use zones::build;
