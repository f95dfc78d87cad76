//! The expected profile as a file.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use gpulet_inventory::topology::{Finding, FindingReason, Severity, Topology};
use gpulet_topology::expected::{Profile, UnsupportedVersion};

use crate::file;
use crate::text_file::TextReader;

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

/// What is expected of a node.
#[derive(Debug, Default)]
pub(crate) struct Expected {
    /// The profile; absent where none is named or it cannot be read.
    pub(crate) profile: Option<Profile>,
    /// That it cannot be read.
    pub(crate) unreadable: Option<Finding>,
}

impl Expected {
    /// What the profile in the file `path` expects, where one is named. Takes no longer than some seconds. One that cannot
    /// be read is a finding: the node is none the worse for it.
    pub(crate) fn read(path: Option<&Path>, reader: &TextReader) -> Self {
        match path.map(|path| read(path, reader).map_err(|error| unreadable(path, &error))) {
            None => Self::default(),
            Some(Ok(profile)) => Self { profile: Some(profile), unreadable: None },
            Some(Err(finding)) => Self { profile: None, unreadable: Some(finding) },
        }
    }
}

fn read(path: &Path, reader: &TextReader) -> Result<Profile, ProfileError> {
    let path = || path.to_owned();
    let text = reader
        .read(&path(), MAX_BYTES)
        .map_err(|source| ProfileError::Unreadable { path: path(), source })?;
    let profile: Profile = serde_saphyr::from_str(&text).map_err(|error| {
        let why = error.without_snippet().to_string();
        ProfileError::Invalid { path: path(), why: why.lines().next().unwrap_or_default().to_owned() }
    })?;
    profile.check().map_err(|source| ProfileError::Version { path: path(), source })?;
    Ok(profile)
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
fn unreadable(path: &Path, error: &ProfileError) -> Finding {
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
    use std::fs;

    use super::*;

    fn expected(path: &Path) -> Expected {
        Expected::read(Some(path), &TextReader::default())
    }

    #[test]
    fn what_was_saved_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("profile.yaml");
        save(&path, &Topology::default()).unwrap();
        let expected = expected(&path);
        assert_eq!(expected.profile, Some(Profile::of(&Topology::default())));
        assert_eq!(expected.unreadable, None);
    }

    #[test]
    fn what_is_no_profile_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("profile.yaml");
        let told = || {
            let Expected { profile, unreadable } = expected(&path);
            assert_eq!(profile, None);
            unreadable.unwrap().evidence
        };
        assert!(told().contains("cannot read the expected profile"), "{}", told());
        fs::write(&path, "version: 1\ncolour: red\n").unwrap();
        assert!(told().contains("colour"), "{}", told());
        fs::write(&path, "{version: 7, gpus: [], nics: [], pcie-switches: [], nvswitches: []}").unwrap();
        assert!(told().contains("version 7"), "{}", told());
        fs::write(&path, vec![b'#'; 2 << 20]).unwrap();
        assert!(told().contains("larger than"), "{}", told());
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(told().contains("not a plain file"), "{}", told());
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(told().contains("not a plain file"), "{}", told());
    }
}
