//! The daemon: starts the loops, hears signals, and ends them all in time.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gpulet_exporter::Own;
use gpulet_host::Root;
use gpulet_nvml::{Driver, Options};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, watch};

use crate::config::node_name::NodeName;
use crate::config::{ConfigError, Settings, Source};
use crate::listen::{ListenError, Listener};
use crate::loops::{self, Shared};
use crate::node::{self, NodeError};
use crate::reload::Reload;
use crate::supervise::liveness::Progress;
use crate::supervise::readiness::Readiness;
use crate::supervise::{Supervisor, shutdown};
use crate::{build, logging, notify, reload};

/// The loops may take this long to end. Unless a GPU is being changed, the program ends within two seconds, with what comes before
/// and after.
const END_WITHIN: Duration = loops::partition::ENDS_WITHIN.saturating_add(Duration::from_millis(1500));

/// Files that must be left to open. The runtime needs about ten of them and panics when it lacks them; the rest is for
/// sockets, a few connections and what is read.
const NEEDED_FILES: usize = 32;

/// Where the node and the daemon's own files are.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// The root of the node's file system.
    pub(crate) host_root: PathBuf,
    /// The state directory.
    pub(crate) state_dir: PathBuf,
    /// The driver's library; absent: looked for.
    pub(crate) library: Option<PathBuf>,
    /// For a simulated node what it simulates, in a sentence; absent on a real one.
    pub(crate) simulated: Option<String>,
}

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DaemonError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It cannot run on what is at the host root.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// Its port cannot be had.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// It cannot open files.
    #[error(
        "cannot start: no more than {spare} further files can be opened and {needed} are needed; raise the limit of open \
         files (`ulimit -n`, LimitNOFILE= of the service)"
    )]
    TooFewFiles {
        /// How many can be.
        spare: usize,
        /// How many are needed.
        needed: usize,
    },
    /// The runtime, the signals or the counters could not be set up.
    #[error("cannot start: setting up {what} failed")]
    SetUp {
        /// What.
        what: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl DaemonError {
    pub(crate) fn set_up<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        what: &'static str,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::SetUp { what, source: source.into() }
    }
}

/// One thread for everything that waits, and a few for what blocks.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, DaemonError> {
    let (spare, needed) = (spare_files(NEEDED_FILES), NEEDED_FILES);
    if spare < needed {
        return Err(DaemonError::TooFewFiles { spare, needed });
    }
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .thread_keep_alive(Duration::from_secs(30))
        .build()
        .map_err(DaemonError::set_up("the runtime"))
}

/// How many further files can be opened, up to `wanted`.
fn spare_files(wanted: usize) -> usize {
    let opened: Vec<OwnedFd> =
        (0..wanted).map_while(|_| io::stderr().as_fd().try_clone_to_owned().ok()).collect();
    opened.len()
}

/// How to ask the driver under `settings`.
pub(crate) fn driver_options(places: &Places, settings: &Settings) -> Options {
    Options {
        library: places.library.clone(),
        host_root: places.host_root.clone(),
        ..Options::with_deadline(settings.sampling.deadline)
    }
}

