//! The API edge against a real API server, with the rights and policies that are shipped.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod changes;
mod credentials;
mod node;
mod outages;
mod support;
mod topology;
