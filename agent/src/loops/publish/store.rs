//! Where the object is kept: the API server, or a file.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpulet_cluster::api::{Api, ApiError};
use gpulet_host::Root;
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
    /// The root of the node's file system.
    pub(super) root: Root,
    /// Its path as the node names it.
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
        let place = self.directory().and_then(|directory| self.place(&directory));
        Ok(place.ok().and_then(|place| nrt::from_yaml(&self.text(&place)?)))
    }

    /// Replaces it as a whole. What it says already is not written again.
    fn write(&self, body: &Body) -> Result<(), Refusal> {
        let write = || {
            let text = nrt::yaml(&self.name, body).map_err(io::Error::other)?;
            let place = self.place(&self.root.made_directory(self.parent())?)?;
            if self.text(&place).is_some_and(|there| there == text) {
                return Ok(());
            }
            file::replace_itself(&place, |file| file.write_all(text.as_bytes()))
        };
        write().map_err(|error: io::Error| self.failed(&error))
    }

    /// The directory that it is in. Links on the way are followed as on the node: none leads out of its root.
    fn directory(&self) -> io::Result<PathBuf> {
        self.root.real(self.parent())
    }

    fn parent(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    /// Where it is, or is to be. A link in its place is replaced; whatever else is there is left to whoever has put it there.
    fn place(&self, directory: &Path) -> io::Result<PathBuf> {
        let place = directory.join(self.path.file_name().ok_or(io::ErrorKind::InvalidFilename)?);
        match fs::symlink_metadata(&place) {
            Ok(there) if !there.is_file() && !there.is_symlink() => {
                Err(io::Error::other("what is in its place is not a plain file, and has to be removed first"))
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(place),
        }
    }

    /// What it says. What a link leads to is not its text.
    fn text(&self, place: &Path) -> Option<String> {
        let is_file = fs::symlink_metadata(place).is_ok_and(|there| there.is_file());
        is_file.then(|| self.reader.read(place, LARGEST).ok()).flatten()
    }

    /// Takes it away, if it is one of ours.
    pub(super) fn remove(&self) {
        let path = self.path.display();
        let Ok(place) = self.directory().and_then(|directory| self.place(&directory)) else { return };
        if self.text(&place).and_then(|text| nrt::from_yaml(&text)).is_none() {
            return;
        }
        match fs::remove_file(&place) {
            Ok(()) => tracing::info!(%path, "the object is at the API server now; its file was removed"),
            Err(error) => {
                tracing::warn!(%path, %error, "the object is at the API server now; its file is old and cannot be removed")
            }
        }
    }

    fn failed(&self, error: &io::Error) -> Refusal {
        Refusal {
            failure: Failure::Other,
            reason: "Unwritable",
            message: format!(
                "the file {} below {} cannot be written: {error}; see to its directory",
                self.path.display(),
                self.root.path().display()
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn object(root: &Path, path: &str) -> ObjectFile {
        ObjectFile {
            name: "a".to_owned(),
            root: Root::new(root),
            path: path.into(),
            reader: TextReader::default(),
        }
    }

    fn written(object: &ObjectFile) -> Result<bool, Refusal> {
        object.write(&Body::default())?;
        Ok(object.read()?.is_some())
    }

    #[test]
    fn directories_that_are_missing_are_made() {
        let root = tempfile::tempdir().unwrap();
        let object = object(root.path(), "/run/gpulet/object.yaml");
        assert!(object.read().unwrap().is_none());
        assert!(written(&object).unwrap());
        assert!(root.path().join("run/gpulet/object.yaml").is_file());
        object.remove();
        assert!(!root.path().join("run/gpulet/object.yaml").exists());
    }

    #[test]
    fn what_is_no_plain_file_is_refused_and_not_waited_for() {
        let root = tempfile::tempdir().unwrap();
        nix::unistd::mkfifo(&root.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::create_dir(root.path().join("directory")).unwrap();
        for place in ["/pipe", "/directory"] {
            let object = object(root.path(), place);
            assert!(object.read().unwrap().is_none());
            let refusal = written(&object).unwrap_err();
            assert_eq!(refusal.reason, "Unwritable");
            assert!(refusal.message.contains(place) && refusal.message.contains("plain file"), "{refusal:?}");
        }
    }

    #[test]
    fn a_link_in_its_place_is_replaced_and_what_it_leads_to_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let (target, link) = (root.path().join("passwd"), root.path().join("object.yaml"));
        fs::write(&target, "secret").unwrap();
        symlink(&target, &link).unwrap();
        assert!(written(&object(root.path(), "/object.yaml")).unwrap());
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
        assert_eq!(fs::read_to_string(&target).unwrap(), "secret");
    }

    #[test]
    fn a_directory_that_is_a_link_leads_nowhere_outside_of_the_root() {
        let around = tempfile::tempdir().unwrap();
        let (root, outside) = (around.path().join("root"), around.path().join("outside"));
        fs::create_dir_all(root.join("var/run")).unwrap();
        fs::create_dir(&outside).unwrap();
        symlink("/var/run", root.join("run")).unwrap();
        assert!(written(&object(&root, "/run/object.yaml")).unwrap());
        assert!(root.join("var/run/object.yaml").is_file());
        // As the node has no such directory, it leads nowhere.
        symlink(&outside, root.join("out")).unwrap();
        symlink("../../../outside", root.join("up")).unwrap();
        for place in ["/out/object.yaml", "/up/object.yaml"] {
            assert_eq!(written(&object(&root, place)).unwrap_err().reason, "Unwritable", "{place}");
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    }
}
