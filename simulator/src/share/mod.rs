//! The state as the clients see it: a mapped file that the server writes and the library reads.
//!
//! A read costs the client no round trip and, when nothing changed, no system call: the file holds two copies of the
//! state under sequence locks and the number of the newer one; a client decodes a copy once and keeps it until the
//! number moves. Whoever waits (event sets, calls that a fault holds up) sleeps on a futex word in the same file.
//!
//! ```text
//! server ── Publisher ──▶ DIR/state ◀── Reader ── libnvidia-ml.so in any number of processes
//!            (one)        header, slot 0, slot 1
//! ```

mod map;
mod publisher;
mod reader;

pub use publisher::{PublishError, Publisher};
pub use reader::{AttachError, Gone, Reader};

/// Name of the mapped file in a simulation directory.
pub const FILE_NAME: &str = "state";

#[cfg(test)]
mod tests;
