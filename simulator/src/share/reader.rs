//! The reading side: what the library in a client's process does.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use super::map::{LAYOUT, MAGIC, Map, SLOT_BYTES, monotonic_ms};
use crate::state::NodeState;

/// A server that has not shown itself for so long is looked for among the processes.
const DOUBTFUL_AFTER_MS: u64 = 1_000;
/// A server that has not shown itself for so long counts as gone even though its process exists.
const GONE_AFTER_MS: u64 = 10_000;

/// Why the shared state cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The file cannot be mapped.
    #[error("cannot map the shared state {}", path.display())]
    Map {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It is of another build.
    #[error("{} is not a shared state of this build of the simulator (layout {found:08x}, not {LAYOUT:08x}): build the library and the program together", path.display())]
    Layout {
        /// Which file.
        path: PathBuf,
        /// Its layout.
        found: u32,
    },
}

impl AttachError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Map { .. } => "SharedStateNotMapped",
            Self::Layout { .. } => "SharedStateOfAnotherVersion",
        }
    }
}

/// The server has ended, or its process is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server of this simulated node is gone")]
pub struct Gone;

/// A client's view of the shared state.
pub struct Reader {
    map: Map,
    /// The newest state that was decoded, and its generation.
    latest: RwLock<(u64, Arc<NodeState>)>,
}

impl Reader {
    /// Maps the file and reads the first state.
    ///
    /// # Errors
    /// When there is no such file or it is of another version.
    pub fn attach(path: &Path) -> Result<Self, AttachError> {
        let map = File::open(path)
            .and_then(|file| Map::open(&file))
            .map_err(|source| AttachError::Map { path: path.to_owned(), source })?;
        let header = map.header();
        let layout = header.layout.load(Ordering::Relaxed);
        if header.magic.load(Ordering::Acquire) != MAGIC || layout != LAYOUT {
            return Err(AttachError::Layout { path: path.to_owned(), found: layout });
        }
        let first = decode_newest(&map).ok_or_else(|| AttachError::Map {
            path: path.to_owned(),
            source: io::Error::new(io::ErrorKind::InvalidData, "no state has been published in it"),
        })?;
        Ok(Self { map, latest: RwLock::new(first) })
    }

    /// The newest state.
    ///
    /// # Errors
    /// When the server is gone.
    pub fn state(&self) -> Result<Arc<NodeState>, Gone> {
        if !self.served() {
            return Err(Gone);
        }
        let newest = self.map.header().generation.load(Ordering::Acquire);
        {
            let latest = self.latest.read().unwrap_or_else(PoisonError::into_inner);
            if latest.0 == newest {
                return Ok(Arc::clone(&latest.1));
            }
        }
        let decoded = decode_newest(&self.map).ok_or(Gone)?;
        let mut latest = self.latest.write().unwrap_or_else(PoisonError::into_inner);
        if latest.0 < decoded.0 {
            *latest = decoded;
        }
        Ok(Arc::clone(&latest.1))
    }

    /// A number that moves whenever somebody who waits should look again; take it before looking.
    pub fn wake_count(&self) -> u32 {
        self.map.header().wake.load(Ordering::Acquire)
    }

    /// Sleeps until the wake count is no longer `seen`, at most for `limit`. May return early.
    pub fn wait(&self, seen: u32, limit: Duration) {
        self.map.wait(seen, limit);
    }

    /// Whether a server stands behind the state. Costs no system call as long as the server shows itself.
    fn served(&self) -> bool {
        let header = self.map.header();
        if header.stopped.load(Ordering::Acquire) != 0 {
            return false;
        }
        let silent_ms = monotonic_ms().saturating_sub(header.heartbeat_ms.load(Ordering::Acquire));
        match silent_ms {
            ..DOUBTFUL_AFTER_MS => true,
            DOUBTFUL_AFTER_MS..GONE_AFTER_MS => runs(header.server.load(Ordering::Relaxed)),
            _ => false,
        }
    }
}

/// Copies and decodes the newest state. The writer never writes into the newest slot, so a copy fails only when two
/// states were published meanwhile; then there is a newer one to copy.
fn decode_newest(map: &Map) -> Option<(u64, Arc<NodeState>)> {
    let mut copy = Vec::new();
    // A writer that laps a reader for ever does not exist; the bound only keeps a damaged file from holding it up.
    for _ in 0..1_000 {
        let generation = map.header().generation.load(Ordering::Acquire);
        let (slot, words) = map.slot(generation);
        let before = slot.sequence.load(Ordering::Acquire);
        let bytes = usize::try_from(slot.bytes.load(Ordering::Relaxed)).ok()?;
        if generation == 0 || bytes > SLOT_BYTES {
            return None;
        }
        copy.clear();
        for word in words.iter().take(bytes.div_ceil(8)) {
            copy.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        fence(Ordering::Acquire);
        if before == generation * 2 && slot.sequence.load(Ordering::Relaxed) == before {
            copy.truncate(bytes);
            return postcard::from_bytes(&copy).ok().map(|state| (generation, Arc::new(state)));
        }
    }
    None
}

/// Whether a process runs (a dead one that nobody has waited for does not).
fn runs(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| stat.rsplit_once(") ").map(|(_, rest)| !rest.starts_with(['Z', 'X'])))
        .unwrap_or(false)
}
