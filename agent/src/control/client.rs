//! The asking end of the socket.

use std::io;
use std::path::{Path, PathBuf};

use tokio::io::BufReader;
use tokio::net::UnixStream;

use super::protocol::{self, Request, Response};
use super::socket;

/// Why the daemon did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// No daemon listens there.
    #[error(
        "no gpulet runs with the state directory {}; start it with `gpulet run`, or name its directory with --state-dir",
        state_dir.display()
    )]
    NotRunning {
        /// Which.
        state_dir: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It listens and will not be asked by this user.
    #[error("this user may not ask the gpulet at {}: only root and the user that it runs as may", path.display())]
    NotPermitted {
        /// Where.
        path: PathBuf,
    },
    /// The connection broke.
    #[error("asking the gpulet at {} failed", path.display())]
    Broken {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It says no.
    #[error("{message}")]
    Refused {
        /// One stable word.
        reason: String,
        /// Why.
        message: String,
    },
}

/// Asks the daemon with `state_dir`.
pub(crate) async fn ask(state_dir: &Path, request: &Request) -> Result<(), AskError> {
    let path = socket::path(state_dir);
    let stream = match UnixStream::connect(&path).await {
        Ok(stream) => stream,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(AskError::NotPermitted { path });
        }
        Err(source) => return Err(AskError::NotRunning { state_dir: state_dir.to_owned(), source }),
    };
    let answered = tokio::time::timeout(request.patience(), exchange(stream, request)).await;
    let answered =
        answered.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time")));
    match answered.map_err(|source| AskError::Broken { path, source })? {
        Response::Done => Ok(()),
        Response::Refused { reason, message } => Err(AskError::Refused { reason, message }),
    }
}

async fn exchange(mut stream: UnixStream, request: &Request) -> io::Result<Response> {
    protocol::write(&mut stream, request).await?;
    protocol::read(BufReader::new(stream)).await
}
