//! A device plugin: tells a kubelet, a real or a simulated one, which devices a simulated node has.
//!
//! ```text
//! node's state, host tree ─▶ offer: resource -> devices with NUMA nodes and health ─┬─▶ SimulatedKubelet::register
//!                                                                                   └─▶ plugin: gRPC to a real kubelet
//! ```

mod answer;
mod offer;
mod plugin;
mod registration;
#[cfg(test)]
mod tests;
mod v1beta1;

pub(crate) use self::answer::allocate_response;
pub use self::offer::{MigStrategy, Naming, Offer, OfferError, offer};
pub use self::plugin::{DevicePlugin, PluginError};
