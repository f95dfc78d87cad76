//! Asking the running daemon for something: one line of JSON to a socket in its state directory, one line back.

pub(crate) mod client;
pub(crate) mod protocol;
pub(crate) mod socket;
