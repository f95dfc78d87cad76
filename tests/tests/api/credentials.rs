//! Credentials that end, and that are not enough.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpulet_cluster::api::{Access, Api, ApiError, Limits};
use gpulet_tests::{Bound, ControlPlane};
use serde_json::{Value, json};

use crate::support::{Mounted, as_agent, cluster, eventually, limits, until};

/// A kubeconfig of someone on this server.
fn kubeconfig(plane: &ControlPlane, directory: &Path, server: &str, user: &Value) -> PathBuf {
    let path = directory.join("kubeconfig");
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": server, "certificate-authority": plane.ca()}}],
        "users": [{"name": "it", "user": user}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    });
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    path
}

async fn not_found(api: &Api) {
    eventually("not found", async || match api.get_nrt().await {
        Err(ApiError::NotFound { .. }) => Ok(()),
        other => Err(other),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs etcd and kube-apiserver"]
async fn a_token_that_ends_is_read_again() {
    let plane = cluster(&[]);
    plane.create_pod("gpulet", "first", "a", "gpulet");
    let mounted = Mounted::new(&plane, &plane.token("gpulet", "gpulet", Bound::Pod("gpulet", "first")));
    let api = Api::connect(mounted.access(), "a", limits()).await.unwrap();
    let mut pods = api.pods();
    until(&mut pods, "Pods", |seen| (seen.value.as_deref()?.len() == 1).then_some(())).await;
    eventually("not found", async || match api.get_nrt().await {
        Err(error) if error.reason() == "NotFound" => Ok(()),
        other => Err(other),
    })
    .await;
    // A token ends with what it is bound to, as it does with its time.
    plane.delete_pod("gpulet", "first");
    eventually("the token is refused", async || match api.get_nrt().await {
        Err(error) if error.reason() == "Unauthorized" => Ok(()),
        other => Err(other),
    })
    .await;
    plane.create_pod("gpulet", "second", "a", "gpulet");
    mounted.replace(&plane.token("gpulet", "gpulet", Bound::Pod("gpulet", "second")));
    assert_eq!(api.get_nrt().await.unwrap_err().reason(), "NotFound", "at once, not after a minute");
    until(&mut pods, "the new Pod", |seen| (seen.value.as_deref()?.first()?.name == "second").then_some(()))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs etcd and kube-apiserver"]
async fn what_is_not_granted_is_named() {
    let plane = cluster(&[]);
    plane.service_account("default", "nobody");
    let kubeconfig = plane.account("default", "nobody", Bound::Node("a")).kubeconfig;
    let access = Access { kubeconfig: Some(kubeconfig), ..Mounted::new(&plane, "").access() };
    let api = Api::connect(access, "a", limits()).await.unwrap();
    let mut node = api.node();
    let trouble = until(&mut node, "trouble", |seen| seen.trouble.clone()).await;
    assert_eq!(trouble.reason(), "Forbidden");
    let text = trouble.to_string();
    assert!(text.contains("system:serviceaccount:default:nobody") && text.contains("\"nodes\""), "{text}");
    // An agent of another node may read, and write nothing.
    let (_, mounted) = as_agent(&plane).await;
    let other = Api::connect(mounted.access(), "b", limits()).await.unwrap();
    let write = async || other.apply_nrt(&crate::support::body(4), None, false).await;
    let refused = eventually("the policy holds", async || match write().await {
        Err(error) if error.reason() == "Forbidden" && error.to_string().contains("node a") => {
            Ok(error.to_string())
        }
        other => Err(other),
    })
    .await;
    assert!(refused.contains("writes only the NodeResourceTopology of that name"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs etcd and kube-apiserver"]
async fn a_server_that_is_not_the_one_is_not_spoken_to() {
    let plane = cluster(&[]);
    let mounted = Mounted::new(&plane, &plane.token("gpulet", "gpulet", Bound::Node("a")));
    let other = rcgen::generate_simple_self_signed(vec!["another".to_owned()]).unwrap();
    std::fs::write(mounted.directory.path().join("ca.crt"), other.cert.pem()).unwrap();
    let api = Api::connect(mounted.access(), "a", limits()).await.unwrap();
    let error = api.get_nrt().await.unwrap_err();
    assert_eq!(error.reason(), "Unreachable");
    assert!(error.to_string().contains("certificate"), "{error}");
    assert!(plane.requests().iter().all(|request| request.user != crate::support::AGENT));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs etcd and kube-apiserver"]
async fn a_program_that_hangs_is_run_once() {
    let plane = cluster(&[]);
    plane.create_pod("gpulet", "first", "a", "gpulet");
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let give = |token: String| {
        let expires = "2000-01-01T00:00:00Z";
        let status = json!({"token": token, "expirationTimestamp": expires});
        let credential = json!({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
            "status": status});
        std::fs::write(file("new"), credential.to_string()).unwrap();
        std::fs::rename(file("new"), file("credential")).unwrap();
    };
    let program = file("program");
    let at = directory.path().display();
    let script = format!(
        "#!/bin/sh\necho run >>{at}/runs\nuntil [ -e {at}/credential ]; do [ -e {at} ] || exit 1; sleep 0.1; done\ncat {at}/credential\n"
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o700)).unwrap();
    give(plane.token("gpulet", "gpulet", Bound::Pod("gpulet", "first")));
    let exec = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": program,
        "interactiveMode": "Never"}});
    let access = Access {
        kubeconfig: Some(kubeconfig(&plane, directory.path(), &plane.url(), &exec)),
        ..Mounted::new(&plane, "").access()
    };
    let limits = Limits { call: Duration::from_secs(2), ..limits() };
    let api = Api::connect(access, "a", limits).await.unwrap();
    not_found(&api).await;
    let runs = || std::fs::read_to_string(file("runs")).unwrap().lines().count();
    let before = runs();

    std::fs::remove_file(file("credential")).unwrap();
    plane.delete_pod("gpulet", "first");
    eventually("the program is waited for", async || match api.get_nrt().await {
        Err(ApiError::Credentials { .. }) => Ok(()),
        other => Err(other),
    })
    .await;
    for _ in 0..3 {
        let error = api.get_nrt().await.unwrap_err();
        assert!(error.to_string().contains("takes too long"), "{error}");
    }
    assert_eq!(runs(), before + 1, "each run that hangs takes a thread");
    plane.create_pod("gpulet", "second", "a", "gpulet");
    give(plane.token("gpulet", "gpulet", Bound::Pod("gpulet", "second")));
    not_found(&api).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs etcd and kube-apiserver"]
async fn a_server_that_has_moved_is_found() {
    let plane = cluster(&[]);
    let user = json!({"token": plane.token("gpulet", "gpulet", Bound::Node("a"))});
    let directory = tempfile::tempdir().unwrap();
    // Nobody listens there.
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let path = kubeconfig(&plane, directory.path(), &format!("https://{nowhere}"), &user);
    let access = Access { kubeconfig: Some(path.clone()), ..Mounted::new(&plane, "").access() };
    let limits = Limits { look_again: Duration::from_millis(500), ..limits() };
    let api = Api::connect(access, "a", limits).await.unwrap();
    let mut node = api.node();
    let trouble = until(&mut node, "trouble", |seen| seen.trouble.clone()).await;
    assert_eq!(trouble.reason(), "Unreachable");
    // Half of a file is no reason to say something else.
    std::fs::write(&path, "apiVersion: v1\nclusters: [{").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(api.get_nrt().await.unwrap_err().reason(), "Unreachable");
    kubeconfig(&plane, directory.path(), &plane.url(), &user);
    until(&mut node, "the Node", |seen| seen.value.as_deref()?.as_ref().map(drop)).await;
    not_found(&api).await;
}
