//! Reading a file that may be anything, and writing one so that nobody ever finds half of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

/// The text of the plain file `path`, where a link leads to one, too, of at most `largest` bytes.
///
/// # Errors
/// When it cannot be read, is something else (a directory, a pipe, a device), is larger, or is no text.
pub(crate) fn read_text(path: &Path, largest: u64) -> io::Result<String> {
    // Opening a pipe that no one writes to would wait for one who does.
    let file = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain file"));
    }
    let mut bytes = Vec::new();
    // What the file system says of the size may not hold: some files of the kernel are said to be empty.
    file.take(largest.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > largest) {
        let what = format!("it is larger than {largest} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Writes `path` with what `fill` gives: a new file that takes the place of the old one once it is whole. Something that
/// is no plain file (a pipe, a terminal) is written to as it is.
///
/// # Errors
/// When it cannot be written; what was there before is then still there.
pub(crate) fn replace<E: From<io::Error>>(
    path: &Path,
    fill: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), E> {
    match fs::metadata(path) {
        Ok(there) if !there.is_file() => fill(&mut OpenOptions::new().write(true).open(path)?),
        // Where a link leads is replaced, not the link.
        Ok(_) => replace_plain(&fs::canonicalize(path)?, fill),
        Err(_) => replace_plain(path, fill),
    }
}

fn replace_plain<E: From<io::Error>>(
    path: &Path,
    fill: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), E> {
    let beside = beside(path)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&beside)?;
    let written = fill(&mut file).and_then(|()| {
        file.flush()?;
        file.sync_all()?;
        Ok(fs::rename(&beside, path)?)
    });
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A name in the same directory that no other process of this program uses.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_string_lossy();
    Ok(path.with_file_name(format!(".{name}.{}", std::process::id())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: &Path, text: &str) -> io::Result<()> {
        replace(path, |file| file.write_all(text.as_bytes()))
    }

    #[test]
    fn the_new_takes_the_place_of_the_old_or_the_old_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        put(&path, "old").unwrap();
        put(&path, "new").unwrap();
        let failed: io::Result<()> = replace(&path, |file| {
            file.write_all(b"half")?;
            Err(io::Error::other("no more"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "no more");
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn links_and_devices_stay_what_they_are() {
        let directory = tempfile::tempdir().unwrap();
        let (path, link) = (directory.path().join("file"), directory.path().join("link"));
        fs::write(&path, "old").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        put(&link, "new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        put(Path::new("/dev/null"), "nothing").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }

    #[test]
    fn plain_files_of_some_size_are_read_and_nothing_else_is() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("file"), "12345").unwrap();
        std::os::unix::fs::symlink(at("file"), at("link")).unwrap();
        nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(read_text(&at("link"), 5).unwrap(), "12345");
        let refused = |path: &Path, largest| read_text(path, largest).unwrap_err().to_string();
        assert_eq!(refused(&at("file"), 4), "it is larger than 4 bytes");
        for other in [&at("pipe"), directory.path(), Path::new("/dev/zero")] {
            assert_eq!(refused(other, 4), "it is not a plain file", "{}", other.display());
        }
    }
}
