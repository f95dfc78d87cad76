//! Where the object is kept: the API server, or a file.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpulet_cluster::api::{Api, ApiError};
use gpulet_inventory::word::Word;
use gpulet_topology::nrt::object::Body;
use gpulet_topology::nrt::observed::Observed;
use gpulet_topology::nrt::publisher::Failure;
use tokio::task::spawn_blocking;

use crate::text_file::TextReader;
use crate::{file, nrt, report};

/// The largest object that is read, bytes: that of a node with 64 NUMA nodes is some hundred kilobytes.
const LARGEST: u64 = 4 << 20;

/// Where the object is kept.
#[derive(Debug, Clone)]
pub(super) enum Store {
    /// At the API server.
    Api(Api),
    /// In a file.
    File(Arc<ObjectFile>),
}

/// A file with the object of the node `name`.
#[derive(Debug)]
pub(super) struct ObjectFile {
    /// The node's name.
    pub(super) name: String,
    /// Its path as this process sees it.
    pub(super) path: PathBuf,
    /// Reads it.
    pub(super) reader: TextReader,
}

/// Why the object was not read or written.
#[derive(Debug)]
pub(super) struct Refusal {
    /// What that is to the publisher.
    pub(super) failure: Failure,
    /// The stable word.
    pub(super) reason: Word,
    /// What happened and what a person can do.
    pub(super) message: String,
}

impl Store {
    /// The object as it is.
    pub(super) async fn read(self) -> Result<Option<Observed>, Refusal> {
        match self {
            Self::Api(api) => match api.get_nrt().await {
                Ok(observed) => Ok(Some(observed)),
                Err(ApiError::NotFound { .. }) => Ok(None),
                Err(error) => Err(error.into()),
            },
            Self::File(object) => {
                spawn_blocking(move || object.read()).await.unwrap_or_else(|error| Err(broken(&error)))
            }
        }
    }

    /// Writes it, and gives its version then; a file has none.
    pub(super) async fn write(
        self,
        body: Arc<Body>,
        node_uid: Option<String>,
        force: bool,
    ) -> Result<String, Refusal> {
        match self {
            Self::Api(api) => Ok(api.apply_nrt(&body, node_uid.as_deref(), force).await?.resource_version),
            Self::File(object) => {
                let write = spawn_blocking(move || object.write(&body).map(|()| String::new()));
                write.await.unwrap_or_else(|error| Err(broken(&error)))
            }
        }
    }
}

impl ObjectFile {
    /// One that holds something else, or nothing, is as good as none: it is ours alone.
    fn read(&self) -> Result<Option<Observed>, Refusal> {
        Ok(self.reader.read(&self.path, LARGEST).ok().and_then(|text| nrt::from_yaml(&text)))
    }

    /// Replaces it as a whole. What it says already is not written again.
    fn write(&self, body: &Body) -> Result<(), Refusal> {
        let text =
            nrt::yaml(&self.name, body).map_err(io::Error::other).map_err(|error| self.failed(&error))?;
        if self.reader.read(&self.path, LARGEST).is_ok_and(|there| there == text) {
            return Ok(());
        }
        self.replace(&self.path, &text).map_err(|error| self.failed(&error))
    }

    /// Takes it away, if it is one of ours.
    pub(super) fn remove(&self) {
        if let Ok(Some(_)) = self.read() {
            match std::fs::remove_file(&self.path) {
                Ok(()) => {
                    tracing::info!(path = %self.path.display(), "the object is at the API server now; its file was removed")
                }
                Err(error) => {
                    tracing::warn!(path = %self.path.display(), %error, "the object is at the API server now; its file is old and cannot be removed")
                }
            }
        }
    }

    fn replace(&self, path: &Path, text: &str) -> io::Result<()> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        file::replace(path, |file| file.write_all(text.as_bytes()))
    }

    fn failed(&self, error: &io::Error) -> Refusal {
        Refusal {
            failure: Failure::Other,
            reason: "Unwritable",
            message: format!(
                "the file {} cannot be written: {error}; see to its directory",
                self.path.display()
            ),
        }
    }
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        let failure = match &error {
            ApiError::Conflict { .. } => Failure::Conflict,
            ApiError::Unauthorized { .. } | ApiError::NoAccess { .. } | ApiError::Credentials { .. } => {
                Failure::Unauthorized
            }
            ApiError::Forbidden { .. } => Failure::Forbidden,
            ApiError::NotInstalled { .. } => Failure::NotInstalled,
            ApiError::Throttled { retry_after, .. } => Failure::Throttled { retry_after: Some(*retry_after) },
            ApiError::Unreachable { .. } | ApiError::TimedOut { .. } => Failure::Unreachable,
            ApiError::Invalid { .. } | ApiError::Rejected { .. } => Failure::Invalid,
            _ => Failure::Other,
        };
        Self { failure, reason: error.reason(), message: report::chain(&error) }
    }
}

pub(super) fn broken(error: &tokio::task::JoinError) -> Refusal {
    let message = format!("writing the object broke off, which is a bug: {error}");
    Refusal { failure: Failure::Other, reason: "Broken", message }
}
