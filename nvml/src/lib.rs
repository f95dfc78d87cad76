//! The only door to the driver: everything that gpulet learns from or asks of `libnvidia-ml` goes through here.
//!
//! ```text
//!  Driver ── node ── session      when to open, let go, open again: a state machine without I/O
//!              │
//!              ├── opening        a thread that finds (library), loads and initialises
//!              └── epoch          the driver from one opening to the next
//!                    ├── member ── worker     a thread per GPU ── reader ── read/*: typed readings
//!                    └── events               a thread that waits for XIDs and changes of MIG
//!                                       all of them ── raw/*: the C interface, and all `unsafe`
//! ```
//! - [`Driver`] is the node's driver: opened, sampled, let go of, opened again; and its GPUs read whole and changed
//! - [`Change`], [`ChangeError`]: what is changed about a GPU, and why it was not
//! - [`Options`]: which library, how long a call may take
//! - [`event`]: what the driver tells by itself
//! - [`leave()`]: ends the process though the driver hangs
//!
//! Three things hold whatever the driver does. A call that never returns costs its GPU and one thread, and no more
//! threads are started for either until it returns. The library is never shut down under a call, because whoever
//! makes one owns it. And nothing leaves as a number that is not one: a reading is a value, or the call and what it
//! answered.

#![warn(missing_docs)]

mod capability;
mod change;
mod code;
mod constants;
mod driver;
mod epoch;
pub mod event;
mod events;
mod file;
mod kernel;
mod library;
mod listing;
mod locality;
mod lock;
mod member;
mod node;
mod opening;
mod options;
mod plausible;
mod quiesce;
mod raw;
mod read;
mod reader;
mod session;
mod stats;
mod tracker;
mod worker;

pub use change::{Change, ChangeError, Changed, Doing, PutOff};
pub use driver::{Classes, Driver};
pub use options::Options;
pub use quiesce::{QuiesceError, StuckCall};
pub use raw::leave::leave;
