//! The daemon's end of the socket.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
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
    /// What is there is not a socket, so that it is not the daemon's to remove.
    #[error("{} is not a socket, and gpulet removes nothing that it did not make: move it away, or name another directory with --state-dir", path.display())]
    NotASocket {
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
            Self::NotASocket { .. } => "NotASocket",
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
    pub(crate) async fn bind(state_dir: &Path) -> Result<Self, SocketError> {
        fs::create_dir_all(state_dir)
            .map_err(|source| SocketError::NoStateDirectory { path: state_dir.to_owned(), source })?;
        let path = path(state_dir);
        let failed = |source| SocketError::Failed { path: path.clone(), source };
        match fs::symlink_metadata(&path) {
            Ok(there) if !there.file_type().is_socket() => return Err(SocketError::NotASocket { path }),
            Ok(_) => {
                if is_listened_on(&path).await {
                    return Err(SocketError::InUse { path });
                }
                fs::remove_file(&path).map_err(failed)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
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

/// Whether some process listens there. One that hangs and whose queue is full does, too.
async fn is_listened_on(path: &Path) -> bool {
    // Of tokio, since that of std would wait for a place in the queue.
    match UnixStream::connect(path).await {
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
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
        let first = ControlSocket::bind(&state_dir).await.unwrap();
        let path = path(&state_dir);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(ControlSocket::bind(&state_dir).await.unwrap_err().reason(), "AddressInUse");
        drop(first);
        assert!(!path.exists());
        // As after a kill: the file is there, and no one listens.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let again = ControlSocket::bind(&state_dir).await.unwrap();
        let (_client, accepted) = tokio::join!(UnixStream::connect(&path), again.accept());
        accepted.unwrap();
    }

    #[tokio::test]
    async fn a_listener_that_hangs_is_not_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = path(directory.path());
        let socket = tokio::net::UnixSocket::new_stream().unwrap();
        socket.bind(&path).unwrap();
        let _hung = socket.listen(1).unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = UnixStream::connect(&path).await {
            waiting.push(stream);
        }
        assert_eq!(ControlSocket::bind(directory.path()).await.unwrap_err().reason(), "AddressInUse");
        assert!(path.exists(), "it was not this daemon's to remove");
    }

    #[tokio::test]
    async fn what_is_no_socket_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = path(directory.path());
        fs::write(&path, "someone's").unwrap();
        let error = ControlSocket::bind(directory.path()).await.unwrap_err();
        assert_eq!(error.reason(), "NotASocket");
        assert!(error.to_string().contains("--state-dir"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "someone's");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/nonexistent", &path).unwrap();
        assert_eq!(ControlSocket::bind(directory.path()).await.unwrap_err().reason(), "NotASocket");
    }

    #[tokio::test]
    async fn a_state_directory_that_cannot_be_made_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let error = ControlSocket::bind(&file.join("state")).await.unwrap_err();
        assert_eq!(error.reason(), "NoStateDirectory");
        assert!(error.to_string().contains("--state-dir"), "{error}");
    }
}
