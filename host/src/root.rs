//! The root that `/sys`, `/proc`, `/dev` and `/run` are looked up under.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::bundle::{Bundle, BundleError};
use crate::disk;
use crate::recorded::{Entry, Recorded, below};

/// The most that is read of one file, bytes. The kernel's own files here are a few kilobytes at most.
pub(crate) const MAX_FILE_BYTES: usize = 1 << 20;

/// A directory, or a bundle of recorded files, that stands for `/` of the node; and which files below it have been
/// reported as odd.
///
/// Clones share what has been reported, so that a file that stays odd is reported once in the life of a process, and
/// what has been recorded.
#[derive(Debug, Clone)]
pub struct Root {
    path: PathBuf,
    bundle: Option<Arc<Bundle>>,
    reported: Arc<Mutex<BTreeSet<String>>>,
    recording: Option<Arc<Mutex<Recorded>>>,
}

/// Why a path cannot be put under the root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` leads out of the host root {}; `..` is not followed", path.display(), root.display())]
pub struct EscapesRoot {
    root: PathBuf,
    path: PathBuf,
}

impl EscapesRoot {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        "EscapesRoot"
    }
}

impl Root {
    /// The root at `path`, a directory; `/` is the machine itself.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), bundle: None, reported: Arc::default(), recording: None }
    }

    /// The root at `path`: a directory, or a bundle that was packed on another machine.
    ///
    /// # Errors
    /// A file that cannot be opened or is no bundle.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, BundleError> {
        let root = Self::new(path);
        // What is not there is found missing by each reader, as in any root.
        match fs::metadata(&root.path) {
            Ok(metadata) if metadata.is_file() => {
                let bundle = Bundle::open(&root.path)?;
                Ok(Self { path: root.path, ..Self::replay(bundle) })
            }
            _ => Ok(root),
        }
    }

    /// The root that a bundle in memory is.
    pub fn replay(bundle: Bundle) -> Self {
        Self { bundle: Some(Arc::new(bundle)), ..Self::new("bundle") }
    }

    /// The same root, which from now on remembers everything that is read below it.
    #[must_use]
    pub fn recorded(&self) -> Self {
        Self { recording: Some(Arc::default()), ..self.clone() }
    }

    /// The same root, which does not remember what is read below it: for looking through what is nobody's business.
    pub(crate) fn unrecorded(&self) -> Self {
        Self { recording: None, ..self.clone() }
    }

    /// What has been read so far; nothing for a root that does not record.
    pub fn recording(&self) -> Recorded {
        self.recording.as_ref().map(|recording| lock(recording).clone()).unwrap_or_default()
    }

    /// The bundle that this root is; absent for a directory.
    pub fn bundle(&self) -> Option<&Bundle> {
        self.bundle.as_deref()
    }

    /// The directory itself, or the bundle's file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where `path`, as the node would name it (`/sys/class` or `sys/class`), lies.
    ///
    /// # Errors
    /// A path with `..` in it is refused: it could lead out of the root.
    pub fn join(&self, path: impl AsRef<Path>) -> Result<PathBuf, EscapesRoot> {
        let mut joined = self.path.clone();
        for component in path.as_ref().components() {
            match component {
                Component::Normal(name) => joined.push(name),
                Component::RootDir | Component::CurDir => {}
                Component::ParentDir | Component::Prefix(_) => {
                    return Err(EscapesRoot { root: self.path.clone(), path: path.as_ref().to_owned() });
                }
            }
        }
        Ok(joined)
    }

    /// Reads the file at `path`, a real path below the root, from `offset`, at most `limit` bytes.
    pub(crate) fn fetch(&self, path: &str, offset: u64, limit: usize, into: &mut Vec<u8>) -> io::Result<()> {
        self.open_file(path)?.fetch(offset, limit, into)
    }

    /// Opens the file at `path`, a real path below the root.
    pub(crate) fn open_file<'r>(&'r self, path: &'r str) -> io::Result<OpenFile<'r>> {
        let source = match &self.bundle {
            Some(bundle) => Ok(Source::Bundle(bundle)),
            None => disk::open(&self.path.join(path)).map(Source::Disk),
        };
        if let Err(error) = &source {
            self.record_failure(path, error);
        }
        Ok(OpenFile { root: self, path, source: source? })
    }

    fn record_failure(&self, path: &str, error: &io::Error) {
        if !is_missing(error) {
            self.record(|recording| recording.add(path, Entry::Unread));
        }
    }

    /// What the link at `path` points to; `None` if it is something else than a link.
    pub(crate) fn read_link(&self, path: &str) -> io::Result<Option<String>> {
        let target = match &self.bundle {
            Some(bundle) => bundle.host.read_link(path),
            None => disk::read_link(&self.path.join(path)),
        }?;
        self.record(|recording| match &target {
            Some(target) => recording.add(path, Entry::Link(target.clone())),
            None => recording.add(path, Entry::Directory),
        });
        Ok(target)
    }

    /// What is in the directory at `path`, a real path below the root. Of links and files only a root that records
    /// tells which is which.
    pub(crate) fn list(&self, path: &str) -> io::Result<Vec<(String, Entry)>> {
        let entries = match &self.bundle {
            Some(bundle) => bundle.host.list(path),
            None => disk::list(&self.path.join(path), self.recording.is_some()),
        }?;
        self.record(|recording| {
            recording.add(path, Entry::Directory);
            for (name, entry) in &entries {
                recording.add(&below(path, name), entry.clone());
            }
        });
        Ok(entries)
    }

    fn record(&self, add: impl FnOnce(&mut Recorded)) {
        if let Some(recording) = &self.recording {
            add(&mut lock(recording));
        }
    }

    /// Says that `path` is odd, once.
    pub(crate) fn report(&self, path: &str, problem: &str) {
        if lock(&self.reported).insert(path.to_owned()) {
            let file = self.path.join(path);
            tracing::warn!(file = %file.display(), problem, "skipped what could not be understood");
        }
    }

    /// Forgets that `path` was odd.
    pub(crate) fn well(&self, path: &str) {
        lock(&self.reported).remove(path);
    }
}

