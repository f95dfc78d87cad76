//! Dividing GPUs with the real program, on simulated nodes: what is asked for on a command line, and what the hardware has
//! become.
//!
//! Which public complaint about today's tools is answered where: see [`complaints`].

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod complaints;
mod crashes;
mod endings;
mod exit_codes;
mod faults;
mod round_trips;
mod traps;
mod untouched;
