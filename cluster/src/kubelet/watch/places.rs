//! What is watched, and what it means when it changes.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use super::Change;

const ALLOCATION: Change = Change { allocation: true, socket_replaced: false, settings: false };
const SOCKET: Change = Change { allocation: false, socket_replaced: true, settings: false };
const SETTINGS: Change = Change { allocation: false, socket_replaced: false, settings: true };

/// Files below the kubelet's root: directory, name, and what a change of it means.
const FILES: [(&str, &str, Change); 5] = [
    ("", "cpu_manager_state", ALLOCATION),
    ("", "memory_manager_state", ALLOCATION),
    ("", "dra_manager_state", ALLOCATION),
    ("device-plugins", "kubelet_internal_checkpoint", ALLOCATION),
    ("pod-resources", "kubelet.sock", SOCKET),
];

/// The most directories of drop-ins that are watched.
const MAX_DIRECTORIES: usize = 64;

/// A file in a directory, or all that is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The directory.
    pub(super) directory: PathBuf,
    /// The file's name; absent: whatever is in the directory.
    pub(super) name: Option<OsString>,
    /// What a change means.
    pub(super) means: Change,
}

impl Place {
    /// The places below a kubelet's root, and those of its settings: files, and directories with what is below them.
    pub(super) fn of_kubelet(root: &Path, settings: impl IntoIterator<Item = PathBuf>) -> Vec<Self> {
        let below = |(directory, name, means): (&str, &str, Change)| Self {
            // Not joined where empty: it would end with a slash.
            directory: if directory.is_empty() { root.to_owned() } else { root.join(directory) },
            name: Some(name.into()),
            means,
        };
        let settings = settings.into_iter().filter_map(|path| {
            let name = path.file_name()?.to_owned();
            Some(Self { directory: path.parent()?.to_owned(), name: Some(name), means: SETTINGS })
        });
        FILES.map(below).into_iter().chain(settings).collect()
    }

    /// The places that are below this one where it is a directory: its own content, and that of its directories.
    pub(super) fn below(&self) -> Vec<Self> {
        let Some(name) = self.name.as_ref().filter(|_| self.means.settings) else { return Vec::new() };
        let mut found = vec![self.directory.join(name)];
        found.retain(|path| path.is_dir());
        let mut at = 0;
        while let Some(directory) = found.get(at).filter(|_| found.len() < MAX_DIRECTORIES) {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            let directories: Vec<PathBuf> = directories.map(|entry| entry.path()).collect();
            found.extend(directories);
            at += 1;
        }
        let place = |directory| Self { directory, name: None, means: self.means };
        found.into_iter().map(place).collect()
    }

    /// What it means that something happened to `name` in `directory`.
    pub(super) fn hit(&self, directory: &Path, name: &OsStr) -> Option<Change> {
        let mine = self.directory == directory && self.name.as_ref().is_none_or(|mine| mine == name);
        mine.then_some(self.means)
    }

    /// Whether it is the file or directory at `path`.
    pub(super) fn is(&self, path: &Path) -> bool {
        path.parent() == Some(&self.directory) && path.file_name() == self.name.as_deref()
    }
}
