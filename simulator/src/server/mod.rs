//! A running node: the engine, its socket, its clock, and the directory in which clients find it all.
//!
//! ```text
//! socket ─▶ one thread a connection ─┐
//! clock  ─▶ one thread ──────────────┼─▶ Shared::change: engine, then host tree and library, then shared state
//! SimulatedNode (same process) ──────┘
//! ```

mod connections;
mod error;
mod shown;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{SigSet, Signal};

use self::error::in_full;
pub use self::error::{CommandError, ServeError};
use self::shown::Shown;
use crate::command::{Applied, Command};
use crate::driver_call::{Called, DriverCall};
use crate::engine::{DriverUser, Engine};
use crate::host_tree;
use crate::library;
use crate::node::Node;
use crate::programs;
use crate::protocol::{Reply, Request, SOCKET_NAME};
use crate::share::{self, Publisher};
use crate::simulated_node::SimulatedNode;
use crate::state::NodeState;

/// How often the clock moves, and at least how often the server shows that it runs.
const TICK: Duration = Duration::from_millis(100);
/// Holds the directory for one server; the kernel lets go of it when the server dies, however that happens.
const LOCK_NAME: &str = "lock";
/// All nodes are born with the same seed, so that what was seen once can be seen again.
const SEED: u64 = 1;
/// When a stepped clock starts: 2026-01-01T00:00:00Z, so that tests see the same times in every run.
const STEPPED_START_US: u64 = 1_767_225_600_000_000;

/// Who moves the simulator's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockMode {
    /// Whoever uses the node, step by step. Letting the clock run by command has no effect then.
    Stepped,
    /// The server, ten times a second, with real time (or a multiple of it, by command).
    Real,
}

/// A node that is being served. Ends when dropped.
pub(crate) struct Server {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    _lock: Flock<File>,
}

/// What the threads share.
struct Shared {
    dir: PathBuf,
    /// The listening socket once more, under the type that can shut it down.
    listening: UnixStream,
    core: Mutex<Core>,
    /// Processes that have the driver open, and which GPUs, by connection.
    users: Mutex<BTreeMap<u64, DriverUser>>,
    /// Open connections by number, to be cut at the end.
    connections: Mutex<BTreeMap<u64, UnixStream>>,
    stopping: AtomicBool,
    /// Wakes the clock's thread when it is time to stop.
    stopped: (Mutex<bool>, Condvar),
}

