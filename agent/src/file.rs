//! Writing a file so that nobody ever finds half of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

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
        Ok(_) => replace_itself(&fs::canonicalize(path)?, fill),
        Err(_) => replace_itself(path, fill),
    }
}

/// The same, but whatever is at `path` itself is replaced, a link, too.
///
/// # Errors
/// As [`replace`].
pub(crate) fn replace_itself<E: From<io::Error>>(
    path: &Path,
    fill: impl FnOnce(&mut File) -> Result<(), E>,
) -> Result<(), E> {
    let beside = beside(path)?;
    let begin = || OpenOptions::new().write(true).create_new(true).mode(0o644).open(&beside);
    let mut file = match begin() {
        // Left by one that was killed meanwhile: in a container every start has the same process id.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(&beside)?;
            begin()?
        }
        begun => begun?,
    };
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
    fn what_was_left_half_written_is_in_nobodys_way() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(beside(&path).unwrap(), "half").unwrap();
        put(&path, "new").unwrap();
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
}
