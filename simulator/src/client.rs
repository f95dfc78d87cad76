//! The other end of a node's socket: for programs that act on the node, and for the library that uses its driver.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::command::{Applied, Command, Refusal};
use crate::driver_call::{Called, DriverCall};
use crate::protocol::{Connection, Reply, Request, SOCKET_NAME};
use crate::state::{Effect, Fault, NodeState};

/// How long a server may take over a reply.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often it is looked whether a fault was cleared.
const ROUND: Duration = Duration::from_millis(20);

/// Why nothing came of a request.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answers there.
    #[error("no simulated node is served in {}: start one with `gpulet-sim serve`", dir.display())]
    Connect {
        /// The simulation directory.
        dir: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The connection broke.
    #[error("the simulated node in {} did not answer", dir.display())]
    Exchange {
        /// The simulation directory.
        dir: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The node refuses.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The server could not do its part.
    #[error("the simulated node failed: {0}")]
    Failed(String),
    /// The server answers another question: it is of another version.
    #[error("the server in {} does not speak this program's language: it is of another version", dir.display())]
    Confused {
        /// The simulation directory.
        dir: PathBuf,
    },
}

impl ClientError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Connect { .. } => "NotServed",
            Self::Exchange { .. } => "ConnectionBroken",
            Self::Refused(refusal) => refusal.reason(),
            Self::Failed(_) => "ServerFailed",
            Self::Confused { .. } => "ServerOfAnotherVersion",
        }
    }
}

/// A connection to a running node.
pub struct Client {
    dir: PathBuf,
    connection: Connection,
}

impl Client {
    /// Connects to the node that is served in `dir`.
    ///
    /// # Errors
    /// When nobody serves there.
    pub fn connect(dir: &Path) -> Result<Self, ClientError> {
        let connect = || -> io::Result<UnixStream> {
            let stream = UnixStream::connect(dir.join(SOCKET_NAME))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(stream)
        };
        let stream = connect().map_err(|source| ClientError::Connect { dir: dir.to_owned(), source })?;
        Ok(Self { dir: dir.to_owned(), connection: Connection::new(stream) })
    }

    /// Lets something happen to the node.
    ///
    /// # Errors
    /// When the node refuses, or does not answer.
    pub fn command(&mut self, command: Command) -> Result<Applied, ClientError> {
        match self.ask(&Request::Command(command))? {
            Reply::Applied(applied) => Ok(applied),
            _ => Err(self.confused()),
        }
    }

    /// The hardware's truth.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn state(&mut self) -> Result<NodeState, ClientError> {
        match self.ask(&Request::State)? {
            Reply::State(state) => Ok(*state),
            _ => Err(self.confused()),
        }
    }

    /// Processes that have the driver open.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn driver_users(&mut self) -> Result<Vec<u32>, ClientError> {
        match self.ask(&Request::DriverUsers)? {
            Reply::DriverUsers(pids) => Ok(pids),
            _ => Err(self.confused()),
        }
    }

    /// Says that a GPU is about to be changed, or that it is tried: that is counted.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn announce_change(&mut self, gpu: u32) -> Result<(), ClientError> {
        self.ask(&Request::Changing { gpu }).map(drop)
    }

    /// Has the driver change a GPU, as a client that found it in its `load`-th load; the inner error is its `nvmlReturn_t`.
    ///
    /// # Errors
    /// When the node does not answer.
    pub fn call(&mut self, load: u64, call: DriverCall) -> Result<Result<Called, u32>, ClientError> {
        match self.ask(&Request::Call { pid: std::process::id(), load, call })? {
            Reply::Called(called) => Ok(Ok(called)),
            Reply::Code(code) => Ok(Err(code)),
            _ => Err(self.confused()),
        }
    }

    /// Lets faults act on what a program of the node is about to do, or has done, without the driver's library.
    ///
    /// # Errors
    /// When the node does not answer. The inner one is the fault's code.
    pub fn obey(&mut self, what: &str, gpu: u32, after: bool) -> Result<Result<(), u32>, ClientError> {
        let mut done = Vec::new();
        loop {
            let faults = self.state()?.faults;
            let acts = |fault: &&Fault| {
                !done.contains(&fault.id) && fault.concerns(what, Some(gpu)) && fault.strikes_after() == after
            };
            let Some(fault) = faults.iter().find(acts) else { return Ok(Ok(())) };
            done.push(fault.id);
            let effect = match fault.strike {
                None => Some(fault.effect),
                Some(strike) if strike.is_spent() => None,
                Some(_) => self.strike(fault.id)?,
            };
            match effect {
                None => {}
                Some(Effect::Return(code)) => return Ok(Err(code)),
                Some(Effect::Delay(ms)) => thread::sleep(Duration::from_millis(ms.into())),
                Some(Effect::Block) => {
                    while self.state()?.faults.iter().any(|there| there.id == fault.id) {
                        thread::sleep(ROUND);
                    }
                }
            }
        }
    }

    /// What a counting fault does to a call.
    pub(crate) fn strike(&mut self, fault: u64) -> Result<Option<Effect>, ClientError> {
        match self.ask(&Request::Strike { fault })? {
            Reply::Struck(effect) => Ok(effect),
            _ => Err(self.confused()),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, ClientError> {
        let reply = self.connection.send(request).and_then(|()| self.connection.receive_reply());
        match reply.map_err(|source| ClientError::Exchange { dir: self.dir.clone(), source })? {
            Reply::Refused(refusal) => Err(refusal.into()),
            Reply::Failed(why) => Err(ClientError::Failed(why)),
            reply => Ok(reply),
        }
    }

    fn confused(&self) -> ClientError {
        ClientError::Confused { dir: self.dir.clone() }
    }
}

/// This process has the driver open, as the node sees it. However the process ends, the node notices.
pub(crate) struct DriverUse {
    client: Client,
}

impl DriverUse {
    pub(crate) fn begin(dir: &Path) -> Result<Self, ClientError> {
        let mut client = Client::connect(dir)?;
        client.ask(&Request::OpenDriver { pid: std::process::id() })?;
        Ok(Self { client })
    }

    /// A GPU's device file was opened.
    pub(crate) fn open_gpu(&mut self, gpu: u32) -> Result<(), ClientError> {
        self.client.ask(&Request::OpenGpu { gpu }).map(drop)
    }

    /// Returns when the node knows; a node that is gone need not know.
    pub(crate) fn end(mut self) {
        let _gone = self.client.ask(&Request::CloseDriver);
    }
}
