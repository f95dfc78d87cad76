//! What goes over a node's socket: one JSON object a line, each request answered by one reply.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::command::{Applied, Command, Refusal};
use crate::driver_call::{Called, DriverCall};
use crate::state::{Effect, NodeState};

/// Name of the socket in a simulation directory.
pub(crate) const SOCKET_NAME: &str = "sock";

/// Longest line: far above any command, so that nonsense on the socket cannot fill the server's memory.
const MAX_REQUEST_BYTES: u64 = 1 << 20;

/// A question to the server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Request {
    /// The library was initialised in this process. Lasts until [`Request::CloseDriver`] or the end of the connection.
    OpenDriver {
        /// The process.
        pid: u32,
    },
    /// The library opened a GPU's device file, for as long as it has the driver open.
    OpenGpu {
        /// GPU index.
        gpu: u32,
    },
    /// The library was shut down.
    CloseDriver,
    /// A call is about to be looked at that is to change a GPU.
    Changing {
        /// GPU index.
        gpu: u32,
    },
    /// The library is to change a GPU.
    Call {
        /// Process that asks.
        pid: u32,
        /// Count of driver loads at the time of its `nvmlInit`.
        load: u64,
        /// What it asks for.
        call: DriverCall,
    },
    /// A call that a counting fault concerns: what does it do to it?
    Strike {
        /// Number of the fault.
        fault: u64,
    },
    /// Something happens to the node.
    Command(Command),
    /// What the hardware's truth is.
    State,
    /// Which processes have the driver open.
    DriverUsers,
}

/// Its answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reply {
    /// Noted.
    Done,
    /// What the command came to.
    Applied(Applied),
    /// What the driver has done.
    Called(Called),
    /// The driver refuses, with this `nvmlReturn_t`.
    Code(u32),
    /// What a fault does to the call.
    Struck(Option<Effect>),
    /// The command was refused.
    Refused(Refusal),
    /// The state.
    State(Box<NodeState>),
    /// Process ids.
    DriverUsers(Vec<u32>),
    /// The server could not do its part.
    Failed(String),
}

/// One end of a connection.
pub(crate) struct Connection {
    lines: BufReader<UnixStream>,
}

impl Connection {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self { lines: BufReader::new(stream) }
    }

    /// Sends one line.
    pub(crate) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.lines.get_mut().write_all(&line)
    }

    /// The next request; `None` when the other end has closed.
    pub(crate) fn receive_request(&mut self) -> io::Result<Option<Request>> {
        let mut line = Vec::new();
        io::Read::take(&mut self.lines, MAX_REQUEST_BYTES).read_until(b'\n', &mut line)?;
        if line.is_empty() { Ok(None) } else { Ok(Some(parse(&line)?)) }
    }

    /// The reply to what was sent.
    pub(crate) fn receive_reply(&mut self) -> io::Result<Reply> {
        let mut line = Vec::new();
        self.lines.read_until(b'\n', &mut line)?;
        if line.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { parse(&line) }
    }
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> io::Result<T> {
    serde_json::from_slice(line).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