/// A file below a root.
#[derive(Debug)]
pub(crate) struct OpenFile<'r> {
    root: &'r Root,
    path: &'r str,
    source: Source<'r>,
}

#[derive(Debug)]
enum Source<'r> {
    Disk(File),
    Bundle(&'r Bundle),
}

impl OpenFile<'_> {
    /// Reads at most `limit` bytes from `offset`.
    pub(crate) fn fetch(&self, offset: u64, limit: usize, into: &mut Vec<u8>) -> io::Result<()> {
        into.clear();
        let Self { root, path, source } = self;
        let fetched = match source {
            Source::Disk(file) => disk::fetch(file, offset, limit, into),
            Source::Bundle(bundle) => bundle.host.fetch(path, offset, limit, into),
        };
        match &fetched {
            Ok(()) => root.record(|recording| match into.len() {
                0..=MAX_FILE_BYTES => recording.add_bytes(path, offset, into),
                _ => recording.add(path, Entry::Unread),
            }),
            Err(error) => root.record_failure(path, error),
        }
        fetched
    }
}

/// Whether an error says only that there is no such file, or none any more: a device can go while it is read.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    const GONE: [i32; 2] = [nix::errno::Errno::ENODEV as i32, nix::errno::Errno::ENXIO as i32];
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error().is_some_and(|code| GONE.contains(&code))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn absolute_and_relative_spellings_are_one_path() {
        let root = Root::new("/some/root");
        assert_eq!(root.join("/sys/class").unwrap(), Path::new("/some/root/sys/class"));
        assert_eq!(root.join("sys/./class").unwrap(), Path::new("/some/root/sys/class"));
        assert_eq!(Root::new("/").join("proc").unwrap(), Path::new("/proc"));
    }

    #[test]
    fn ways_out_are_refused() {
        let root = Root::new("/some/root");
        for path in ["..", "/../etc", "sys/../../etc", "sys/.."] {
            let error = root.join(path).unwrap_err();
            assert_eq!(error.reason(), "EscapesRoot");
            assert!(error.to_string().contains(path) && error.to_string().contains("/some/root"), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_no_bundle_is_no_root() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("notes.txt");
        fs::write(&file, "no bundle").unwrap();
        let error = Root::open(&file).unwrap_err();
        assert!(error.to_string().contains("notes.txt"), "{error}");
        assert!(Root::open(directory.path()).unwrap().bundle().is_none());
    }

    proptest! {
        #[test]
        fn what_is_joined_stays_below_the_root(path in "[a-z./]{0,30}") {
            if let Ok(joined) = Root::new("/some/root").join(&path) {
                prop_assert!(joined.starts_with("/some/root"));
                prop_assert!(joined.components().all(|c| c != Component::ParentDir));
            }
        }
    }
}
