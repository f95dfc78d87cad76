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

/// How many of the things that are wrong are told; the rest is counted.
const TOLD: usize = 50;

/// Everything that is wrong with the file: the first of it in words, the rest as a number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Problems {
    /// The first in the order of the file.
    pub(crate) first: Vec<Problem>,
    /// How many there are besides.
    pub(crate) more: usize,
}

impl Problems {
    /// Adds one. Keeps little more than what is told, however many there are.
    pub(crate) fn add(&mut self, problem: Problem) {
        self.first.push(problem);
        if self.first.len() >= 2 * TOLD {
            self.settle();
        }
    }

    /// Puts them in the order of the file.
    pub(crate) fn settle(&mut self) {
        self.first.sort_by_key(|problem| problem.line);
        self.more += self.first.len().saturating_sub(TOLD);
        self.first.truncate(TOLD);
    }
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
    #[error("the configuration file {} has {}:\n{}", path.display(), Counted(.problems.first.len() + .problems.more), Listed(path, problems))]
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

struct Listed<'a>(&'a PathBuf, &'a Problems);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for problem in &self.1.first {
            write!(f, "{separator}  {}:{}: {}", self.0.display(), problem.line, problem.message)?;
            separator = "\n";
        }
        if self.1.more > 0 {
            write!(f, "\n  and {} more", self.1.more)?;
        }
        Ok(())
    }
}
