//! The NodeResourceTopology object (`topology.node.k8s.io/v1alpha2`): what schedulers read of a node.
//!
//! - [`object`]: its form

pub mod object;
