//! What can be wrong with the configuration.

use std::fmt;
use std::io;
use std::path::PathBuf;

use gpulet_inventory::yaml::Problems;

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file holds mistakes: all of them, each with its line.
    #[error("the configuration file {} has {}:\n{}", path.display(), Counted(.problems.count()), .problems.listed(path.display()))]
    Invalid {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        problems: Problems,
    },
    /// Reading it broke off: a bug.
    #[error("reading the configuration broke off, which is a bug; the log says where")]
    Broken {
        /// How.
        #[source]
        source: tokio::task::JoinError,
    },
}

impl ConfigError {
    /// The stable word for this error.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "ConfigUnreadable",
            Self::Invalid { .. } => "ConfigInvalid",
            Self::Broken { .. } => "ConfigBroken",
        }
    }
}

struct Counted(usize);

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => f.write_str("one error"),
            many => write!(f, "{many} errors"),
        }
    }
}