/// The hardware, and how it is shown.
struct Core {
    engine: Engine,
    /// Gone once the server stops: for every client the driver is then gone, too.
    publisher: Option<Publisher>,
    shown: Shown,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// Serves a node in a directory.
    ///
    /// # Errors
    /// When there is no such node, somebody serves there already, or the directory cannot be used.
    pub(crate) fn start(name: &str, dir: &Path, clock: ClockMode) -> Result<Self, ServeError> {
        let node = Node::load(name)?;
        let unusable = |source| ServeError::Directory { dir: dir.to_owned(), source };
        fs::create_dir_all(dir.join("gpulet")).map_err(unusable)?;
        let dir = &dir.canonicalize().map_err(unusable)?;
        let lock = take(dir)?;

        let start_us = match clock {
            ClockMode::Stepped => STEPPED_START_US,
            ClockMode::Real => {
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_micros() as u64)
            }
        };
        let engine = Engine::new(&node, SEED, start_us).map_err(ServeError::Loads)?;
        let state = engine.state();
        host_tree::write(&node, state, &dir.join("host"))?;
        programs::install(dir, node.description().driver.is_some()).map_err(unusable)?;
        if node.description().driver.is_some() {
            library::install(dir, &state.driver.missing_symbols)?;
        } else {
            library::remove(dir).map_err(unusable)?;
        }
        // A socket that is there is of a server that was killed: the lock says that nobody serves.
        let socket = dir.join(SOCKET_NAME);
        match fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unusable(error)),
            _ => {}
        }
        let listener = UnixListener::bind(&socket).map_err(unusable)?;
        let listening = UnixStream::from(OwnedFd::from(listener.try_clone().map_err(unusable)?));
        let mut publisher = Publisher::create(&dir.join(share::FILE_NAME))?;
        publisher.publish(state)?;

        let shown = Shown::of(state);
        let shared = Arc::new(Shared {
            dir: dir.clone(),
            listening,
            core: Mutex::new(Core { engine, publisher: Some(publisher), shown }),
            users: Mutex::default(),
            connections: Mutex::default(),
            stopping: AtomicBool::new(false),
            stopped: (Mutex::new(false), Condvar::new()),
        });
        let mut server = Self { shared: Arc::clone(&shared), threads: Vec::new(), _lock: lock };
        let acceptor = Arc::clone(&shared);
        server.spawn("sim-accept", move || connections::accept(&acceptor, &listener)).map_err(unusable)?;
        server.spawn("sim-clock", move || shared.keep_time(clock)).map_err(unusable)?;
        Ok(server)
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(thread::Builder::new().name(name.to_owned()).spawn(work)?);
        Ok(())
    }

    /// The simulation directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.shared.dir
    }

    /// Lets something happen to the node.
    pub(crate) fn command(&self, command: Command) -> Result<Applied, CommandError> {
        self.shared.command(command)
    }

    /// Moves the clock.
    pub(crate) fn step(&self, by: Duration) -> Result<(), ServeError> {
        self.shared.change(|engine| engine.advance(by))
    }

    /// The node, as described.
    pub(crate) fn node(&self) -> Node {
        locked(&self.shared.core).engine.node().clone()
    }

    /// The hardware's truth.
    pub(crate) fn state(&self) -> NodeState {
        locked(&self.shared.core).engine.state().clone()
    }

    /// Processes that have the driver open.
    pub(crate) fn driver_users(&self) -> Vec<u32> {
        self.shared.driver_users()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let shared = &self.shared;
        shared.stopping.store(true, Ordering::Release);
        *locked(&shared.stopped.0) = true;
        shared.stopped.1.notify_all();
        locked(&shared.core).publisher = None;
        // Wakes the acceptor, also when the socket's file is gone; then the connections, whose threads end by themselves.
        let _woken = shared.listening.shutdown(Shutdown::Both);
        for connection in locked(&shared.connections).values() {
            let _cut = connection.shutdown(Shutdown::Both);
        }
        let _removed = fs::remove_file(shared.dir.join(SOCKET_NAME));
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so itself.
            let _ended = thread.join();
        }
    }
}

/// Serves a node with real time until SIGTERM or SIGINT, then ends it in order: its socket goes, and for its clients the
/// driver is gone. `ready` is called once clients can use it.
///
/// # Errors
/// When the node cannot be served.
pub fn serve(node: &str, dir: &Path, ready: impl FnOnce(&SimulatedNode)) -> Result<(), ServeError> {
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT]);
    let failed = |error: nix::errno::Errno| ServeError::Signals(error.into());
    // Before any thread is started: they inherit it, and no signal ends the process in the midst of something.
    signals.thread_block().map_err(failed)?;
    let node = SimulatedNode::start(node, dir, ClockMode::Real)?;
    ready(&node);
    signals.wait().map_err(failed)?;
    Ok(())
}

/// Takes the directory for this server.
fn take(dir: &Path) -> Result<Flock<File>, ServeError> {
    let path = dir.join(LOCK_NAME);
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
    let file = file.map_err(|source| ServeError::Directory { dir: dir.to_owned(), source })?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| match error {
        nix::errno::Errno::EWOULDBLOCK => ServeError::Taken { dir: dir.to_owned() },
        error => ServeError::Directory { dir: dir.to_owned(), source: error.into() },
    })
}

impl Core {
    /// Shows clients what the hardware is now: files first, so that a client which sees a driver finds its device files.
    /// What could not be shown is tried again the next time.
    fn show(&mut self, dir: &Path) -> Result<(), ServeError> {
        let state = self.engine.state();
        let shown = Shown::of(state);
        if shown.missing_symbols != self.shown.missing_symbols {
            library::install(dir, &shown.missing_symbols)?;
        }
        if shown.boots != self.shown.boots {
            host_tree::reboot(&dir.join("host"))?;
        }
        if shown != self.shown {
            host_tree::refresh(self.engine.node(), state, &dir.join("host"))?;
            self.shown = shown;
        }
        if let Some(publisher) = &mut self.publisher {
            publisher.publish(state)?;
        }
        Ok(())
    }
}

