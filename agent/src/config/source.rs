//! Where the settings come from, and reading them again.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::file;
use super::{ConfigError, Overrides, Settings};

/// The file that is read unless another is named. It may be absent.
pub(crate) const DEFAULT_FILE: &str = "/etc/gpulet/config.yaml";

/// Where the settings come from.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    file: PathBuf,
    must_exist: bool,
    overrides: Overrides,
}

impl Source {
    /// The named file, which must exist, or the default one, which need not.
    pub(crate) fn new(file: Option<PathBuf>, overrides: Overrides) -> Self {
        let must_exist = file.is_some();
        Self { file: file.unwrap_or_else(|| DEFAULT_FILE.into()), must_exist, overrides }
    }

    /// The file.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Reads the settings.
    ///
    /// # Errors
    /// If the file cannot be read, or with everything that is wrong with it.
    pub(crate) fn read(&self) -> Result<Settings, ConfigError> {
        let settings = match fs::read_to_string(&self.file) {
            Ok(text) => file::parse(&text)
                .map_err(|problems| ConfigError::Invalid { path: self.file.clone(), problems })?,
            Err(error) if error.kind() == ErrorKind::NotFound && !self.must_exist => Settings::default(),
            Err(source) => return Err(ConfigError::Unreadable { path: self.file.clone(), source }),
        };
        Ok(settings.overridden_by(&self.overrides))
    }
}
