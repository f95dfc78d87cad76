//! One that changes GPUs at a time: the daemon while it may, or a command for as long as it runs.
//!
//! The kernel lets go of the lock when its holder ends, however that is. The file stays: if it were removed, two could each
//! hold a lock on a file of that name.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};

use crate::root::Root;

/// Where it is, as the node names it.
pub const PATH: &str = "/run/gpulet/partition.lock";

/// The lock, held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    file: Flock<File>,
}

/// Why it is not held.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Someone else holds it.
    #[error(
        "{} divides the GPUs of this node already; wait until it is done, or where it is the daemon, which is never done, \
         declare what is wanted there (the label, or `labels` of its configuration)",
        holder(*pid)
    )]
    Held {
        /// The holder, as `/proc` of the host numbers it; absent if it has not told yet.
        pid: Option<u32>,
    },
    /// The file cannot be made or locked.
    #[error("cannot lock {}, which keeps two from changing GPUs at once; see to its directory", path.display())]
    Unavailable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl LockError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Held { .. } => "LockHeld",
            Self::Unavailable { .. } => "LockUnavailable",
        }
    }
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

impl Lock {
    /// Takes it, without waiting.
    ///
    /// # Errors
    /// If someone else holds it, or the file cannot be made.
    pub fn take(root: &Root) -> Result<Self, LockError> {
        let path = Path::new(PATH);
        let unavailable =
            |source| LockError::Unavailable { path: root.path().join("run/gpulet/partition.lock"), source };
        loop {
            let place = root.made_directory(path.parent().unwrap_or(path)).map_err(unavailable)?;
            let place = place.join(path.file_name().unwrap_or_default());
            let file = open(&place).map_err(unavailable)?;
            let mut file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(file) => file,
                Err((mut file, Errno::EWOULDBLOCK)) => return Err(LockError::Held { pid: told(&mut file) }),
                Err((_, error)) => return Err(unavailable(error.into())),
            };
            // Whoever tidies up /run may have removed it between the two.
            if !is_at(&file, &place).map_err(unavailable)? {
                continue;
            }
            tell(&mut file, own_pid(root)).map_err(unavailable)?;
            return Ok(Self { file });
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Nobody is told of a holder that is none any more.
        let _ = self.file.set_len(0);
    }
}

/// Opens the file itself, and not where a link in its place leads; a pipe is not waited for.
fn open(place: &Path) -> io::Result<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o644).custom_flags(flags.bits());
    let file = options.open(place)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a plain file")),
    }
}

fn is_at(file: &File, place: &Path) -> io::Result<bool> {
    let of = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match fs::symlink_metadata(place) {
        Ok(there) => Ok(of(there) == of(file.metadata()?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// This process as the host's `/proc` numbers it.
fn own_pid(root: &Root) -> u32 {
    let link = root.unrecorded().read_link("proc/self").ok().flatten();
    link.and_then(|pid| pid.parse().ok()).unwrap_or_else(std::process::id)
}

fn tell(file: &mut File, pid: u32) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{pid}")
}

fn told(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests;
