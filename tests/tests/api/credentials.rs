//! Credentials that end, and that are not enough.

use gpulet_cluster::api::{Access, Api};
use gpulet_tests::Bound;

use crate::support::{Mounted, as_agent, cluster, eventually, limits, until};

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
