//! Where the API server is and who we are to it.
//!
//! The credentials are a kubeconfig that was given, else those of the Pod that we run in, else the kubelet's own on this
//! node. Files are read anew each time that a connection is made, for they are replaced while we run.

use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kube::Config;
use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::error::{ApiError, Tried};
use super::files::NodeFiles;

/// Where kubelets keep their kubeconfig.
const KUBELET_KUBECONFIGS: [&str; 8] = [
    // kubeadm, kind.
    "/etc/kubernetes/kubelet.conf",
    // EKS, AKS, GKE, OpenShift.
    "/var/lib/kubelet/kubeconfig",
    "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
    "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
    "/var/snap/microk8s/current/credentials/kubelet.config",
    "/var/lib/k0s/kubelet.conf",
    // Bottlerocket.
    "/etc/kubernetes/kubelet/kubeconfig",
    // Talos.
    "/etc/kubernetes/kubeconfig-kubelet",
];

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Where credentials may be.
#[derive(Debug, Clone)]
pub struct Access {
    /// A kubeconfig that is to be used and nothing else.
    pub kubeconfig: Option<PathBuf>,
    /// The Pod's service account.
    pub service_account: ServiceAccount,
    /// The node's root directory, as this program sees it.
    pub host_root: PathBuf,
    /// The kubeconfig on the kubelet's command line, a path on the node, where that is known. It is tried before the
    /// usual places.
    pub kubelet_kubeconfig: Option<PathBuf>,
}

/// What a Pod is given to reach the API server.
#[derive(Debug, Clone)]
pub struct ServiceAccount {
    /// The API server's address (`KUBERNETES_SERVICE_HOST`).
    pub host: Option<String>,
    /// Its port (`KUBERNETES_SERVICE_PORT`).
    pub port: Option<String>,
    /// The directory of `token` and `ca.crt`.
    pub directory: PathBuf,
}

impl ServiceAccount {
    /// That of the Pod that this process runs in.
    pub fn of_this_process() -> Self {
        Self {
            host: std::env::var("KUBERNETES_SERVICE_HOST").ok(),
            port: std::env::var("KUBERNETES_SERVICE_PORT").ok(),
            directory: PathBuf::from("/var/run/secrets/kubernetes.io/serviceaccount"),
        }
    }
}

/// Credentials, ready to be used.
#[derive(Debug)]
pub(crate) struct Found {
    /// Where they are from, for messages.
    pub(crate) place: String,
    pub(crate) config: Config,
}

impl Access {
    /// The usual places, or only the kubeconfig that is given.
    pub fn new(kubeconfig: Option<PathBuf>, host_root: PathBuf) -> Self {
        let service_account = ServiceAccount::of_this_process();
        Self { kubeconfig, service_account, host_root, kubelet_kubeconfig: None }
    }

    /// The first credentials that can be used.
    pub(crate) async fn find(&self) -> Result<Found, ApiError> {
        if let Some(path) = &self.kubeconfig {
            let place = path.display().to_string();
            return match given(path).await {
                Ok(config) => Ok(Found { place, config }),
                Err(source) => Err(ApiError::Credentials { place, source }),
            };
        }
        let mut tried = Vec::new();
        let directory = &self.service_account.directory;
        let place = format!("the service account in {}", directory.display());
        match in_cluster(&self.service_account) {
            Ok(config) => return Ok(Found { place, config }),
            Err(why) => tried.push(Tried { place, why: why.to_string() }),
        }
        let files = NodeFiles::new(&self.host_root);
        let usual = KUBELET_KUBECONFIGS.iter().map(Path::new);
        for path in self.kubelet_kubeconfig.as_deref().into_iter().chain(usual) {
            let place = files.shown(path);
            match kubelets(&files, path).await {
                Ok(config) => return Ok(Found { place, config }),
                Err(why) => tried.push(Tried { place, why: why.to_string() }),
            }
        }
        Err(ApiError::NoAccess { tried })
    }
}

async fn given(path: &Path) -> Result<Config, Source> {
    configuration(Kubeconfig::read_from(path)?).await
}

