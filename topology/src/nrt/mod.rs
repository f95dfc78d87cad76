//! The NodeResourceTopology object (`topology.node.k8s.io/v1alpha2`): what schedulers read of a node.
//!
//! - [`object`]: its form; [`observed`]: as the API server has it; [`ownership`]: who wrote what of it
//! - [`build`]: the object from what kernel, driver, kubelet and API say, with the reason for each figure
//! - [`why`]: these reasons, for people
//! - [`hazards`]: what a scheduler would stumble over in an object
//! - [`publisher`]: when it is read and written

mod attribute;
mod attributes;
mod blocks;
mod built;
mod cpu;
mod devices;
mod driver_gpus;
mod figure;
mod fingerprint;
mod hazards;
mod inputs;
mod machine_memory;
mod memory;
mod nodes;
mod notes;
pub mod object;
pub mod observed;
pub mod ownership;
mod parts;
mod pods;
pub mod publisher;
mod reserved;
mod why;
mod zones;

pub use built::{Account, Built, Note, NoteReason, Share};
pub use fingerprint::fingerprint;
pub use hazards::hazards;
pub use inputs::{DeviceName, Hardware, Inputs};
pub use why::why;
pub use zones::build;
