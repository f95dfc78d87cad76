//! Where the settings come from, and reading them again.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::file;
use super::{ConfigError, Overrides, Settings};
use crate::text_file::TextReader;

/// The file that is read unless another is named. It may be absent.
pub(crate) const DEFAULT_FILE: &str = "/etc/gpulet/config.yaml";

/// The largest file that is read, bytes. One with every key is a thousandth of that.
const LARGEST: u64 = 1 << 20;

/// Where the settings come from.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Absent: none is read.
    file: Option<PathBuf>,
    must_exist: bool,
    overrides: Overrides,
    reader: TextReader,
    /// Whether the file was absent when it was last read.
    absent: Arc<AtomicBool>,
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
        Self { file, must_exist, overrides, reader: TextReader::default(), absent: Arc::default() }
    }

    /// What was last read, for people: the file, or that there is none.
    pub(crate) fn description(&self) -> String {
        match &self.file {
            Some(file) if self.absent.load(Ordering::Acquire) => {
                format!("none ({} is absent)", file.display())
            }
            Some(file) => file.display().to_string(),
            None => "none".to_owned(),
        }
    }

    /// Reads the settings. Takes no longer than some seconds, whatever the file is and wherever it is kept.
    ///
    /// # Errors
    /// If the file cannot be read, or with everything that is wrong with it.
    pub(crate) fn read(&self) -> Result<Settings, ConfigError> {
        let read = match &self.file {
            Some(path) => self.read_file(path)?,
            None => None,
        };
        self.absent.store(read.is_none(), Ordering::Release);
        Ok(read.unwrap_or_default().overridden_by(&self.overrides))
    }

    /// What the file says; absent if there is none and need not be.
    fn read_file(&self, path: &Path) -> Result<Option<Settings>, ConfigError> {
        match self.reader.read(path, LARGEST) {
            Ok(text) => file::parse(&text)
                .map(Some)
                .map_err(|problems| ConfigError::Invalid { path: path.to_owned(), problems }),
            Err(error) if error.kind() == ErrorKind::NotFound && !self.must_exist => Ok(None),
            Err(source) => Err(ConfigError::Unreadable { path: path.to_owned(), source }),
        }
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
    fn a_file_that_is_absent_is_said_to_be() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        let source = Source::of(Some(path.clone()), false, Overrides::default());
        source.read().unwrap();
        assert_eq!(source.description(), format!("none ({} is absent)", path.display()));
        fs::write(&path, "").unwrap();
        source.read().unwrap();
        assert_eq!(source.description(), path.display().to_string());
    }
}
