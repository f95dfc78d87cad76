//! When to ask the kubelet again: its files and its socket are watched (inotify), nothing is polled.
//!
//! The kubelet keeps what it has given away in files below its root and replaces them when it gives something; its socket
//! is made anew when it starts. What is not there yet is waited for, what is replaced is found again, and when the kernel
//! could not keep up with telling, everything counts as changed.

mod places;
#[cfg(test)]
mod tests;
mod watched;

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::PathBuf;

use nix::errno::Errno;
use nix::sys::inotify::{InitFlags, Inotify, InotifyEvent};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use places::Place;
use watched::Watched;

/// The most that is read at once, in reads of some 100 events, before it is told.
const READS: usize = 64;

/// What may have changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Change {
    /// Who has what, or what there is to give away.
    pub allocation: bool,
    /// The kubelet's socket came or went: the kubelet starts or ends.
    pub socket_replaced: bool,
    /// The kubelet's configuration. The kubelet reads it when it starts.
    pub settings: bool,
}

impl Change {
    /// Everything may have changed.
    pub const ALL: Self = Self { allocation: true, socket_replaced: true, settings: true };

    /// Whether something may have changed.
    pub fn is_any(self) -> bool {
        self.allocation || self.socket_replaced || self.settings
    }

    fn add(&mut self, other: Self) {
        self.allocation |= other.allocation;
        self.socket_replaced |= other.socket_replaced;
        self.settings |= other.settings;
    }
}

/// Why the kernel does not tell of changes; whoever wants to know has to look from time to time.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// There are too many watches on this machine already.
    #[error(
        "cannot watch {} for changes: there are too many watches; raise fs.inotify.max_user_instances and \
         fs.inotify.max_user_watches", path.display()
    )]
    TooMany {
        /// What was to be watched.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
    /// Something may not be watched.
    #[error("cannot watch {} for changes; it takes root to read there", path.display())]
    NotWatched {
        /// What was to be watched.
        path: PathBuf,
        /// Why.
        #[source]
        source: Errno,
    },
    /// The kernel could not be asked.
    #[error("cannot read what the kernel tells of changes")]
    NotRead(#[source] io::Error),
}

impl WatchError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooMany { .. } => "TooManyWatches",
            Self::NotWatched { .. } => "NotWatched",
            Self::NotRead(_) => "NotRead",
        }
    }

    fn watching(path: impl Into<PathBuf>, source: Errno) -> Self {
        let path = path.into();
        match source {
            Errno::EMFILE | Errno::ENFILE | Errno::ENOSPC | Errno::ENOMEM => Self::TooMany { path, source },
            _ => Self::NotWatched { path, source },
        }
    }
}

/// Watches the kubelet's files.
#[derive(Debug)]
pub struct Watch {
    events: AsyncFd<Events>,
    kubelet_root: PathBuf,
    watched: Watched,
    pending: Change,
}

impl Watch {
    /// Watches below the kubelet's root from now on, and the files and directories that its settings come from. None of
    /// them need be there.
    ///
    /// # Errors
    /// If the kernel lets nothing be watched, or not there. Must be called within a runtime of tokio.
    pub fn new(
        kubelet_root: impl Into<PathBuf>,
        settings: impl IntoIterator<Item = PathBuf>,
    ) -> Result<Self, WatchError> {
        let kubelet_root = kubelet_root.into();
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)
            .map_err(|errno| WatchError::watching(&kubelet_root, errno))?;
        let events = Events::wait_on(inotify).map_err(WatchError::NotRead)?;
        let mut watch =
            Self { events, kubelet_root, watched: Watched::default(), pending: Change::default() };
        watch.follow(settings)?;
        // Whoever starts to watch reads everything first.
        watch.pending = Change::default();
        Ok(watch)
    }

    /// Watches these files and directories for changes of the settings, in place of those before.
    ///
    /// # Errors
    /// As [`Watch::new`].
    pub fn follow(&mut self, settings: impl IntoIterator<Item = PathBuf>) -> Result<(), WatchError> {
        let places = Place::of_kubelet(&self.kubelet_root, settings);
        let change = self.watched.watch(&self.events.get_ref().0, places)?;
        self.pending.add(change);
        Ok(())
    }

    /// Waits until something may have changed. What changes at once is told at once; what changed since the last time is
    /// told right away. May be given up at any time without losing a change.
    ///
    /// # Errors
    /// If the kernel tells no more. The next call may succeed.
    pub async fn changed(&mut self) -> Result<Change, WatchError> {
        while !self.pending.is_any() {
            let events = self.next_events().await?;
            let change = self.watched.take(&self.events.get_ref().0, &events)?;
            self.pending.add(change);
        }
        Ok(std::mem::take(&mut self.pending))
    }

    async fn next_events(&self) -> Result<Vec<InotifyEvent>, WatchError> {
        let mut ready = self.events.readable().await.map_err(WatchError::NotRead)?;
        let mut events = Vec::new();
        for _ in 0..READS {
            match ready.get_inner().0.read_events() {
                Ok(read) => events.extend(read),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => {
                    ready.clear_ready();
                    break;
                }
                Err(errno) => return Err(WatchError::NotRead(errno.into())),
            }
        }
        Ok(events)
    }
}

/// What tokio can wait for.
#[derive(Debug)]
struct Events(Inotify);

impl Events {
    #[allow(
        deprecated,
        reason = "what replaces it is unsafe, for types whose descriptor may change; this one's does not"
    )]
    fn wait_on(inotify: Inotify) -> io::Result<AsyncFd<Self>> {
        AsyncFd::with_interest(Self(inotify), Interest::READABLE)
    }
}

impl AsRawFd for Events {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}
