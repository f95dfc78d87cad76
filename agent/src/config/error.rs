//! What can be wrong with the configuration.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// One thing that is wrong with the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Its line, from 1; 0 where it has none.
    pub(crate) line: u64,
    /// What is wrong and what was expected.
    pub(crate) message: String,
}

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
    #[error("the configuration file {} has {}:\n{}", path.display(), Counted(.problems.len()), Listed(path, problems))]
    Invalid {
        /// Which.
        path: PathBuf,
        /// What is wrong, in the order of the file.
        problems: Vec<Problem>,
    },
}

impl ConfigError {
    /// The stable word for this error.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "ConfigUnreadable",
            Self::Invalid { .. } => "ConfigInvalid",
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

struct Listed<'a>(&'a PathBuf, &'a [Problem]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for problem in self.1 {
            write!(f, "{separator}  {}:{}: {}", self.0.display(), problem.line, problem.message)?;
            separator = "\n";
        }
        Ok(())
    }
}
