//! How to open the driver and how patient to be with it.

use std::path::PathBuf;
use std::time::Duration;

/// How to open the driver and how patient to be with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The library to open; absent: the search list.
    pub library: Option<PathBuf>,
    /// Where the host's file system is mounted: libraries of the host and of driver containers are looked for
    /// below it, and the kernel module's version is read from it.
    pub host_root: PathBuf,
    /// How long one call to the driver may take before its GPU counts as unresponsive.
    pub deadline: Duration,
    /// How long one call may take that changes how a GPU is divided, or that reads it for that: destroying a GPU instance
    /// takes about a second, and the first call to a GPU that was reset several.
    pub change_deadline: Duration,
    /// How long the call may take that turns MIG mode on or off: the driver may reset the GPU in it.
    pub mode_deadline: Duration,
    /// How many threads may be stuck in calls that do not return, over all times that the driver was opened, before
    /// it is not opened again.
    pub max_stuck_threads: usize,
}

/// How much longer than a reading a change may take, and one of MIG mode.
const CHANGE: u32 = 15;
const MODE: u32 = 90;

impl Options {
    /// The defaults, with this deadline for a call that reads, and others in proportion.
    pub fn with_deadline(deadline: Duration) -> Self {
        Self {
            library: None,
            host_root: "/".into(),
            deadline,
            change_deadline: deadline * CHANGE,
            mode_deadline: deadline * MODE,
            max_stuck_threads: 16,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::with_deadline(Duration::from_secs(2))
    }
}
