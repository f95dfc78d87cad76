//! What was read on one machine, packed into one file so that it can be read again on another.
//!
//! A bundle is a gzip-compressed tar archive:
//! ```text
//! gpulet-bundle       the version of this layout: 1
//! host/…              files, directories and links below the host's root, only what was read; a file without
//!                     permissions was seen and not read, or could not be read
//! attachments/NAME    whatever else belongs to it, such as the driver's answers
//! ```
//! It is read into memory and never unpacked onto a disk, so no path in it can lead anywhere. Bundles come from other
//! people: entries, sizes and names are bounded, and what is not of this layout is refused.

mod pack;
mod scrub;
mod unpack;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::{Path, PathBuf};

use crate::recorded::Recorded;

/// The first entry, which tells a bundle from other archives.
const MARK: &str = "gpulet-bundle";
const VERSION: &str = "1";

const HOST: &str = "host/";
const ATTACHMENTS: &str = "attachments/";

/// Limits of what is read. The largest nodes need a few thousand entries and a few megabytes.
mod limit {
    pub(super) const ENTRIES: usize = 1 << 16;
    pub(super) const TOTAL_BYTES: u64 = 64 << 20;
    pub(super) const FILE_BYTES: u64 = crate::root::MAX_FILE_BYTES as u64;
    pub(super) const ATTACHMENT_BYTES: u64 = 32 << 20;
    pub(super) const PATH_BYTES: usize = 1024;
}

/// What was read on one machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bundle {
    /// Files below the host's root.
    pub host: Recorded,
    /// Whatever else belongs to it, by name; a name has no `/`.
    pub attachments: BTreeMap<String, Vec<u8>>,
}

/// Why a bundle could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The file could not be opened.
    #[error("cannot open the bundle {}; is it a file that may be read?", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file could be opened and is no bundle, or a damaged one.
    #[error("cannot read the bundle {}; make it anew with `gpulet collect`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Something could not be packed.
    #[error("cannot pack `{entry}` into the bundle; is there room where it is written?")]
    Pack {
        /// What.
        entry: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl BundleError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Open { .. } => "BundleNotOpened",
            Self::Read { .. } => "BundleUnreadable",
            Self::Pack { .. } => "BundleNotWritten",
        }
    }
}

impl Bundle {
    /// Reads the bundle in a file.
    ///
    /// # Errors
    /// A file that cannot be opened, is no bundle, or is larger than any bundle.
    pub fn open(path: &Path) -> Result<Self, BundleError> {
        let file = File::open(path).map_err(|source| BundleError::Open { path: path.to_owned(), source })?;
        unpack::read(BufReader::new(file))
            .map_err(|source| BundleError::Read { path: path.to_owned(), source })
    }

    /// Writes it. The same bundle always makes the same bytes.
    ///
    /// # Errors
    /// A failure of `to`, or an attachment whose name or size could not be read again.
    pub fn write(&self, to: impl Write) -> Result<(), BundleError> {
        pack::write(self, to)
    }

    /// Takes out what names people and places: hardware addresses and GUIDs, serial numbers, and the host names given,
    /// each replaced by a stand-in of its own, so that what was equal stays equal.
    ///
    /// Host names are looked for in attachments and in files outside `/sys`, as whole words.
    #[must_use]
    pub fn scrubbed(&self, host_names: &[String]) -> Self {
        scrub::scrubbed(self, host_names)
    }
}
