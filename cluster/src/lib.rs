//! Kubernetes as one node sees it.
//!
//! - [`api`]: the API server, as far as it concerns this node
//! - [`kubelet`]: the kubelet of this node

pub mod api;
pub mod kubelet;
mod tls;
