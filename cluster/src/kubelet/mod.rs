//! The kubelet of this node: what it has given to whom, by which settings it decides, and when either changes.
//!
//! - [`pod_resources`]: its PodResources service, asked over a unix socket
//! - [`settings`]: its settings, from its files and command line, or from [`configz`], its own account of them
//! - [`watch`]: when to ask again

pub mod configz;
pub mod pod_resources;
pub mod settings;
pub mod watch;

pub use configz::Configz;
pub use pod_resources::PodResources;
pub use watch::Watch;
