//! The kubelet's drop-ins: which files, and in which order.
//!
//! It takes every file whose name ends with `.conf`, in the directory and the directories in it, each directory by the
//! names of what is in it; links to files count and links to directories do not (source: Go's `filepath.WalkDir`, by which
//! the kubelet goes).

use gpulet_inventory::kubelet::KubeletFile;

use super::{FindError, read as read_file};
use crate::reader::Reader;
use crate::recorded::{Entry, below};
use crate::root::Root;

/// The most files that are read, and the most directories below each other.
const MAX_FILES: usize = 256;
const MAX_DEPTH: usize = 16;

/// Reads all files that count, in the order in which they apply.
pub(super) fn read(reader: &Reader<'_>, root: &Root, directory: &str) -> Result<Vec<KubeletFile>, FindError> {
    if is_link(reader, root, directory) {
        return Ok(Vec::new());
    }
    let mut paths = Vec::new();
    walk(reader, root, directory.trim_end_matches('/'), 0, &mut paths)?;
    paths.into_iter().map(|path| read_file(reader, root, path)).collect()
}

/// Whether the directory itself is a link, which the kubelet does not follow unless a slash stands behind it.
fn is_link(reader: &Reader<'_>, root: &Root, directory: &str) -> bool {
    let Some((above, name)) = directory.rsplit_once('/').filter(|(_, name)| !name.is_empty()) else {
        return false;
    };
    let above = reader.directory(above);
    above.is_some_and(|above| root.read_link(&below(above.path(), name)).is_ok_and(|target| target.is_some()))
}

fn walk(
    reader: &Reader<'_>,
    root: &Root,
    directory: &str,
    depth: usize,
    paths: &mut Vec<String>,
) -> Result<(), FindError> {
    let unreadable = FindError::unreadable(directory);
    let real = reader.directory(directory).ok_or(std::io::ErrorKind::NotFound.into());
    let listed = real.and_then(|real| root.list(real.path()));
    let mut entries = listed.map_err(unreadable)?;
    entries.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    for (name, entry) in entries {
        let path = format!("{directory}/{name}");
        match entry {
            Entry::Directory if depth < MAX_DEPTH => walk(reader, root, &path, depth + 1, paths)?,
            Entry::Directory => return Err(too_many(&path)),
            _ if !name.ends_with(".conf") => {}
            _ if paths.len() < MAX_FILES => paths.push(path),
            _ => return Err(too_many(&path)),
        }
    }
    Ok(())
}

fn too_many(path: &str) -> FindError {
    let problem = format!("more than {MAX_FILES} drop-ins, or {MAX_DEPTH} directories below each other");
    FindError::unreadable(path)(std::io::Error::other(problem))
}
