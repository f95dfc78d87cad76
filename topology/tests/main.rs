//! The topology crate from outside, on machines built in memory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unreachable_pub
)]

mod support;

mod best;
mod bounds;
mod drawings;
mod expected;
mod matrix;
mod model;
mod nrt;
mod properties;
