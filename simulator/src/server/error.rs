//! Why a node cannot be served, and why a command comes to nothing.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use crate::command::Refusal;
use crate::host_tree::HostTreeError;
use crate::library::LibraryError;
use crate::node::NodeError;
use crate::share::PublishError;

/// Why a node cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// There is no such node, or it makes no sense.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The node's own description asks for what it cannot do.
    #[error("the node's default loads are not possible")]
    Loads(#[source] Refusal),
    /// Somebody serves there already.
    #[error("another simulated node is served in {}: stop it, or name another directory with --dir", dir.display())]
    Taken {
        /// The simulation directory.
        dir: PathBuf,
    },
    /// The directory cannot be used.
    #[error("cannot use {} as a simulation directory", dir.display())]
    Directory {
        /// The simulation directory.
        dir: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The host's files cannot be written.
    #[error(transparent)]
    HostTree(#[from] HostTreeError),
    /// The driver's library cannot be put in place.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The shared state cannot be made.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// Signals cannot be received.
    #[error("cannot wait for signals")]
    Signals(#[source] io::Error),
}

impl ServeError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Node(error) => error.reason(),
            Self::Loads(refusal) => refusal.reason(),
            Self::Taken { .. } => "DirectoryTaken",
            Self::Directory { .. } => "DirectoryUnusable",
            Self::HostTree(error) => error.reason(),
            Self::Library(error) => error.reason(),
            Self::Publish(error) => error.reason(),
            Self::Signals(_) => "SignalsUnavailable",
        }
    }
}

/// Why a command came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The node refuses; nothing has changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It happened to the hardware but could not be shown to clients.
    #[error(transparent)]
    NotShown(#[from] ServeError),
}

impl CommandError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.reason(),
            Self::NotShown(error) => error.reason(),
        }
    }
}

/// An error and what caused it, for those who get it as text.
pub(super) fn in_full(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| (**error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
