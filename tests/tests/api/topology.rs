//! The NodeResourceTopology object: written, contested, edited and deleted by others.

use gpulet_topology::nrt::object::Body;
use gpulet_topology::nrt::ownership::Publisher;
use serde_json::{Value, json};

use crate::support::{AGENT, TOPOLOGIES, as_agent, as_kubelet, body, cluster, counts, eventually, until};

const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/noderesourcetopologies.topology.node.k8s.io";

fn others(memory: &str) -> Value {
    json!({"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {"name": "a"},
        "zones": [{"name": "node-0", "type": "Node", "resources": [
            {"name": "memory", "capacity": "8", "allocatable": "8", "available": memory}]}]})
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs etcd and kube-apiserver"]
async fn is_written_contested_and_taken_over() {
    let plane = cluster(&[]);
    let uid = plane.admin().get("/api/v1/nodes/a").ok()["metadata"]["uid"].as_str().unwrap().to_owned();
    let (api, _mounted) = as_agent(&plane).await;
    let mut watch = api.nrt();
    until(&mut watch, "watched, and there is none", |seen| seen.value.as_deref()?.is_none().then_some(()))
        .await;
    let error = api.get_nrt().await.unwrap_err();
    assert_eq!(error.reason(), "NotFound", "{error}");

    let version = eventually("created", async || api.apply_nrt(&body(4), Some(&uid), false).await).await;
    let first = api.get_nrt().await.unwrap();
    assert_eq!((&version.uid, &version.resource_version), (&first.uid, &first.resource_version));
    assert!(first.ownership.is_ours());
    assert_eq!(first.ownership.contender(), None);
    assert_eq!(first.owner_references.iter().map(|owner| &owner.uid).collect::<Vec<_>>(), [&uid]);
    assert_eq!(first.labels["app.kubernetes.io/managed-by"], "gpulet");
    assert_eq!(first.body, body(4));
    until(&mut watch, "seen", |seen| (seen.value.as_deref()?.as_ref()? == &first).then_some(())).await;
    let same = api.apply_nrt(&body(4), Some(&uid), false).await.unwrap();
    assert_eq!(same.resource_version, first.resource_version, "what is equal does not change it");

    // Another publisher comes, by force as it does.
    let manager = "node-feature-discovery-topology-updater";
    plane.admin().apply(&format!("{TOPOLOGIES}/a?fieldManager={manager}&force=true"), &others("1")).ok();
    let contender = |seen: &gpulet_cluster::api::Seen<Option<_>>| -> Option<_> {
        let observed: &gpulet_topology::nrt::observed::Observed = seen.value.as_deref()?.as_ref()?;
        observed.ownership.contender()
    };
    let contender = until(&mut watch, "the other publisher is seen", contender).await;
    assert_eq!((contender.publisher, contender.manager.as_str()), (Publisher::NodeFeatureDiscovery, manager));
    let error = api.apply_nrt(&body(4), Some(&uid), false).await.unwrap_err();
    assert_eq!(error.reason(), "Conflict");
    assert!(error.to_string().contains(&format!("with {manager}: ")), "{error}");
    api.apply_nrt(&body(4), Some(&uid), true).await.unwrap();
    let taken = api.get_nrt().await.unwrap();
    assert_eq!(taken.ownership.contender(), None, "{:?}", taken.ownership);
    assert_eq!(taken.body, body(4));

    // Someone edits it.
    plane.admin().apply(&format!("{TOPOLOGIES}/a?fieldManager=kubectl-edit&force=true"), &others("2")).ok();
    let edited = until(&mut watch, "the edit is seen", |seen| {
        let observed = seen.value.as_deref()?.as_ref()?;
        (!observed.ownership.is_ours()).then(|| observed.clone())
    })
    .await;
    assert_eq!(edited.ownership.contender(), None, "a person is no publisher");
    assert!(edited.ownership.owners.iter().any(|owner| owner.publisher == Publisher::Person && owner.zones));
    assert_eq!(edited.body.zones[0].resources[0].available.as_str(), "2");

    // Someone deletes it.
    plane.admin().delete(&format!("{TOPOLOGIES}/a")).ok();
    until(&mut watch, "its end is seen", |seen| seen.value.as_deref()?.is_none().then_some(())).await;

    let counts = counts(&plane.requests(), AGENT);
    let of = |verb: &str| counts[&(verb.to_owned(), "noderesourcetopologies".to_owned())];
    assert_eq!((of("list"), of("watch"), of("get")), (1, 1, 3), "{counts:?}");
    let traffic = api.traffic();
    let counted = |verb: &str| traffic.requests(verb, "noderesourcetopologies");
    assert_eq!((counted("list"), counted("watch")), (1, 1));
    assert_eq!(counted("apply"), of("patch") as u64, "what we count is what the server counts");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs etcd and kube-apiserver"]
async fn what_the_server_does_not_accept_is_said_field_by_field() {
    let plane = cluster(&[]);
    let (api, _root) = as_kubelet(&plane).await;
    eventually("served", async || api.apply_nrt(&body(4), None, false).await).await;
    let wrong: Body = serde_json::from_value(others("much")).unwrap();
    let error = api.apply_nrt(&wrong, None, false).await.unwrap_err();
    assert_eq!(error.reason(), "Invalid");
    let text = error.to_string();
    assert!(text.contains("zones[0].resources[0].available"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs etcd and kube-apiserver"]
async fn the_kind_may_come_later_and_go_again() {
    let plane = cluster(&["daemonset/crd"]);
    let (api, _mounted) = as_agent(&plane).await;
    let mut watch = api.nrt();
    let reason = |seen: &gpulet_cluster::api::Seen<_>| seen.trouble.as_ref().map(|trouble| trouble.reason());
    assert_eq!(until(&mut watch, "trouble", reason).await, "NotInstalled");
    assert_eq!(api.get_nrt().await.unwrap_err().reason(), "NotInstalled");
    assert_eq!(api.apply_nrt(&body(4), None, false).await.unwrap_err().reason(), "NotInstalled");

    plane.apply(&crate::support::shipped("daemonset/crd"));
    until(&mut watch, "watched", |seen| (seen.trouble.is_none() && seen.value.is_some()).then_some(())).await;
    eventually("created", async || api.apply_nrt(&body(4), None, false).await).await;
    until(&mut watch, "seen", |seen| seen.value.as_deref()?.is_some().then_some(())).await;

    plane.admin().delete(DEFINITION).ok();
    until(&mut watch, "gone", |seen| {
        (seen.value.is_none() && reason(seen) == Some("NotInstalled")).then_some(())
    })
    .await;
}
