//! Reading real files: never through a last link, never waiting, never more than was asked for.

use std::fs::{self, DirEntry, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

use crate::recorded::Entry;

/// As much as the kernel gives of its own files at once.
const PAGE: usize = 4096;

/// Reads at most `limit` bytes from `offset`.
pub(crate) fn fetch(file: &File, offset: u64, limit: usize, into: &mut Vec<u8>) -> io::Result<()> {
    let mut filled = 0;
    while filled < limit {
        let wanted = PAGE.min(limit - filled);
        into.resize(filled + wanted, 0);
        let room = into.get_mut(filled..).unwrap_or_default();
        let read = file.read_at(room, offset + filled as u64)?;
        filled += read;
        // Less than was asked for is the end: another call to be told so would be a fourth of all calls.
        if read < wanted {
            break;
        }
    }
    into.truncate(filled);
    Ok(())
}

/// Opens a file to read it. A named pipe in a hand-made tree would otherwise wait for a writer.
pub(crate) fn open(file: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits()).open(file)
}

/// What a link points to; `None` if it is something else than a link.
pub(crate) fn read_link(path: &Path) -> io::Result<Option<String>> {
    match fs::read_link(path) {
        Ok(target) => match target.into_os_string().into_string() {
            Ok(target) => Ok(Some(target)),
            Err(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "the link's target is no text")),
        },
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
        Err(error) => Err(error),
    }
}

/// What is in a directory. Names that are no text are left out, as the kernel gives none such here. Where links point
/// is looked up only if it `matters`; without, they are called unread, as files are.
pub(crate) fn list(directory: &Path, matters: bool) -> io::Result<Vec<(String, Entry)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let kind = kind(&entry, matters)?;
        if let Ok(name) = entry.file_name().into_string() {
            entries.push((name, kind));
        }
    }
    Ok(entries)
}

fn kind(entry: &DirEntry, matters: bool) -> io::Result<Entry> {
    let kind = entry.file_type()?;
    Ok(match kind {
        _ if kind.is_dir() => Entry::Directory,
        _ if kind.is_symlink() && matters => read_link(&entry.path())?.map_or(Entry::Unread, Entry::Link),
        _ => Entry::Unread,
    })
}
