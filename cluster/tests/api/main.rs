//! What the API edge does with answers that a real API server cannot be made to give, and how often it asks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod access;
mod calls;
mod server;
mod watches;
