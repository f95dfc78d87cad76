//! A node as the commands look at it, once: this machine, or one that was recorded.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use gpulet_host::bundle::BundleError;
use gpulet_host::{Root, hardware};
use gpulet_inventory::holders::Holders;
use gpulet_inventory::host::Host;
use gpulet_inventory::record::NodeRecord;
use gpulet_inventory::topology::NodeTopology;
use gpulet_nvml::{Classes, Driver};

use crate::config::Settings;
use crate::daemon::{self, Places};
use crate::discovery;
use crate::holders::Joiner;
use crate::profile::Expected;
use crate::record;
use crate::text_file::TextReader;

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
    /// The host root is not there.
    #[error("--host-root {}: no such directory; mount the host's root there", path.display())]
    NoHostRoot {
        /// What was given.
        path: PathBuf,
    },
    /// The host root cannot be looked at.
    #[error("--host-root {}: cannot be looked at", path.display())]
    HostRootUnreadable {
        /// What was given.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The host root is a directory of something else.
    #[error(
        "--host-root {}: it has neither sys nor proc, so that it is no host's root; mount the host's root there",
        path.display()
    )]
    NotAHostRoot {
        /// What was given.
        path: PathBuf,
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
    /// Whose the processes on the GPUs are, as far as kernel and driver tell.
    pub(crate) holders: Holders,
    /// How long asking for the driver's side took.
    pub(crate) took: Duration,
}

impl Node {
    /// The node at the host root: a directory, or a bundle.
    ///
    /// # Errors
    /// A file that is no bundle, or one that does not hold together; a directory that is no host's root.
    pub(crate) fn open(places: &Places, settings: &Settings) -> Result<Self, NodeError> {
        check(&places.host_root)?;
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
            Self::Recorded { root, record } => Seen::new(root, (**record).clone(), Duration::ZERO),
            Self::Live { root, driver } => {
                let begun = Instant::now();
                let record = said(driver).await;
                let took = begun.elapsed();
                Seen::new(root, record, took)
            }
        }
    }
}

impl Seen {
    fn new(root: &Root, driver: NodeRecord, took: Duration) -> Self {
        let holders = Joiner::new(root.clone()).join(&driver.gpus, None, None);
        Self { host: hardware::read(root), driver, holders, took }
    }

    /// The topology, held against the profile in the file `expected`.
    pub(crate) fn topology(&self, expected: Option<&Path>) -> NodeTopology {
        let NodeRecord { gpus, locality } = &self.driver;
        let expected = Expected::read(expected, &TextReader::default());
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

/// Refuses a bundle where a machine is needed, and what is no host's root.
///
/// # Errors
/// When the host root is a file, is not there, or has neither of the kernel's file systems.
pub(crate) fn machine(host_root: &Path, command: &'static str) -> Result<Root, NodeError> {
    if host_root.is_file() {
        return Err(NodeError::NoMachine { path: host_root.display().to_string(), command });
    }
    check(host_root)?;
    Ok(Root::new(host_root))
}

/// Refuses a directory that is no host's root: everything would be missing there, as on a healthy machine without GPU.
fn check(host_root: &Path) -> Result<(), NodeError> {
    let path = || host_root.to_owned();
    match host_root.metadata() {
        Ok(found) if !found.is_dir() => Ok(()),
        Ok(_) if ["sys", "proc"].iter().any(|name| host_root.join(name).is_dir()) => Ok(()),
        Ok(_) => Err(NodeError::NotAHostRoot { path: path() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(NodeError::NoHostRoot { path: path() }),
        Err(source) => Err(NodeError::HostRootUnreadable { path: path(), source }),
    }
}
