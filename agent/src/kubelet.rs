//! The kubelet of this node: where it is, and asking it.

use std::path::PathBuf;
use std::time::Duration;

use gpulet_cluster::api::ServiceAccount;
use gpulet_cluster::kubelet::PodResources;
use gpulet_cluster::kubelet::configz::{Configz, Trust};
use gpulet_cluster::kubelet::pod_resources::{Answer, Limits, PodResourcesError};
use gpulet_cluster::kubelet::settings::{SettingsError, settings};
use gpulet_host::Root;
use gpulet_host::root::EscapesRoot;
use gpulet_inventory::kubelet::{KubeletFiles, KubeletSettings};

use crate::config::kubelet_address::KubeletAddress;
use crate::config::settings::Kubelet as Settings;

/// The kubelet of this node.
#[derive(Debug, Clone)]
pub(crate) struct Kubelet {
    /// Its root directory as this process sees it.
    pub(crate) directory: PathBuf,
    service: PodResources,
    address: KubeletAddress,
    root: Root,
}

/// What the kubelet's files tell.
#[derive(Debug)]
pub(crate) struct Found {
    /// The files, or why they were not found.
    pub(crate) files: Result<KubeletFiles, String>,
    memory_bytes: Option<u64>,
}

impl Kubelet {
    /// The kubelet of the node at `root`.
    ///
    /// # Errors
    /// When a path leads out of the host's root.
    pub(crate) fn new(root: &Root, settings: &Settings) -> Result<Self, EscapesRoot> {
        Ok(Self {
            directory: root.join(&settings.root)?,
            service: PodResources::new(root.join(settings.socket())?, Limits::default()),
            address: settings.address,
            root: root.clone(),
        })
    }

    /// Whether a kubelet is or was on this node: it has a socket, or left its state, which it keeps whatever its policies. Blocks.
    pub(crate) fn is_here(&self) -> bool {
        self.service.socket().exists() || self.directory.join("cpu_manager_state").exists()
    }

    /// Who has what. Takes no longer than some seconds.
    ///
    /// # Errors
    /// Whatever keeps the kubelet from answering.
    pub(crate) async fn read(&self) -> Result<Answer, PodResourcesError> {
        self.service.read().await
    }

    /// Looks for its process and files. Blocks.
    pub(crate) fn find(&self) -> Found {
        let files = gpulet_host::kubelet::find(&self.root);
        Found {
            files: files.map_err(|error| crate::report::chain(&error)),
            memory_bytes: gpulet_host::kubelet::memory_bytes(&self.root),
        }
    }

    /// Its settings: by its files, else by its own word where a service account allows to ask for it.
    ///
    /// # Errors
    /// When neither tells them.
    pub(crate) async fn settings(
        &self,
        found: &Found,
        node_name: Option<&str>,
    ) -> Result<KubeletSettings, SettingsError> {
        let configz = node_name.and_then(|name| self.configz(name));
        settings(found.files.as_ref().map_err(String::as_str), configz.as_ref(), found.memory_bytes).await
    }

    fn configz(&self, node_name: &str) -> Option<Configz> {
        let account = ServiceAccount::of_this_process().directory;
        let token_file = Some(account.join("token")).filter(|token| token.exists())?;
        let authorities = vec![account.join("ca.crt"), self.directory.join("pki/kubelet.crt")];
        Some(Configz {
            address: self.address.to_string(),
            token_file,
            trust: Trust::Verified { authorities, names: vec![node_name.to_owned()] },
            deadline: Duration::from_secs(10),
        })
    }
}

impl Found {
    /// The files and directories that its settings come from, as this process sees them.
    pub(crate) fn settings_files(&self, root: &Root) -> Vec<PathBuf> {
        let Ok(files) = &self.files else { return Vec::new() };
        let config = files.config.iter().map(|file| file.path.as_str());
        let named = config.chain(files.drop_in_directory.as_deref());
        named.filter_map(|path| root.join(path).ok()).collect()
    }

    /// The kubeconfig on its command line.
    pub(crate) fn kubeconfig(&self) -> Option<PathBuf> {
        self.files.as_ref().ok()?.kubeconfig.as_ref().map(PathBuf::from)
    }
}