fn in_cluster(account: &ServiceAccount) -> Result<Config, Source> {
    let (Some(host), Some(port)) = (&account.host, &account.port) else {
        return Err("not in a Pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set".into());
    };
    // An IPv6 address stands in brackets.
    let authority = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let mut config = Config::new(format!("https://{authority}").parse()?);
    let token = account.directory.join("token");
    std::fs::metadata(&token).map_err(|error| format!("{}: {error}", token.display()))?;
    let authorities = account.directory.join("ca.crt");
    let pem = std::fs::read(&authorities).map_err(|error| format!("{}: {error}", authorities.display()))?;
    let certificates = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| format!("{}: {error}", authorities.display()))?;
    config.root_cert = Some(certificates.into_iter().map(|certificate| certificate.to_vec()).collect());
    // The two are read again each minute.
    config.root_cert_file = Some(authorities);
    config.auth_info.token_file = Some(token.to_string_lossy().into_owned());
    Ok(config)
}

/// The kubelet's kubeconfig, with the files that it names put into it: their paths are the node's.
async fn kubelets(files: &NodeFiles, path: &Path) -> Result<Config, Source> {
    let text = String::from_utf8(files.read(path).map_err(said)?)?;
    let mut kubeconfig = Kubeconfig::from_yaml(&text)?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    for cluster in kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
        take_in_authority(files, directory, cluster)?;
    }
    for user in kubeconfig.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
        take_in_identity(files, directory, user)?;
    }
    configuration(kubeconfig).await
}

fn take_in_authority(files: &NodeFiles, directory: &Path, cluster: &mut Cluster) -> Result<(), Source> {
    if let Some(path) = cluster.certificate_authority.take() {
        cluster.certificate_authority_data = Some(BASE64.encode(named(files, directory, &path)?));
    }
    Ok(())
}

fn take_in_identity(files: &NodeFiles, directory: &Path, user: &mut AuthInfo) -> Result<(), Source> {
    if let Some(exec) = &user.exec
        && !files.are_ours()
    {
        let program = exec.command.as_deref().unwrap_or("a program");
        return Err(format!("its credentials come from `{program}`, which runs on the node only").into());
    }
    if let Some(path) = user.client_certificate.take() {
        user.client_certificate_data = Some(BASE64.encode(named(files, directory, &path)?));
    }
    if let Some(path) = user.client_key.take() {
        user.client_key_data = Some(BASE64.encode(named(files, directory, &path)?).into());
    }
    if let Some(path) = user.token_file.take() {
        let token = String::from_utf8(named(files, directory, &path)?)?;
        user.token = Some(token.trim().to_owned().into());
    }
    Ok(())
}

fn named(files: &NodeFiles, directory: &Path, path: &str) -> Result<Vec<u8>, Source> {
    let path = directory.join(path);
    files.read(&path).map_err(|error| format!("{}: {}", files.shown(&path), said(error)).into())
}

/// What is wrong with a file; short where it is just not there, which is so in most places.
fn said(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "not there".to_owned(),
        _ => error.to_string(),
    }
}

/// The cluster of the current context.
fn used(kubeconfig: &Kubeconfig) -> Option<&Cluster> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|named| named.name == *current)?.context.as_ref()?;
    kubeconfig.clusters.iter().find(|named| named.name == context.cluster)?.cluster.as_ref()
}

async fn configuration(kubeconfig: Kubeconfig) -> Result<Config, Source> {
    let proxy = used(&kubeconfig).and_then(|cluster| cluster.proxy_url.as_ref());
    if let Some(proxy) = proxy.filter(|proxy| !proxy.is_empty()) {
        return Err(format!("it names the proxy {proxy}; proxies are not supported").into());
    }
    Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_proxy_is_refused_where_it_would_be_used() {
        let of = async |current: &str| {
            let text = format!(
                "clusters:\n\
                 - {{name: here, cluster: {{server: 'https://10.0.0.1:6443'}}}}\n\
                 - {{name: far, cluster: {{server: 'https://10.0.0.2:6443', proxy-url: 'http://proxy:3128'}}}}\n\
                 contexts:\n\
                 - {{name: here, context: {{cluster: here, user: me}}}}\n\
                 - {{name: far, context: {{cluster: far, user: me}}}}\n\
                 users: [{{name: me, user: {{token: t}}}}]\n\
                 current-context: {current}\n"
            );
            configuration(Kubeconfig::from_yaml(&text).unwrap()).await
        };
        assert_eq!(of("here").await.unwrap().cluster_url.host(), Some("10.0.0.1"));
        let refusal = of("far").await.unwrap_err().to_string();
        assert!(refusal.contains("http://proxy:3128"), "{refusal}");
    }
}
