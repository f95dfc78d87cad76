//! The daemon's end of the socket.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};

use tokio::net::{UnixListener, UnixStream};

/// Where the socket of the daemon with `state_dir` is.
pub(crate) fn path(state_dir: &Path) -> PathBuf {
    state_dir.join("control.sock")
}

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    /// The state directory is missing and cannot be made.
    #[error("cannot make the state directory {}; name another with --state-dir or GPULET_STATE_DIR", path.display())]
    NoStateDirectory {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Another daemon answers there.
    #[error("another gpulet answers at {}; give each its own --state-dir", path.display())]
    InUse {
        /// Where.
        path: PathBuf,
    },
    /// Something else.
    #[error("cannot make the control socket {}", path.display())]
    Failed {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl SocketError {
    /// The stable word for this error.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::NoStateDirectory { .. } => "NoStateDirectory",
            Self::InUse { .. } => "AddressInUse",
            Self::Failed { .. } => "SocketFailed",
        }
    }
}

/// The socket while it is listened on; its file is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl ControlSocket {
    /// Makes the socket, in the place of one that a daemon left behind that is no more.
    pub(crate) fn bind(state_dir: &Path) -> Result<Self, SocketError> {
        fs::create_dir_all(state_dir)
            .map_err(|source| SocketError::NoStateDirectory { path: state_dir.to_owned(), source })?;
        let path = path(state_dir);
        let failed = |source| SocketError::Failed { path: path.clone(), source };
        if BlockingStream::connect(&path).is_ok() {
            return Err(SocketError::InUse { path });
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let listener = UnixListener::bind(&path).map_err(failed)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(failed)?;
        Ok(Self { listener, path })
    }

    /// The next connection of someone who may ask: root, or the user that the daemon runs as. Others are turned away.
    pub(crate) async fn accept(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            let peer = stream.peer_cred()?;
            if may_ask(peer.uid(), nix::unistd::geteuid().as_raw()) {
                return Ok(stream);
            }
            tracing::warn!(uid = peer.uid(), pid = peer.pid(), "turned away a user at the control socket");
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn may_ask(peer: u32, own: u32) -> bool {
    peer == 0 || peer == own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_the_same_user_may_ask() {
        assert!(may_ask(0, 1000) && may_ask(1000, 1000) && may_ask(0, 0));
        assert!(!may_ask(1000, 0) && !may_ask(1001, 1000));
    }

    #[tokio::test]
    async fn a_socket_left_behind_is_replaced_and_one_in_use_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let state_dir = directory.path().join("state");
        let first = ControlSocket::bind(&state_dir).unwrap();
        let path = path(&state_dir);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(ControlSocket::bind(&state_dir).unwrap_err().reason(), "AddressInUse");
        drop(first);
        assert!(!path.exists());
        // As after a kill: the file is there, and no one listens.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let again = ControlSocket::bind(&state_dir).unwrap();
        let (_client, accepted) = tokio::join!(UnixStream::connect(&path), again.accept());
        accepted.unwrap();
    }

    #[test]
    fn a_state_directory_that_cannot_be_made_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let error = ControlSocket::bind(&file.join("state")).unwrap_err();
        assert_eq!(error.reason(), "NoStateDirectory");
        assert!(error.to_string().contains("--state-dir"), "{error}");
    }
}
