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
    /// How long one call may take that changes how a GPU is divided. Destroying a GPU instance takes about a second.
    pub change_deadline: Duration,
    /// How long the call may take that turns MIG mode on or off: the driver may reset the GPU in it.
    pub mode_deadline: Duration,
    /// How many threads may be stuck in calls that do not return, over all times that the driver was opened, before
    /// it is not opened again.
    pub max_stuck_threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            library: None,
            host_root: "/".into(),
            deadline: Duration::from_secs(2),
            change_deadline: Duration::from_secs(30),
            mode_deadline: Duration::from_secs(180),
            max_stuck_threads: 16,
        }
    }
}
