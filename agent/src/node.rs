//! A node as the commands look at it, once: this machine, or one that was recorded.

use std::path::Path;
use std::time::{Duration, Instant};

use gpulet_host::bundle::BundleError;
use gpulet_host::{Root, hardware};
use gpulet_inventory::host::Host;
use gpulet_inventory::record::NodeRecord;
use gpulet_inventory::topology::NodeTopology;
use gpulet_nvml::{Classes, Driver};

use crate::config::Settings;
use crate::daemon::{self, Places};
use crate::discovery;
use crate::record;

/// How long a command waits for the driver to open.
const OPENS_WITHIN: Duration = Duration::from_secs(20);

/// Why the driver is down while it is being opened for longer than a call may take.
const STILL_OPENING: &str = "Unresponsive";

/// Why there is no node to look at.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NodeError {
    /// The host root is a file that is no bundle.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// What the driver said is in the bundle and cannot be understood.
    #[error("the bundle {path} cannot be replayed; make it anew with `gpulet collect`")]
    Record {
        /// Which.
        path: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// Only a machine can be run on or collected from.
    #[error(
        "{path} is no directory: `gpulet {command}` needs the machine itself, not what was collected from one"
    )]
    NoMachine {
        /// What was given as the host root.
        path: String,
        /// For which command.
        command: &'static str,
    },
}

/// A node to look at.
pub(crate) enum Node {
    /// A machine, with its driver.
    Live {
        /// Its file system.
        root: Root,
        /// Its driver.
        driver: Driver,
    },
    /// What was collected from a machine; no driver is opened.
    Recorded {
        /// Its files.
        root: Root,
        /// What its driver said.
        record: Box<NodeRecord>,
    },
}

/// What a node said.
pub(crate) struct Seen {
    /// The kernel's side.
    pub(crate) host: Host,
    /// The driver's.
    pub(crate) driver: NodeRecord,
    /// How long asking for them took.
    pub(crate) took: Duration,
}

impl Node {
    /// The node at the host root: a directory, or a bundle.
    ///
    /// # Errors
    /// A file that is no bundle, or one that does not hold together.
    pub(crate) fn open(places: &Places, settings: &Settings) -> Result<Self, NodeError> {
        let root = Root::open(&places.host_root)?;
        let Some(bundle) = root.bundle() else {
            let driver = Driver::new(daemon::driver_options(places, settings));
            return Ok(Self::Live { root, driver });
        };
        let failed = |source| NodeError::Record { path: places.host_root.display().to_string(), source };
        let record = Box::new(record::of(bundle, Instant::now()).map_err(failed)?);
        Ok(Self::Recorded { root, record })
    }

    /// Looks at everything once. Takes about as long as the driver does, at most some deadlines.
    pub(crate) async fn look(&self) -> Seen {
        match self {
            Self::Recorded { root, record } => {
                Seen { host: hardware::read(root), driver: (**record).clone(), took: Duration::ZERO }
            }
            Self::Live { root, driver } => {
                let begun = Instant::now();
                let record = said(driver).await;
                let took = begun.elapsed();
                Seen { host: hardware::read(root), driver: record, took }
            }
        }
    }
}

impl Seen {
    /// The topology, held against the profile in the file `expected`.
    pub(crate) fn topology(&self, expected: Option<&Path>) -> NodeTopology {
        let NodeRecord { gpus, locality } = &self.driver;
        discovery::assess(&self.host, gpus, locality, expected, &discovery::busy(gpus))
    }
}

/// What the driver says. Waits for it to open, which takes some seconds where no other program has it open.
pub(crate) async fn said(driver: &Driver) -> NodeRecord {
    let begun = Instant::now();
    let mut told = false;
    loop {
        let gpus = driver.sample(Classes { fast: true, slow: true }, Instant::now()).await;
        if gpus.driver.down_reason() != Some(STILL_OPENING) || begun.elapsed() > OPENS_WITHIN {
            return NodeRecord { gpus, locality: driver.locality().await };
        }
        if !told {
            told = true;
            tracing::info!("the driver takes its time to open; waiting for it");
        }
    }
}

/// Refuses a bundle where a machine is needed.
///
/// # Errors
/// When the host root is a file.
pub(crate) fn machine(host_root: &Path, command: &'static str) -> Result<Root, NodeError> {
    if host_root.is_file() {
        return Err(NodeError::NoMachine { path: host_root.display().to_string(), command });
    }
    Ok(Root::new(host_root))
}