impl Shared {
    /// Changes the hardware and shows clients what came of it.
    fn change<T>(&self, change: impl FnOnce(&mut Engine) -> T) -> Result<T, ServeError> {
        let mut core = locked(&self.core);
        let result = change(&mut core.engine);
        core.show(&self.dir).map(|()| result)
    }

    fn command(&self, command: Command) -> Result<Applied, CommandError> {
        let unloads = matches!(command, Command::UnloadDriver { .. } | Command::Reboot);
        let users = self.users();
        let applied = self.change(|engine| {
            engine.set_clients(users);
            engine.apply(command)
        })??;
        if unloads {
            // Whoever had it open was forced out.
            locked(&self.users).clear();
        }
        Ok(applied)
    }

    fn users(&self) -> Vec<DriverUser> {
        locked(&self.users).values().cloned().collect()
    }

    /// What a client asks of the driver.
    fn call(&self, pid: u32, load: u64, call: DriverCall) -> Result<Result<Called, u32>, ServeError> {
        let users = self.users();
        self.change(|engine| {
            engine.set_clients(users);
            engine.call(call, pid, load)
        })
    }

    fn driver_users(&self) -> Vec<u32> {
        let mut pids: Vec<u32> = self.users().iter().map(|user| user.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// The clock's thread.
    fn keep_time(&self, clock: ClockMode) {
        let mut before = Instant::now();
        let mut told = None;
        let (stopped, bell) = &self.stopped;
        let mut stop = locked(stopped);
        while !*stop {
            stop = bell.wait_timeout(stop, TICK).unwrap_or_else(PoisonError::into_inner).0;
            let now = Instant::now();
            let real = now - before;
            before = now;
            let pace = locked(&self.core).engine.pace();
            let runs = clock == ClockMode::Real && pace > 0.0 && !*stop;
            let moved = if runs { self.change(|engine| engine.advance(real.mul_f64(pace))) } else { Ok(()) };
            // Once for each trouble, not ten times a second.
            let trouble = moved.err().map(|error| in_full(&error));
            if let Some(error) = trouble.as_ref().filter(|error| told.as_ref() != Some(*error)) {
                eprintln!("gpulet-sim: cannot show the node's state: {error}");
            }
            told = trouble;
            // Whatever came of it, the server runs.
            if let Some(publisher) = &locked(&self.core).publisher {
                publisher.beat();
            }
        }
    }

    fn answer(&self, connection: u64, request: Request) -> Reply {
        match request {
            Request::OpenDriver { pid } => {
                locked(&self.users).insert(connection, DriverUser { pid, gpus: BTreeSet::new() });
                Reply::Done
            }
            Request::OpenGpu { gpu } => {
                if let Some(user) = locked(&self.users).get_mut(&connection) {
                    user.gpus.insert(gpu);
                }
                Reply::Done
            }
            Request::Changing { gpu } => match self.change(|engine| engine.count_change(gpu)) {
                Ok(()) => Reply::Done,
                Err(error) => Reply::Failed(in_full(&error)),
            },
            Request::Call { pid, load, call } => match self.call(pid, load, call) {
                Ok(Ok(called)) => Reply::Called(called),
                Ok(Err(code)) => Reply::Code(code),
                Err(error) => Reply::Failed(in_full(&error)),
            },
            Request::Strike { fault } => match self.change(|engine| engine.strike(fault)) {
                Ok(struck) => Reply::Struck(struck),
                Err(error) => Reply::Failed(in_full(&error)),
            },
            Request::CloseDriver => {
                locked(&self.users).remove(&connection);
                Reply::Done
            }
            Request::Command(command) => match self.command(command) {
                Ok(applied) => Reply::Applied(applied),
                Err(CommandError::Refused(refusal)) => Reply::Refused(refusal),
                Err(error) => Reply::Failed(in_full(&error)),
            },
            Request::State => Reply::State(Box::new(locked(&self.core).engine.state().clone())),
            Request::DriverUsers => Reply::DriverUsers(self.driver_users()),
        }
    }
}
