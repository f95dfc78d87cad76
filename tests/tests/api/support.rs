//! A control plane as gpulet finds it, and gpulet's way to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpulet_cluster::api::{Access, Api, Limits, Pace, Seen, ServiceAccount, Watch};
use gpulet_tests::{Bound, ControlPlane, Request, wait_until};
use gpulet_topology::nrt::object::{Body, Resource, Zone};
use serde_json::json;
use tempfile::TempDir;

/// A test that waits longer than this fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where NodeResourceTopology objects are.
pub(crate) const TOPOLOGIES: &str = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies";
/// The account that the manifests make.
pub(crate) const AGENT: &str = "system:serviceaccount:gpulet:gpulet";

/// A control plane with everything that is shipped but what `without` names, and two nodes.
pub(crate) fn cluster(without: &[&str]) -> ControlPlane {
    let plane = ControlPlane::start();
    for manifests in ["daemonset/crd", "daemonset", "systemd/kubernetes.yaml"] {
        if !without.contains(&manifests) {
            plane.apply(&shipped(manifests));
        }
    }
    for node in ["a", "b"] {
        plane.create_node(node);
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Up"}]}});
        plane.admin().merge(&format!("/api/v1/nodes/{node}/status"), &ready).ok();
    }
    if !without.contains(&"daemonset/crd") {
        // While a kind is new, whoever lists it is asked to wait.
        let list = format!("{TOPOLOGIES}?resourceVersion=0");
        wait_until("the kind is served", || plane.admin().get(&list).is_ok().then_some(()));
    }
    plane
}

pub(crate) fn shipped(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// What the kubelet puts into a Pod of gpulet's.
pub(crate) struct Mounted {
    pub(crate) directory: TempDir,
    port: u16,
}

impl Mounted {
    pub(crate) fn new(plane: &ControlPlane, token: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::copy(plane.ca(), directory.path().join("ca.crt")).unwrap();
        let mounted = Self { directory, port: plane.port() };
        mounted.replace(token);
        mounted
    }

    /// The kubelet replaces it before it expires.
    pub(crate) fn replace(&self, token: &str) {
        std::fs::write(self.directory.path().join("token"), token).unwrap();
    }

    pub(crate) fn access(&self) -> Access {
        let service_account = ServiceAccount {
            host: Some("127.0.0.1".into()),
            port: Some(self.port.to_string()),
            directory: self.directory.path().to_path_buf(),
        };
        Access {
            kubeconfig: None,
            service_account,
            host_root: "/nonexistent".into(),
            kubelet_kubeconfig: None,
        }
    }
}

/// The API of node `a` in the name of gpulet's Pod there, by a token that is bound to the node.
pub(crate) async fn as_agent(plane: &ControlPlane) -> (Api, Mounted) {
    let mounted = Mounted::new(plane, &plane.token("gpulet", "gpulet", Bound::Node("a")));
    let api = Api::connect(mounted.access(), "a", limits()).await.unwrap();
    (api, mounted)
}

/// The API of node `a` with the kubelet's credentials, found where kubeadm puts them on a node whose root is a directory.
pub(crate) async fn as_kubelet(plane: &ControlPlane) -> (Api, TempDir) {
    let root = tempfile::tempdir().unwrap();
    let (pki, kubernetes) = (root.path().join("var/lib/kubelet/pki"), root.path().join("etc/kubernetes"));
    std::fs::create_dir_all(&pki).unwrap();
    std::fs::create_dir_all(&kubernetes).unwrap();
    let made = plane.kubelet_of("a").kubeconfig;
    let certificate = std::fs::read_to_string(made.with_extension("crt")).unwrap();
    let key = std::fs::read_to_string(made.with_extension("key")).unwrap();
    // As the kubelet has it: one file with both, behind a link.
    std::fs::write(pki.join("kubelet-client-1.pem"), format!("{certificate}{key}")).unwrap();
    let link = "/var/lib/kubelet/pki/kubelet-client-current.pem";
    std::os::unix::fs::symlink(
        "/var/lib/kubelet/pki/kubelet-client-1.pem",
        pki.join("kubelet-client-current.pem"),
    )
    .unwrap();
    std::fs::copy(plane.ca(), kubernetes.join("ca.crt")).unwrap();
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": plane.url(), "certificate-authority": "ca.crt"}}],
        "users": [{"name": "it", "user": {"client-certificate": link, "client-key": link}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    });
    std::fs::write(kubernetes.join("kubelet.conf"), kubeconfig.to_string()).unwrap();
    let service_account = ServiceAccount { host: None, port: None, directory: "/nonexistent".into() };
    let host_root = root.path().to_path_buf();
    let access = Access { kubeconfig: None, service_account, host_root, kubelet_kubeconfig: None };
    let api = Api::connect(access, "a", limits()).await.unwrap();
    assert!(api.place().ends_with("/etc/kubernetes/kubelet.conf"));
    (api, root)
}

/// The usual times, but for the waits after failures.
pub(crate) fn limits() -> Limits {
    let pace = Pace { first: Duration::from_millis(200), longest: Duration::from_secs(2) };
    Limits {
        retry: pace,
        absent: pace,
        renew: Duration::ZERO,
        answer: PATIENCE,
        call: PATIENCE,
        ..Limits::default()
    }
}

/// Waits until a watch shows what is wanted; gives that.
pub(crate) async fn until<V: Send + Sync + 'static, T>(
    watch: &mut Watch<V>,
    what: &str,
    mut wanted: impl FnMut(&Seen<V>) -> Option<T>,
) -> T {
    let mut seen = watch.seen();
    let wait = async {
        loop {
            if let Some(found) = wanted(&seen) {
                return found;
            }
            seen = watch.changed().await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{what}"))
}

/// Tries until it succeeds.
pub(crate) async fn eventually<T, E: std::fmt::Debug>(
    what: &str,
    attempt: impl AsyncFn() -> Result<T, E>,
) -> T {
    let end = std::time::Instant::now() + PATIENCE;
    loop {
        match attempt().await {
            Ok(value) => return value,
            Err(error) => assert!(std::time::Instant::now() < end, "{what}: {error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// An object with one zone that has so much memory.
pub(crate) fn body(memory: u64) -> Body {
    let resource = Resource {
        name: "memory".into(),
        capacity: 8.into(),
        allocatable: 8.into(),
        available: memory.into(),
    };
    let zone =
        Zone { name: "node-0".into(), kind: "Node".into(), resources: vec![resource], ..Zone::default() };
    Body { attributes: Vec::new(), zones: vec![zone] }
}

/// How often somebody asked for what, by verb and resource.
pub(crate) fn counts(requests: &[Request], user: &str) -> BTreeMap<(String, String), usize> {
    let mut counts = BTreeMap::new();
    for request in requests.iter().filter(|request| request.user == user) {
        *counts.entry((request.verb.clone(), request.resource.clone())).or_default() += 1;
    }
    counts
}
