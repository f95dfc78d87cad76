//! Journals on disk, below the state directory: one of each GPU whose change has begun, and one of the node.
//!
//! A file is written beside the old one, flushed, put in its place, and the directory is flushed: whoever comes after a
//! crash or a power loss finds the old one or the new one. A journal that cannot be understood is nobody's to overwrite or
//! remove: what it was about is only known to whoever looks at the GPU.

mod files;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use gpulet_inventory::gpu::GpuUuid;
use gpulet_partition::journal::{Entry, Journal};
use nix::errno::Errno;
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};
use serde::Serialize;
use serde::de::DeserializeOwned;

use files::{DIRECTORY, MAX_BYTES, commit, fetch, open_folder, prepare};

/// The directory below the state directory.
const FOLDER: &str = "partition";

/// The node's own journal.
const NODE: &str = "node.json";

/// Where journals are kept. Nothing is made before something is written.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

/// A journal that is on disk.
#[derive(Debug)]
pub struct Found {
    /// Which GPU it is about, as the file's name tells.
    pub gpu: Option<GpuUuid>,
    /// What it says, or why that is not known.
    pub journal: Result<Journal, StoreError>,
}

/// Why a journal was not read, written or removed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The disk, or whoever mounts it, did not let it.
    #[error("cannot {operation} {}; a GPU is changed only while that can be written down: see to the state directory", path.display())]
    Unavailable {
        /// What was tried.
        operation: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// What is there is no journal that this program understands.
    #[error(
        "{} cannot be understood: {problem}. It tells of a change that had begun. Let the gpulet that wrote it finish, or \
         compare the GPU (`nvidia-smi mig -lgi`) with what should be there, and then remove the file",
        path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

impl StoreError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } => "JournalUnavailable",
            Self::Unreadable { .. } => "JournalUnreadable",
        }
    }
}

impl Store {
    /// The one below this state directory.
    pub fn new(state_dir: &Path) -> Self {
        Self { folder: state_dir.join(FOLDER) }
    }

    /// The journals of all GPUs, those included that cannot be understood.
    ///
    /// # Errors
    /// If the directory cannot be listed; one that is missing has none.
    pub fn journals(&self) -> Result<Vec<Found>, StoreError> {
        let names = match self.names() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            names => names.map_err(|source| self.unavailable("list", "", source))?,
        };
        let journals = names.iter().filter(|name| *name != NODE).filter_map(|name| {
            let gpu = name.strip_suffix(".json").filter(|stem| !stem.starts_with('.'))?;
            let Ok(gpu) = gpu.parse::<GpuUuid>() else {
                let problem = "its name is not the UUID of a GPU".to_owned();
                let journal = Err(StoreError::Unreadable { path: self.folder.join(name), problem });
                return Some(Found { gpu: None, journal });
            };
            // Removed since it was listed: there is none.
            let journal = self.journal(&gpu).transpose()?;
            Some(Found { gpu: Some(gpu), journal })
        });
        Ok(journals.collect())
    }

    /// The journal of this GPU; absent where no change of it has begun.
    ///
    /// # Errors
    /// If it cannot be read or understood.
    pub fn journal(&self, gpu: &GpuUuid) -> Result<Option<Journal>, StoreError> {
        let name = file_of(gpu);
        let Some(journal) = self.read::<Journal>(&name)? else { return Ok(None) };
        let Journal::V1(Entry { gpu: told, .. }) = &journal;
        if told != gpu {
            return Err(self.unreadable(&name, format!("it is about {told}, and its name about another GPU")));
        }
        Ok(Some(journal))
    }

    /// Writes the journal of its GPU in place of the one before, if that is one.
    ///
    /// # Errors
    /// If the one before cannot be understood, or this one cannot be written; the one before is then still there, unless
    /// only the flush of the directory failed.
    pub fn write_journal(&self, journal: &Journal) -> Result<(), StoreError> {
        let Journal::V1(Entry { gpu, .. }) = journal;
        self.journal(gpu)?;
        self.write(&file_of(gpu), journal)
    }

    /// Removes the journal of this GPU; none is fine.
    ///
    /// # Errors
    /// If it cannot be understood or removed.
    pub fn remove_journal(&self, gpu: &GpuUuid) -> Result<(), StoreError> {
        match self.journal(gpu)? {
            Some(_) => self.remove(&file_of(gpu)),
            None => Ok(()),
        }
    }

    /// The node's own journal; absent where there is none.
    ///
    /// # Errors
    /// If it cannot be read or understood.
    pub fn node<T: DeserializeOwned>(&self) -> Result<Option<T>, StoreError> {
        self.read(NODE)
    }

    /// Writes the node's own journal in place of the one before, if that is one.
    ///
    /// # Errors
    /// As [`Self::write_journal`].
    pub fn write_node<T: Serialize + DeserializeOwned>(&self, node: &T) -> Result<(), StoreError> {
        self.node::<T>()?;
        self.write(NODE, node)
    }

    /// Removes the node's own journal; none is fine.
    ///
    /// # Errors
    /// If it cannot be understood or removed.
    pub fn remove_node<T: DeserializeOwned>(&self) -> Result<(), StoreError> {
        match self.node::<T>()? {
            Some(_) => self.remove(NODE),
            None => Ok(()),
        }
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut folder = nix::dir::Dir::openat(nix::fcntl::AT_FDCWD, &self.folder, DIRECTORY, Mode::empty())?;
        let mut names = Vec::new();
        for entry in folder.iter() {
            // A name that is no text is none of ours.
            names.extend(entry?.file_name().to_str().map(str::to_owned));
        }
        names.sort_unstable();
        Ok(names)
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        let bytes = match fetch(&self.folder, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes.map_err(|source| self.unavailable("read", name, source))?,
        };
        if bytes.len() as u64 > MAX_BYTES {
            return Err(self.unreadable(name, format!("it is larger than {MAX_BYTES} bytes")));
        }
        serde_json::from_slice(&bytes).map(Some).map_err(|error| self.unreadable(name, error.to_string()))
    }

    fn write(&self, name: &str, value: &impl Serialize) -> Result<(), StoreError> {
        let write = || {
            let mut bytes = serde_json::to_vec_pretty(value)?;
            bytes.push(b'\n');
            let folder = self.made()?;
            prepare(&folder, name, &bytes)?;
            commit(&folder, name)
        };
        write().map_err(|source| self.unavailable("write", name, source))
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        let remove = || {
            let folder = open_folder(&self.folder)?;
            unlinkat(&folder, name, UnlinkatFlags::NoRemoveDir)?;
            folder.sync_all()
        };
        remove().map_err(|source| self.unavailable("remove", name, source))
    }

    /// The directory; it is made where it is missing, for root alone.
    fn made(&self) -> io::Result<File> {
        match open_folder(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            there => return there,
        }
        let above = self.folder.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(above)?;
        match nix::unistd::mkdir(&self.folder, Mode::S_IRWXU) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(error.into()),
        }
        File::open(above)?.sync_all()?;
        open_folder(&self.folder)
    }

    fn unavailable(&self, operation: &'static str, name: &str, source: io::Error) -> StoreError {
        StoreError::Unavailable { operation, path: self.folder.join(name), source }
    }

    fn unreadable(&self, name: &str, problem: String) -> StoreError {
        StoreError::Unreadable { path: self.folder.join(name), problem }
    }
}

fn file_of(gpu: &GpuUuid) -> String {
    format!("{gpu}.json")
}

#[cfg(test)]
mod tests;
