//! What dividing GPUs needs of the host: who is in the way, what outlives a crash, and what containers find afterwards.
//!
//! - [`store`]: journals on disk
//! - [`lock`]: one that changes GPUs at a time
//! - [`preflight`]: who has a GPU open, and which modules hold it
//! - [`reset`], [`reboot`]: where the driver puts a change of mode off until then
//! - [`services`]: who is stopped for a while
//! - [`aftercare`]: device files and the CDI specification, brought to what there is now

pub mod aftercare;
mod capabilities;
pub mod lock;
#[cfg(test)]
pub(crate) mod made_up;
pub mod preflight;
pub mod reboot;
pub mod reset;
pub mod services;
pub mod store;

pub use capabilities::CapabilityOf;
