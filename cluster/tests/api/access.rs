//! Where credentials are found.

use std::path::{Path, PathBuf};

use gpulet_cluster::api::{Access, Api, Limits, ServiceAccount};
use serde_json::json;
use tempfile::TempDir;

use crate::server::{Answer, Server, kubeconfig, limits, nowhere, only, within};

fn put(root: &TempDir, path: &str, text: &str) {
    let path = root.path().join(path.trim_start_matches('/'));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn below(root: &TempDir) -> Access {
    nowhere(root.path().to_path_buf())
}

async fn refused(access: Access) -> String {
    let error = Api::connect(access, "node-a", Limits::default()).await.unwrap_err();
    format!("{}: {error}", error.reason())
}

#[tokio::test]
async fn all_places_are_named_when_there_is_nothing() {
    let root = tempfile::tempdir().unwrap();
    let text = refused(below(&root)).await;
    assert!(text.starts_with("NoAccess: "), "{text}");
    let shown = root.path().display();
    for place in [
        "the service account in /nonexistent (not in a Pod",
        &format!("{shown}/etc/kubernetes/kubelet.conf (not there)"),
        &format!("{shown}/var/lib/kubelet/kubeconfig"),
        &format!("{shown}/var/lib/rancher/k3s/agent/kubelet.kubeconfig"),
        &format!("{shown}/var/lib/rancher/rke2/agent/kubelet.kubeconfig"),
        &format!("{shown}/var/snap/microk8s/current/credentials/kubelet.config"),
        "kubernetes.kubeconfig",
    ] {
        assert!(text.contains(place), "{place} is not in: {text}");
    }
}

#[tokio::test]
async fn a_given_kubeconfig_is_used_or_wrong() {
    let root = tempfile::tempdir().unwrap();
    put(&root, "/etc/kubernetes/kubelet.conf", &kubeconfig("http://127.0.0.1:1", json!({})));
    let given = |path: &str| Access { kubeconfig: Some(PathBuf::from(path)), ..below(&root) };
    let text = refused(given("/nonexistent/kubeconfig")).await;
    assert!(text.starts_with("Credentials: ") && text.contains("/nonexistent/kubeconfig"), "{text}");
    put(&root, "broken", "clusters: [");
    let text = refused(only(root.path().join("broken"))).await;
    assert!(text.starts_with("Credentials: "), "{text}");
    put(
        &root,
        "proxied",
        &kubeconfig("http://127.0.0.1:1", json!({}))
            .replace("\"cluster\":{", "\"cluster\":{\"proxy-url\":\"http://p\","),
    );
    let text = refused(only(root.path().join("proxied"))).await;
    assert!(text.contains("proxies are not supported"), "{text}");
}

#[tokio::test]
async fn the_kubelets_token_is_found_below_the_root_and_read_again() {
    let server = Server::start(|asked, _| match asked.token.as_str() {
        "second" => Answer::Json(
            404,
            json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": "none",
            "details": {"name": "node-a"}}),
        ),
        _ => Answer::Json(401, json!({"kind": "Status", "code": 401, "message": "Unauthorized"})),
    })
    .await;
    let root = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(server.kubeconfig(json!({"tokenFile": "pki/current"}))).unwrap();
    put(&root, "/var/lib/rancher/k3s/agent/kubelet.kubeconfig", &text);
    put(&root, "/var/lib/rancher/k3s/agent/pki/1", "first\n");
    put(&root, "/var/lib/rancher/k3s/agent/pki/2", "second\n");
    let current = root.path().join("var/lib/rancher/k3s/agent/pki/current");
    // Absolute, as the kubelet's own link is: below the root.
    std::os::unix::fs::symlink("/var/lib/rancher/k3s/agent/pki/1", &current).unwrap();
    let api = Api::connect(below(&root), "node-a", limits()).await.unwrap();
    assert!(api.place().ends_with("/var/lib/rancher/k3s/agent/kubelet.kubeconfig"));
    std::fs::remove_file(&current).unwrap();
    std::os::unix::fs::symlink("/var/lib/rancher/k3s/agent/pki/2", &current).unwrap();
    assert_eq!(within(api.get_nrt()).await.unwrap_err().reason(), "NotFound");
    let tokens: Vec<String> = server.asked().into_iter().map(|asked| asked.token).collect();
    assert_eq!(tokens, ["first", "second"]);
}

#[tokio::test]
async fn the_kubelets_own_word_comes_first() {
    let root = tempfile::tempdir().unwrap();
    for path in ["/etc/kubernetes/kubelet.conf", "/opt/kubelet.conf"] {
        put(&root, path, &kubeconfig("http://127.0.0.1:1", json!({"token": "t"})));
    }
    let access = Access { kubelet_kubeconfig: Some(PathBuf::from("/opt/kubelet.conf")), ..below(&root) };
    let api = Api::connect(access, "node-a", limits()).await.unwrap();
    assert_eq!(&*api.place(), root.path().join("opt/kubelet.conf").to_str().unwrap());
}

#[tokio::test]
async fn what_only_the_node_can_run_is_not_run_from_a_container() {
    let root = tempfile::tempdir().unwrap();
    let exec = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "aws"}});
    put(&root, "/var/lib/kubelet/kubeconfig", &kubeconfig("http://127.0.0.1:1", exec));
    let text = refused(below(&root)).await;
    assert!(text.contains("its credentials come from `aws`, which runs on the node only"), "{text}");
}

#[tokio::test]
async fn a_service_account_without_its_files_says_which() {
    let root = tempfile::tempdir().unwrap();
    let account = |directory: &Path| ServiceAccount {
        host: Some("::1".into()),
        port: Some("443".into()),
        directory: directory.to_path_buf(),
    };
    let text = refused(Access { service_account: account(root.path()), ..below(&root) }).await;
    assert!(text.contains("/token: No such file"), "{text}");
    put(&root, "token", "t");
    put(&root, "ca.crt", "-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n");
    let text = refused(Access { service_account: account(root.path()), ..below(&root) }).await;
    assert!(text.contains("/ca.crt: "), "{text}");
}
