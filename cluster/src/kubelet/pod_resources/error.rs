//! Why the kubelet's PodResources service gave no answer.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tonic::{Code, Status};

use super::Limits;
use super::bounds::Excess;

/// Why the kubelet's PodResources service gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum PodResourcesError {
    /// There is no socket: the kubelet has not started yet, or has another root.
    #[error(
        "there is no kubelet's socket {}; does the kubelet run, and is its root directory the one configured?",
        socket.display()
    )]
    SocketAbsent {
        /// The socket.
        socket: PathBuf,
    },
    /// Nobody listens: the kubelet has ended, or is starting.
    #[error("nobody listens on the kubelet's socket {}; does the kubelet run?", socket.display())]
    Refused {
        /// The socket.
        socket: PathBuf,
    },
    /// The socket may not be opened, or is something else.
    #[error("cannot connect to the kubelet's socket {}; it takes root to do so", socket.display())]
    NotConnected {
        /// The socket.
        socket: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It did not answer in time.
    #[error(
        "the kubelet did not answer on {} within {} s; see the kubelet's log",
        socket.display(), deadline.as_secs_f32()
    )]
    TimedOut {
        /// The socket.
        socket: PathBuf,
        /// How long it was waited for.
        deadline: Duration,
    },
    /// The connection ended under way: the kubelet ended or started again.
    #[error("the kubelet hung up on {} during {call}; it ends or starts again", socket.display())]
    HungUp {
        /// The socket.
        socket: PathBuf,
        /// What was asked.
        call: &'static str,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The answer is larger than any node's.
    #[error(
        "the kubelet's answer to {call} is larger than {limit} bytes ({message}); are there more Pods than a node can have?"
    )]
    TooLarge {
        /// What was asked.
        call: &'static str,
        /// The limit, bytes.
        limit: usize,
        /// What was found.
        message: String,
    },
    /// The answer tells of more than any node has.
    #[error(
        "the kubelet's answer to {call} tells of {found} {what} or more, and of more than {limit} nothing is made; see which device plugin \
         registers them"
    )]
    TooMany {
        /// What was asked.
        call: &'static str,
        /// What there is too much of, such as `devices`.
        what: &'static str,
        /// How many were counted.
        found: usize,
        /// The limit.
        limit: usize,
    },
    /// What came back is not what a kubelet says.
    #[error("what answered {call} on {} does not speak as a kubelet does; is it the kubelet's socket?", socket.display())]
    Garbled {
        /// The socket.
        socket: PathBuf,
        /// What was asked.
        call: &'static str,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The kubelet is asked too often, by all of its clients together (100 times a second).
    #[error("the kubelet rejected {call}: it is asked too often; ask again later, and see who else asks it")]
    RateLimited {
        /// What was asked.
        call: &'static str,
    },
    /// The kubelet does not offer this.
    #[error(
        "the kubelet does not offer {call} ({message}); it takes a kubelet of 1.23 or later, and 1.34 or later for Get"
    )]
    Unimplemented {
        /// What was asked.
        call: &'static str,
        /// The kubelet's words.
        message: String,
    },
    /// The kubelet answered with an error of its own.
    #[error("the kubelet answered {call} with an error: {message}; see the kubelet's log")]
    Failed {
        /// What was asked.
        call: &'static str,
        /// The kubelet's words.
        message: String,
        /// All of the answer.
        #[source]
        source: Box<Status>,
    },
}

impl PodResourcesError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::SocketAbsent { .. } => "SocketAbsent",
            Self::Refused { .. } => "Refused",
            Self::NotConnected { .. } => "NotConnected",
            Self::TimedOut { .. } => "TimedOut",
            Self::HungUp { .. } => "HungUp",
            Self::TooLarge { .. } => "TooLarge",
            Self::TooMany { .. } => "TooMany",
            Self::Garbled { .. } => "Garbled",
            Self::RateLimited { .. } => "RateLimited",
            Self::Unimplemented { .. } => "Unimplemented",
            Self::Failed { .. } => "Failed",
        }
    }

    /// An answer to `call` tells of too much.
    pub(super) fn too_many(call: &'static str) -> impl Fn(Excess) -> Self {
        move |Excess { what, found, limit }| Self::TooMany { call, what, found, limit }
    }

    /// The socket could not be connected to.
    pub(super) fn connecting(socket: &Path, source: io::Error) -> Self {
        let socket = socket.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::SocketAbsent { socket },
            io::ErrorKind::ConnectionRefused => Self::Refused { socket },
            _ => Self::NotConnected { socket, source },
        }
    }

    /// The other side is there, and the two do not understand each other.
    pub(super) fn talking(
        socket: &Path,
        call: &'static str,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        let (socket, source) = (socket.to_owned(), source.into());
        if is_hang_up(source.as_ref()) {
            Self::HungUp { socket, call, source }
        } else {
            Self::Garbled { socket, call, source }
        }
    }

    /// The call ended with something else than an answer.
    pub(super) fn answered(socket: &Path, call: &'static str, limits: Limits, status: Status) -> Self {
        let message = status.message().to_owned();
        match status.code() {
            Code::ResourceExhausted if message.contains("rate limit") => Self::RateLimited { call },
            // The first is our side's word, the second the kubelet's.
            Code::OutOfRange | Code::ResourceExhausted if is_too_large(&message) => {
                Self::TooLarge { call, limit: limits.message_bytes, message }
            }
            Code::Unimplemented => Self::Unimplemented { call, message },
            // How a kubelet says that a feature gate is off.
            Code::Unknown if message.ends_with("disabled") => Self::Unimplemented { call, message },
            // With a source, it is not the kubelet who says so.
            _ if status.source().is_some() || is_undecodable(&status) => Self::talking(socket, call, status),
            _ => Self::Failed { call, message, source: Box::new(status) },
        }
    }
}

fn is_too_large(message: &str) -> bool {
    message.contains("too large") || message.contains("larger than max")
}

/// Bytes that are no message, or no gRPC at all.
fn is_undecodable(status: &Status) -> bool {
    const OURS: [&str; 3] = ["failed to decode", "protocol error", "compression"];
    let internal = matches!(status.code(), Code::Internal | Code::Unknown);
    internal && OURS.iter().any(|words| status.message().contains(words))
}

/// Whether somewhere in the chain stands that the connection ended.
fn is_hang_up(error: &(dyn Error + 'static)) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof};
    let mut cause = Some(error);
    while let Some(error) = cause {
        let ended = error.downcast_ref::<io::Error>().is_some_and(|error| {
            matches!(
                error.kind(),
                BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof
            )
        });
        if ended {
            return true;
        }
        cause = error.source();
    }
    false
}
