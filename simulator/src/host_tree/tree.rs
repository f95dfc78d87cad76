//! Files, directories and links below a root, first as a plan, then on disk.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::HostTreeError;

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// A directory.
    Directory,
    /// A file with its content.
    File(String),
    /// A link, to a path relative to its own directory.
    Link(PathBuf),
}

/// Entries by path, relative to the root. Directories above an entry go without saying.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Tree(BTreeMap<PathBuf, Entry>);

impl Tree {
    /// Adds a directory.
    pub(super) fn directory(&mut self, at: impl Into<PathBuf>) {
        self.0.insert(at.into(), Entry::Directory);
    }

    /// Adds a file; its content ends in a line end, as the kernel's do.
    pub(super) fn file(&mut self, at: impl Into<PathBuf>, content: impl ToString) {
        let mut content = content.to_string();
        if !content.is_empty() && !content.ends_with(['\n', '\0']) {
            content.push('\n');
        }
        self.0.insert(at.into(), Entry::File(content));
    }

    /// Adds a link from one path to another, both relative to the root.
    pub(super) fn link(&mut self, at: impl Into<PathBuf>, to: impl AsRef<Path>) {
        let at = at.into();
        let target = relative(&at, to.as_ref());
        self.0.insert(at, Entry::Link(target));
    }

    /// Adds a link with this text, as the kernel shows open files: it leads below the machine's root, not this one.
    pub(super) fn link_as_is(&mut self, at: impl Into<PathBuf>, text: impl Into<PathBuf>) {
        self.0.insert(at.into(), Entry::Link(text.into()));
    }

    /// What is planned at a path.
    pub(super) fn get(&self, at: &Path) -> Option<&Entry> {
        self.0.get(at)
    }

    /// Whether something is planned at a path or below it.
    pub(super) fn has(&self, at: &Path) -> bool {
        self.0.range(at.to_owned()..).next().is_some_and(|(path, _)| path.starts_with(at))
    }

    /// Makes what is planned below `root`. What is there already and equal is not touched, so that open files and
    /// watchers notice nothing.
    pub(super) fn make(&self, root: &Path) -> Result<(), HostTreeError> {
        // Entries are in order, so those of one directory come together and it is asked for once.
        let mut directory = None;
        for (at, entry) in &self.0 {
            let above = at.parent();
            if directory != above {
                let path = root.join(above.unwrap_or(Path::new("")));
                fs::create_dir_all(&path)
                    .map_err(|source| HostTreeError::new("create directory", &path, source))?;
                directory = above;
            }
            make(&root.join(at), entry)?;
        }
        Ok(())
    }
}

/// The way from the directory of `at` to `to`.
fn relative(at: &Path, to: &Path) -> PathBuf {
    let from: Vec<_> = at.parent().into_iter().flat_map(Path::components).collect();
    let target: Vec<_> = to.components().collect();
    let shared = from.iter().zip(&target).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n(Path::new(".."), from.len() - shared);
    up.chain(target.iter().skip(shared).map(|part| Path::new(part.as_os_str()))).collect()
}

fn make(path: &Path, entry: &Entry) -> Result<(), HostTreeError> {
    let (operation, made) = match entry {
        Entry::Directory => ("create directory", fs::create_dir_all(path)),
        Entry::File(content) => ("write", file(path, content)),
        Entry::Link(target) => ("create link", link(path, target)),
    };
    made.map_err(|source| HostTreeError::new(operation, path, source))
}

/// Makes a file, or puts one of other content in place in one step, so that no one reads half of it.
fn file(path: &Path, content: &str) -> io::Result<()> {
    match fs::OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(mut new) => return new.write_all(content.as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    if fs::read(path)? == content.as_bytes() {
        return Ok(());
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    fs::write(&new, content)?;
    fs::rename(&new, path)
}

fn link(path: &Path, target: &Path) -> io::Result<()> {
    match symlink(target, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match fs::read_link(path)? == target {
            true => Ok(()),
            false => fs::remove_file(path).and_then(|()| symlink(target, path)),
        },
        made => made,
    }
}

/// Removes what is at `path`, whatever it is; nothing there is fine.
pub(super) fn remove(path: &Path) -> Result<(), HostTreeError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(HostTreeError::new("remove", path, error))
        }
        _ => Ok(()),
    }
}

/// Names of what is in a directory; none if there is no directory.
pub(super) fn names(directory: &Path) -> Result<Vec<String>, HostTreeError> {
    let failed = |source| HostTreeError::new("list", directory, source);
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    entries
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()).map_err(failed))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_relative() {
        let way = |at: &str, to: &str| relative(Path::new(at), Path::new(to)).display().to_string();
        assert_eq!(way("sys/bus/pci/devices/a", "sys/devices/pci/a"), "../../../devices/pci/a");
        assert_eq!(way("sys/devices/a/driver", "sys/bus/d"), "../../bus/d");
        assert_eq!(way("a/device", "a"), "");
    }

    #[test]
    fn what_is_equal_is_not_touched() {
        use std::os::unix::fs::MetadataExt;
        let directory = tempfile::tempdir().unwrap();
        let mut tree = Tree::default();
        tree.file("d/one", "1");
        tree.file("d/two", "2");
        tree.make(directory.path()).unwrap();
        let inode = |name: &str| fs::metadata(directory.path().join("d").join(name)).unwrap().ino();
        let before = (inode("one"), inode("two"));
        tree.file("d/two", "3");
        tree.make(directory.path()).unwrap();
        assert_eq!(inode("one"), before.0);
        assert_eq!(fs::read_to_string(directory.path().join("d/two")).unwrap(), "3\n");
        assert_eq!(names(&directory.path().join("d")).unwrap().len(), 2, "no temporary file is left");
    }
}
