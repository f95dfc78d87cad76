//! The expected profile as a file.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gpulet_inventory::topology::{Finding, FindingReason, Severity, Topology};
use gpulet_topology::expected::{Profile, UnsupportedVersion};

use crate::file;

/// The largest file that is read, bytes: a profile has some kilobytes.
const MAX_BYTES: u64 = 1 << 20;

const HEADER: &str = "# What this node should look like. Written by `gpulet topo --save`; for topology.expected-profile in\n\
                      # gpulet's configuration.\n";

/// Why a profile could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProfileError {
    /// The file cannot be read.
    #[error("cannot read the expected profile {}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It holds something else.
    #[error("the expected profile {} is none: {why}", path.display())]
    Invalid {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// It is of another version.
    #[error("cannot use {}", path.display())]
    Version {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: UnsupportedVersion,
    },
    /// It cannot be written.
    #[error("cannot write the expected profile {}", path.display())]
    Unwritable {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// Reads a profile.
///
/// # Errors
/// A file that cannot be read, holds something else, or is of another version.
pub(crate) fn read(path: &Path) -> Result<Profile, ProfileError> {
    let path = || path.to_owned();
    let text = text(&path()).map_err(|source| ProfileError::Unreadable { path: path(), source })?;
    let profile: Profile = serde_saphyr::from_str(&text).map_err(|error| {
        let why = error.without_snippet().to_string();
        ProfileError::Invalid { path: path(), why: why.lines().next().unwrap_or_default().to_owned() }
    })?;
    profile.check().map_err(|source| ProfileError::Version { path: path(), source })?;
    Ok(profile)
}

fn text(path: &Path) -> io::Result<String> {
    if fs::metadata(path)?.len() > MAX_BYTES {
        return Err(io::Error::other(format!("it is larger than {MAX_BYTES} bytes")));
    }
    fs::read_to_string(path)
}

/// Keeps the profile of a topology as it is.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn save(path: &Path, topology: &Topology) -> Result<(), ProfileError> {
    let failed = |source| ProfileError::Unwritable { path: path.to_owned(), source };
    let text = serde_saphyr::to_string(&Profile::of(topology)).map_err(|e| failed(io::Error::other(e)))?;
    file::replace(path, |file| {
        file.write_all(HEADER.as_bytes())?;
        file.write_all(text.as_bytes())
    })
    .map_err(failed)
}

/// What stands in the place of the comparison when there is no profile to compare with.
pub(crate) fn unreadable(path: &Path, error: &ProfileError) -> Finding {
    Finding {
        reason: FindingReason::ProfileUnreadable,
        severity: Severity::Fault,
        subject: path.display().to_string(),
        evidence: crate::report::chain(error),
        remedy:
            "mend the file, save it anew with `gpulet topo --save`, or take topology.expected-profile out of \
                 the configuration"
                .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("profile.yaml");
        save(&path, &Topology::default()).unwrap();
        assert_eq!(read(&path).unwrap(), Profile::of(&Topology::default()));
    }

    #[test]
    fn what_is_no_profile_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("profile.yaml");
        let told = || crate::report::chain(&read(&path).unwrap_err());
        assert!(told().contains("cannot read the expected profile"), "{}", told());
        fs::write(&path, "version: 1\ncolour: red\n").unwrap();
        assert!(told().contains("colour"), "{}", told());
        fs::write(&path, "{version: 7, gpus: [], nics: [], pcie-switches: [], nvswitches: []}").unwrap();
        assert!(told().contains("version 7"), "{}", told());
        fs::write(&path, vec![b'#'; 2 << 20]).unwrap();
        assert!(told().contains("larger than"), "{}", told());
        let finding = unreadable(&path, &read(&path).unwrap_err());
        assert!(finding.evidence.contains("larger than"), "{finding:?}");
    }
}
