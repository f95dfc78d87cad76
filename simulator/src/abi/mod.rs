//! The C ABI: what `libnvidia-ml.so.1` of a simulated node exports.
//!
//! [`exports`] is the table of symbols. Each goes through a guard of [`call`] (initialised? whose handle? a fault in
//! force? fallen off the bus?) and then to a small function in the file of its topic, which answers from the shared
//! state. A symbol that is not in the table does not exist, as in a driver that is too old for it.
//!
//! ```text
//! caller ─▶ exports ─▶ call (guards) ─▶ system, identity, memory, power, …  ─▶ out (the caller's pointers)
//!                        │
//!                      session ─▶ share::Reader (state)   client::DriverUse (who has the driver open)
//! ```

mod call;
mod clocks;
mod code;
mod ecc;
mod events;
mod exports;
mod faults;
mod fields;
mod gpm;
mod handle;
mod identity;
mod memory;
mod mig;
mod mig_changes;
mod mig_profiles;
mod nvlink;
mod out;
mod pcie;
mod place;
mod power;
mod processes;
mod session;
mod system;
mod thermal;
mod topology;
mod utilization;

pub use exports::{LEGACY_SYMBOLS, SYMBOLS};
