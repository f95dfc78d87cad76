//! The writing side.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{Ordering, fence};

use super::map::{LAYOUT, MAGIC, Map, SLOT_BYTES, monotonic_ms, reserve};
use crate::state::{DriverState, Fault, GpuState, NodeState};

/// Room on the disk is taken in such steps, so that a state that grows a little takes none.
const ROOM_STEP: usize = 64 << 10;

/// Why a state could not be published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The file could not be made.
    #[error("cannot make the shared state {}", path.display())]
    Create {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The state could not be encoded.
    #[error("cannot encode the state")]
    Encode(#[source] postcard::Error),
    /// The disk is full.
    #[error("cannot take room for the shared state: free some where the simulation directory is")]
    NoRoom(#[source] io::Error),
    /// The state has outgrown its slot.
    #[error("the state takes {bytes} bytes, more than the {SLOT_BYTES} that a client can read")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
}

impl PublishError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Create { .. } => "SharedStateNotCreated",
            Self::Encode(_) => "StateNotEncoded",
            Self::NoRoom(_) => "NoRoomForState",
            Self::TooLarge { .. } => "StateTooLarge",
        }
    }
}

/// The one writer of a simulation directory.
pub struct Publisher {
    map: Map,
    file: File,
    /// Bytes for which both slots have room on the disk.
    room: usize,
    generation: u64,
    /// What the last published state gave those who wait to act on.
    alerts: Option<Alerts>,
}

/// The part of the state that somebody may be asleep over.
#[derive(PartialEq)]
struct Alerts {
    driver: DriverState,
    faults: Vec<Fault>,
    last_event: Option<u64>,
    reachable: Vec<bool>,
}

impl Alerts {
    fn of(state: &NodeState) -> Self {
        Self {
            driver: state.driver.clone(),
            faults: state.faults.clone(),
            last_event: state.events.last().map(|event| event.sequence),
            reachable: state.gpus.iter().map(GpuState::is_reachable).collect(),
        }
    }
}

impl Publisher {
    /// Makes a fresh file at `path`. A file that is there is replaced, not written to: clients of an earlier server keep
    /// what they mapped, and see that their server is gone.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(path: &Path) -> Result<Self, PublishError> {
        let create = || -> io::Result<(Map, File)> {
            let fresh = path.with_extension("new");
            // One that a killed server left may be read-only.
            match fs::remove_file(&fresh) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = File::options().read(true).write(true).create(true).truncate(true).open(&fresh)?;
            let map = Map::create(&file)?;
            reserve(&file, 0)?;
            let header = map.header();
            header.layout.store(LAYOUT, Ordering::Relaxed);
            header.server.store(std::process::id(), Ordering::Relaxed);
            header.heartbeat_ms.store(monotonic_ms(), Ordering::Relaxed);
            header.magic.store(MAGIC, Ordering::Release);
            // Whoever shortened the file would end every process that has it mapped.
            let mut permissions = file.metadata()?.permissions();
            permissions.set_readonly(true);
            file.set_permissions(permissions)?;
            fs::rename(&fresh, path)?;
            Ok((map, file))
        };
        let (map, file) =
            create().map_err(|source| PublishError::Create { path: path.to_owned(), source })?;
        Ok(Self { map, file, room: 0, generation: 0, alerts: None })
    }

    /// Makes `state` what clients see from now on, and wakes those who wait if it concerns them.
    ///
    /// # Errors
    /// When the state cannot be encoded, is too large or finds no room; clients then go on with the previous one.
    pub fn publish(&mut self, state: &NodeState) -> Result<(), PublishError> {
        let bytes = postcard::to_stdvec(state).map_err(PublishError::Encode)?;
        if bytes.len() > SLOT_BYTES {
            return Err(PublishError::TooLarge { bytes: bytes.len() });
        }
        if bytes.len() > self.room {
            let room = bytes.len().next_multiple_of(ROOM_STEP).min(SLOT_BYTES);
            reserve(&self.file, room).map_err(PublishError::NoRoom)?;
            self.room = room;
        }
        let generation = self.generation + 1;
        let (slot, words) = self.map.slot(generation);
        slot.sequence.store(generation * 2 - 1, Ordering::Relaxed);
        fence(Ordering::Release);
        for (word, chunk) in words.iter().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
        }
        slot.bytes.store(bytes.len() as u64, Ordering::Relaxed);
        slot.sequence.store(generation * 2, Ordering::Release);
        self.map.header().generation.store(generation, Ordering::Release);
        self.generation = generation;
        self.beat();

        let alerts = Alerts::of(state);
        if self.alerts.as_ref() != Some(&alerts) {
            self.map.wake_all();
            self.alerts = Some(alerts);
        }
        Ok(())
    }

    /// Shows that the server runs. Wanted a few times a second.
    pub fn beat(&self) {
        self.map.header().heartbeat_ms.store(monotonic_ms(), Ordering::Release);
    }
}

impl Drop for Publisher {
    /// The driver is gone for every client, at once.
    fn drop(&mut self) {
        self.map.header().stopped.store(1, Ordering::Release);
        self.map.wake_all();
    }
}
