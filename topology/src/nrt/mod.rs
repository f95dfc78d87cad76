//! The NodeResourceTopology object (`topology.node.k8s.io/v1alpha2`): what schedulers read of a node.
//!
//! - [`object`]: its form; [`observed`]: as the API server has it; [`ownership`]: who wrote what of it
//! - [`publisher`]: when it is read and written

pub mod object;
pub mod observed;
pub mod ownership;
pub mod publisher;
