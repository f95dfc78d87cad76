//! The root that `/sys`, `/proc`, `/dev` and `/run` are looked up under, and reading from below it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The most that is read of one file, bytes. The kernel's own files here are a few kilobytes at most.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// A directory that stands for `/` of the node, and which files below it have been reported as odd.
///
/// Clones share what has been reported, so that a file that stays odd is reported once in the life of a process.
#[derive(Debug, Clone)]
pub struct Root {
    path: PathBuf,
    reported: Arc<Mutex<BTreeSet<PathBuf>>>,
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
    /// The root at `path`; `/` is the machine itself.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), reported: Arc::default() }
    }

    /// The directory itself.
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

    /// Reads the file at `path` and makes of it what `parse` makes of it. `None` if the file is missing (said to no
    /// one) or holds something else (said once).
    pub(crate) fn read<T, E: fmt::Display>(
        &self,
        path: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let file = self.present(path)?;
        let text = self.known(&file, read_bounded(&file))?;
        let value = self.plain(&file, parse(text.trim()))?;
        self.well(&file);
        Some(value)
    }

    /// The names in the directory at `path`, sorted; empty if it is missing.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        let list = |directory: &Path| -> io::Result<Vec<String>> {
            let names = fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.file_name()));
            let names: Vec<OsString> = names.collect::<io::Result<_>>()?;
            Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
        };
        let listed = self.present(path).and_then(|directory| self.known(&directory, list(&directory)));
        let mut names = listed.unwrap_or_default();
        names.sort();
        names
    }

    /// The last part of what the link at `path` points to; `None` where there is no link.
    pub(crate) fn link_name(&self, path: &str) -> Option<String> {
        let link = self.present(path)?;
        let target = self.known(&link, fs::read_link(&link))?;
        target.file_name().and_then(|name| name.to_str()).map(str::to_owned)
    }

    fn present(&self, path: &str) -> Option<PathBuf> {
        self.plain(Path::new(path), self.join(path))
    }

    /// The value of an operation on `file`; its failure is said once, unless the file is only missing.
    fn known<T>(&self, file: &Path, result: io::Result<T>) -> Option<T> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.well(file);
                None
            }
            other => self.plain(file, other),
        }
    }

    /// The value; a failure is said once per file.
    fn plain<T, E: fmt::Display>(&self, file: &Path, result: Result<T, E>) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.insert(file.to_owned()) {
            tracing::warn!(file = %file.display(), %error, "skipped what could not be understood");
        }
        None
    }

    /// Forgets that `file` was odd.
    fn well(&self, file: &Path) {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner).remove(file);
    }

    /// How many files are odd now.
    #[cfg(test)]
    pub(crate) fn odd_files(&self) -> usize {
        self.reported.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

fn read_bounded(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(file)?.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    Ok(text)
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
    fn an_odd_file_is_reported_once_until_it_is_well() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path());
        let read = || root.read("number", str::parse::<u32>);
        assert_eq!((read(), root.odd_files()), (None, 0), "missing is not odd");
        fs::write(directory.path().join("number"), "seven").unwrap();
        assert_eq!((read(), root.odd_files()), (None, 1));
        assert_eq!((read(), root.clone().odd_files()), (None, 1), "clones share the list");
        fs::write(directory.path().join("number"), "7\n").unwrap();
        assert_eq!((read(), root.odd_files()), (Some(7), 0));
    }

    #[test]
    fn bytes_that_are_no_text_are_odd_and_a_missing_directory_is_empty() {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::new(directory.path());
        fs::write(directory.path().join("number"), [0xff, 0xfe]).unwrap();
        assert_eq!(root.read("number", str::parse::<u32>), None);
        assert_eq!(root.odd_files(), 1);
        assert!(root.names("sys/nothing").is_empty());
        assert!(root.names("number").is_empty(), "a file is no directory");
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
