//! Where the settings come from, and reading them again.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use std::{io, thread};

use super::file;
use super::{ConfigError, Overrides, Settings};
use crate::file::read_text;

/// The file that is read unless another is named. It may be absent.
pub(crate) const DEFAULT_FILE: &str = "/etc/gpulet/config.yaml";

/// The largest file that is read, bytes. One with every key is a thousandth of that.
const LARGEST: u64 = 1 << 20;

/// How long reading it may take: a file system whose server is gone never answers.
const READ_WITHIN: Duration = Duration::from_secs(5);

/// Where the settings come from.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Absent: none is read.
    file: Option<PathBuf>,
    must_exist: bool,
    overrides: Overrides,
    /// Whether a thread reads the file. Shared by all clones, so that no second one hangs beside one that does.
    being_read: Arc<AtomicBool>,
}

impl Source {
    /// The named file, which must exist, or else the default one, which need not.
    pub(crate) fn new(file: Option<PathBuf>, overrides: Overrides) -> Self {
        let must_exist = file.is_some();
        Self::of(Some(file.unwrap_or_else(|| DEFAULT_FILE.into())), must_exist, overrides)
    }

    /// The named file, or else none at all: what is configured for this machine does not hold for another.
    #[cfg(feature = "simulator")]
    pub(crate) fn apart_from_this_machine(file: Option<PathBuf>, overrides: Overrides) -> Self {
        Self::of(file, true, overrides)
    }

    fn of(file: Option<PathBuf>, must_exist: bool, overrides: Overrides) -> Self {
        Self { file, must_exist, overrides, being_read: Arc::default() }
    }

    /// The file; absent if none is read.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Reads the settings. Takes no longer than some seconds, whatever the file is and wherever it is kept.
    ///
    /// # Errors
    /// If the file cannot be read, or with everything that is wrong with it.
    pub(crate) fn read(&self) -> Result<Settings, ConfigError> {
        let settings = match self.file() {
            Some(path) => self.read_in_time(path)?,
            None => Settings::default(),
        };
        Ok(settings.overridden_by(&self.overrides))
    }

    /// Reads the file on a thread of its own, which is left behind if it hangs.
    fn read_in_time(&self, path: &Path) -> Result<Settings, ConfigError> {
        let failed = |source| ConfigError::Unreadable { path: path.to_owned(), source };
        if self.being_read.swap(true, Ordering::AcqRel) {
            return Err(failed(timed_out("reading it, begun earlier, has not come to an end yet")));
        }
        let (sender, outcome) = mpsc::channel();
        let (path_there, must_exist) = (path.to_owned(), self.must_exist);
        let being_read = BeingRead(Arc::clone(&self.being_read));
        let read = move || {
            let outcome = read_file(&path_there, must_exist);
            drop(being_read);
            let _ = sender.send(outcome);
        };
        thread::Builder::new().name("config".into()).spawn(read).map_err(failed)?;
        outcome.recv_timeout(READ_WITHIN).unwrap_or_else(|error| {
            Err(failed(match error {
                RecvTimeoutError::Timeout => timed_out("its file system does not answer"),
                RecvTimeoutError::Disconnected => io::Error::other("the thread that reads it panicked"),
            }))
        })
    }
}

/// Says that the file is no longer being read, however reading it ends.
struct BeingRead(Arc<AtomicBool>);

impl Drop for BeingRead {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn timed_out(what: &'static str) -> io::Error {
    io::Error::new(ErrorKind::TimedOut, what)
}

fn read_file(path: &Path, must_exist: bool) -> Result<Settings, ConfigError> {
    match read_text(path, LARGEST) {
        Ok(text) => {
            file::parse(&text).map_err(|problems| ConfigError::Invalid { path: path.to_owned(), problems })
        }
        Err(error) if error.kind() == ErrorKind::NotFound && !must_exist => Ok(Settings::default()),
        Err(source) => Err(ConfigError::Unreadable { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_named_file_must_exist_and_flags_go_before_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        let overrides = Overrides { listen: Some(":2".parse().unwrap()), ..Overrides::default() };
        let source = Source::new(Some(path.clone()), overrides);
        assert_eq!(source.read().unwrap_err().reason(), "ConfigUnreadable");
        fs::write(&path, "web: {address: ':1', max-connections: 3}").unwrap();
        let settings = source.read().unwrap();
        assert_eq!((settings.web.address.port, settings.web.limits.connections), (2, 3));
        fs::write(&path, "web: 1\ncolour: red\n").unwrap();
        let error = source.read().unwrap_err();
        assert_eq!(error.reason(), "ConfigInvalid");
        let text = error.to_string();
        for part in ["2 errors", &format!("{}:1: ", path.display()), &format!("{}:2: ", path.display())] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_reading_that_hangs_is_not_joined_by_a_second() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        fs::write(&path, "").unwrap();
        let source = Source::new(Some(path), Overrides::default());
        source.read().unwrap();
        source.read().unwrap();
        // As while a thread hangs in it.
        source.being_read.store(true, Ordering::Release);
        let error = source.clone().read().unwrap_err();
        assert_eq!(error.reason(), "ConfigUnreadable");
        assert!(crate::report::chain(&error).contains("begun earlier"), "{error:?}");
    }
}