/// Runs until a signal, or `until`, says that it is time to end. `announce` hears where it listens.
pub(crate) async fn run(
    places: Places,
    source: Source,
    announce: impl FnOnce(SocketAddr),
    until: impl Future<Output = ()>,
) -> Result<(), DaemonError> {
    let settings = source.read()?;
    let level = logging::start(&settings.log);
    let root = node::machine(&places.host_root, "run")?;
    let mut signals = Signals::new().map_err(DaemonError::set_up("the signals"))?;
    let listener = Listener::bind(settings.web.address)?;
    let address = listener.address();
    let (trigger, shutdown) = shutdown::channel();
    let settings = watch::Sender::new(Arc::new(settings));
    let own = Own::new(build::info(), &loops::NAMES).map_err(DaemonError::set_up("the counters"))?;
    let shared = shared(&places, root, &settings, own, shutdown.clone());
    let readiness = shared.readiness.clone();
    let own = Arc::clone(&shared.own);
    log_start(&source, &settings.borrow(), &places);
    tracing::info!(%address, "listening");
    let held: loops::serve::Held = Arc::new(watch::Sender::new(Arc::new(listener)));
    let supervisor = start_loops(shared, Arc::clone(&held), shutdown);
    let mut reload = Reload { source, settings, level, own, held, state: reload::State::default() };
    announce(address);

    let mut told_ready = false;
    tokio::pin!(until);
    loop {
        tokio::select! {
            asked = signals.next() => match asked {
                Asked::End(signal) => {
                    tracing::info!(signal, "shutting down");
                    break;
                }
                Asked::Reload => {
                    // Before it was ready the service manager still waits for the start, and must not be told of an end
                    // of it.
                    if told_ready {
                        notify::reloading();
                    }
                    reload.ask();
                }
            },
            done = reload.step() => if done && told_ready {
                notify::ready();
            },
            () = readiness.ready(), if !told_ready => {
                told_ready = true;
                tracing::info!("ready");
                notify::ready();
            }
            () = &mut until => break,
        }
    }
    notify::stopping();
    trigger.pull();
    let dropped = supervisor.ended(END_WITHIN).await;
    if dropped > 0 {
        tracing::warn!(loops = dropped, "loops did not end in time and were dropped");
    }
    tracing::info!("stopped");
    Ok(())
}

/// What the loops share, empty.
pub(crate) fn shared(
    places: &Places,
    root: Root,
    settings: &watch::Sender<Arc<Settings>>,
    own: Own,
    shutdown: shutdown::Shutdown,
) -> Shared {
    Shared {
        driver: Driver::new(driver_options(places, &settings.borrow())),
        root,
        state_dir: places.state_dir.clone(),
        simulated: places.simulated.clone(),
        settings: settings.subscribe(),
        gpus: Arc::default(),
        topology: Arc::default(),
        huge_pages: Arc::default(),
        kubernetes: loops::kubernetes::Kubernetes::default(),
        snapshot: Arc::default(),
        plan: Arc::default(),
        own: Arc::new(own),
        progress: Progress::default(),
        readiness: Readiness::new(),
        wake: Arc::new(Notify::new()),
        shutdown,
    }
}

fn start_loops(shared: Shared, held: loops::serve::Held, shutdown: shutdown::Shutdown) -> Supervisor {
    let mut supervisor = Supervisor::new(Arc::clone(&shared.own), shutdown);
    let with = shared.clone();
    supervisor.keep(loops::topology::NAME, move || loops::topology::run(with.clone()));
    let with = shared.clone();
    supervisor.keep(loops::sample::NAME, move || loops::sample::run(with.clone()));
    let with = shared.clone();
    supervisor.keep(loops::serve::NAME, move || loops::serve::run(with.clone(), Arc::clone(&held)));
    let with = shared.clone();
    supervisor.keep(loops::kubelet::NAME, move || loops::kubelet::run(with.clone()));
    let with = shared.clone();
    supervisor.keep(loops::cluster::NAME, move || loops::cluster::run(with.clone()));
    let with = shared.clone();
    supervisor.keep(loops::publish::NAME, move || loops::publish::run(with.clone()));
    let with = shared.clone();
    supervisor.keep(loops::conditions::NAME, move || loops::conditions::run(with.clone()));
    let with = shared.clone();
    supervisor.keep(loops::partition::NAME, move || loops::partition::run(with.clone()));
    supervisor.keep(loops::control::NAME, move || loops::control::run(shared.clone()));
    supervisor
}

fn log_start(source: &Source, settings: &Settings, places: &Places) {
    let node = settings.node_name.clone().or_else(NodeName::of_this_machine);
    tracing::info!(
        version = build::version(),
        node = node.map(|name| name.to_string()),
        config = source.description(),
        host_root = %places.host_root.display(),
        state_dir = %places.state_dir.display(),
        "gpulet starts"
    );
}

/// What signals ask for.
enum Asked {
    /// End; the signal's name.
    End(&'static str),
    /// Read the configuration again.
    Reload,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.terminate.recv() => Asked::End("SIGTERM"),
            _ = self.interrupt.recv() => Asked::End("SIGINT"),
            _ = self.hangup.recv() => Asked::Reload,
        }
    }
}
