//! Files of one directory, each written as a whole and down to the disk.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

/// The most that is read of one file, bytes. A GPU with all of its instances is a few kilobytes.
pub(super) const MAX_BYTES: u64 = 1 << 20;

/// How the directory is opened: itself, and not where a link in its place leads.
pub(super) const DIRECTORY: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

pub(super) fn beside(name: &str) -> String {
    format!(".{name}.new")
}

pub(super) fn open_folder(path: &Path) -> io::Result<File> {
    Ok(nix::fcntl::open(path, DIRECTORY, Mode::empty())?.into())
}

/// What is in the file: itself, and not where a link in its place leads; a pipe is not waited for.
pub(super) fn fetch(folder: &Path, name: &str) -> io::Result<Vec<u8>> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = File::from(openat(open_folder(folder)?, name, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a plain file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Writes the new file beside the old one, down to the disk.
pub(super) fn prepare(folder: impl AsFd, name: &str, bytes: &[u8]) -> io::Result<()> {
    let beside = beside(name);
    // Left by one that was killed meanwhile.
    match unlinkat(folder.as_fd(), beside.as_str(), UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut file = File::from(openat(&folder, beside.as_str(), flags, Mode::S_IRUSR | Mode::S_IWUSR)?);
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = unlinkat(&folder, beside.as_str(), UnlinkatFlags::NoRemoveDir);
    }
    written
}

/// Puts it in the place of the old one, down to the disk too.
pub(super) fn commit(folder: &File, name: &str) -> io::Result<()> {
    renameat(folder, beside(name).as_str(), folder, name)?;
    folder.sync_all()
}
