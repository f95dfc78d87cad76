//! What is wanted of this node's GPUs: a partition file, or layouts made from what they report, and a name in it.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use gpulet_inventory::yaml;
use gpulet_partition::file::{self, PartitionFile};
use gpulet_partition::layouts;
use gpulet_partition::overrides::Overrides;
use gpulet_partition::resolve::{self, Desired};

use super::Looked;
use crate::text_file::TextReader;

/// The partition file that is read unless another is named. It may be absent.
pub(crate) const USUAL_FILE: &str = "/etc/gpulet/partition.yaml";

/// The largest file that is read, bytes. What a ConfigMap can hold is as much.
const LARGEST: u64 = 1 << 20;

/// Where layouts come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// This file, which must exist.
    File(PathBuf),
    /// The usual file, if it exists; otherwise what the GPUs report.
    Usual,
    /// Standard input.
    Input,
}

/// What was read, before anything is known of GPUs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Layouts {
    /// What they are called: the file, or that they are generated.
    pub(crate) from: String,
    /// The file; absent: they are made from what the GPUs report.
    file: Option<PartitionFile>,
}

/// Why it is not known what is wanted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WantedError {
    /// The file cannot be read.
    #[error("cannot read the partition file {path}")]
    Unreadable {
        /// Which.
        path: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file holds mistakes: all of them, each with its line.
    #[error("the partition file {path} has {}:\n{}", counted(problems.count()), problems.listed(path))]
    Invalid {
        /// Which.
        path: String,
        /// What is wrong.
        problems: yaml::Problems,
    },
    /// No layout is named, and it is not clear which is meant.
    #[error("name a layout with --mig-config; there are ({from}): {known}")]
    NotNamed {
        /// Where the layouts are.
        from: String,
        /// Those that there are.
        known: String,
    },
    /// It cannot be had on this node, or what is asked is wrong.
    #[error("{}{}", head(from, name), Listed(problems))]
    Unresolved {
        /// Where the layout is.
        from: String,
        /// Its name.
        name: String,
        /// What is in the way.
        problems: resolve::Problems,
    },
}

impl WantedError {
    /// The stable word for this error.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "PartitionFileUnreadable",
            Self::Invalid { .. } => "PartitionFileInvalid",
            Self::NotNamed { .. } => "LayoutNotNamed",
            Self::Unresolved { problems, .. } => problems.reason(),
        }
    }

    /// Whether what is asked is clear, and this hardware or driver does not have it; else what is asked is wrong.
    pub(crate) fn is_infeasible(&self) -> bool {
        matches!(self, Self::Unresolved { problems, .. } if problems.is_infeasible())
    }
}

impl Origin {
    /// `-` is standard input, a path that file, and nothing what the configuration says or the usual.
    pub(crate) fn of(flag: Option<&Path>, configured: Option<&Path>) -> Self {
        match flag.or(configured) {
            Some(path) if flag.is_some() && path == Path::new("-") => Self::Input,
            Some(path) => Self::File(path.to_owned()),
            None => Self::Usual,
        }
    }

    /// Reads the layouts. Takes no longer than some seconds, but for standard input.
    ///
    /// # Errors
    /// If the file cannot be read, or with everything that is wrong with it.
    pub(crate) fn read(&self, reader: &TextReader) -> Result<Layouts, WantedError> {
        let (from, text) = match self {
            Self::Input => ("-".to_owned(), input().map(Some)),
            Self::File(path) => (path.display().to_string(), reader.read(path, LARGEST).map(Some)),
            Self::Usual => (USUAL_FILE.to_owned(), usual(reader)),
        };
        let unreadable = |source| WantedError::Unreadable { path: from.clone(), source };
        let Some(text) = text.map_err(unreadable)? else { return Ok(Layouts::generated()) };
        let file =
            file::parse(&text).map_err(|problems| WantedError::Invalid { path: from.clone(), problems })?;
        Ok(Layouts { from, file: Some(file) })
    }
}

impl Layouts {
    /// Those that are made from what the GPUs report.
    pub(crate) fn generated() -> Self {
        Self { from: "generated".to_owned(), file: None }
    }

    /// What the layout `name` means on these GPUs. Without a name it is the only one that there is.
    ///
    /// # Errors
    /// Everything that is in its way.
    pub(crate) fn resolve(
        &self,
        name: Option<&str>,
        looked: &Looked,
        overrides: &Overrides,
    ) -> Result<Desired, WantedError> {
        let facts = looked.facts();
        let generated;
        let file = match &self.file {
            Some(file) => file,
            None => {
                generated = layouts::generated(&facts);
                &generated
            }
        };
        let name = match (name, file.layouts.keys().collect::<Vec<_>>().as_slice()) {
            (Some(name), _) => name,
            (None, [only]) => only.as_str(),
            (None, several) => {
                let known: Vec<&str> = several.iter().take(40).map(|name| name.as_str()).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                return Err(WantedError::NotNamed { from: self.from.clone(), known });
            }
        };
        let others = !looked.unread.is_empty();
        resolve::resolve_answering(file, name, &facts, others, overrides).map_err(|problems| {
            WantedError::Unresolved { from: self.from.clone(), name: name.to_owned(), problems }
        })
    }
}

/// The usual file; absent if there is none.
fn usual(reader: &TextReader) -> io::Result<Option<String>> {
    match reader.read(Path::new(USUAL_FILE), LARGEST) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

fn input() -> io::Result<String> {
    let mut bytes = Vec::new();
    io::stdin().lock().take(LARGEST + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > LARGEST) {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is larger than {LARGEST} bytes"),
        ));
    }
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn counted(count: usize) -> String {
    if count == 1 { "one error".to_owned() } else { format!("{count} errors") }
}

fn head(from: &str, name: &str) -> String {
    let shown: String = name.chars().take(64).collect();
    format!("the layout `{shown}` ({from}) cannot be had on this node")
}

/// One in the line of the head, several in a line each.
struct Listed<'a>(&'a resolve::Problems);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.0.as_slice() {
            [one] => write!(f, ": {one}"),
            several => several.iter().try_for_each(|problem| write!(f, "\n  {problem}")),
        }
    }
}
