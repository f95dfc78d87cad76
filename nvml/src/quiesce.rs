//! Why the driver could not be let go of.

use std::fmt;
use std::time::Duration;

use gpulet_inventory::gpu::GpuUuid;

/// A call that has not returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckCall {
    /// The GPU that it concerns; absent for calls that concern none.
    pub gpu: Option<GpuUuid>,
    /// The driver's symbol; `between two calls` for a thread that makes one after the other.
    pub call: &'static str,
    /// For how long it has been running.
    pub since: Duration,
}

impl fmt::Display for StuckCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.gpu {
            Some(gpu) => write!(f, "{} on {gpu} for {:.1} s", self.call, self.since.as_secs_f64()),
            None => write!(f, "{} for {:.1} s", self.call, self.since.as_secs_f64()),
        }
    }
}

/// Why the driver could not be let go of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuiesceError {
    /// Calls have not returned, and the library cannot be shut down under them.
    #[error(
        "cannot let go of the driver: {}; wait for it, or end this process to release the devices",
        .calls.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    )]
    Stuck {
        /// Those that have not.
        calls: Vec<StuckCall>,
    },
}

impl QuiesceError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Stuck { .. } => "CallStuck",
        }
    }
}
