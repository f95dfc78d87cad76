//! Changing our Node for one version of it, and evictions: what a real API server says to each.

use gpulet_cluster::api::{Api, MetadataChange, NodeChange};
use gpulet_tests::ControlPlane;
use serde_json::{Value, json};

use crate::support::{as_agent, as_kubelet, cluster, eventually};

const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs etcd and kube-apiserver"]
async fn a_change_is_for_one_version_of_the_node_or_none() {
    let plane = cluster(&[]);
    let (agent, _mounted) = as_agent(&plane).await;
    let (kubelet, _root) = as_kubelet(&plane).await;
    for api in [&agent, &kubelet] {
        let (before, version) =
            eventually("the Node", async || api.get_node().await.map_err(|error| error.to_string())).await;
        assert!(!before.unschedulable);
        let labels = [("nvidia.com/gpu.deploy.dcgm".to_owned(), Some("paused-for-mig-change".to_owned()))];
        let annotations = [("gpulet.dev/cordoned".to_owned(), Some("for a test".to_owned()))];
        let metadata = MetadataChange {
            labels: labels.into(),
            annotations: annotations.into(),
            version: Some(version.clone()),
        };
        let change = NodeChange { metadata, unschedulable: Some(true) };
        eventually("changed", async || api.change_node(&change).await.map_err(|error| error.to_string()))
            .await;
        let (after, next) = api.get_node().await.unwrap();
        assert!(after.unschedulable && next != version);
        assert_eq!(after.labels["nvidia.com/gpu.deploy.dcgm"], "paused-for-mig-change");
        let error = api.change_node(&change).await.unwrap_err();
        assert_eq!(error.reason(), "Conflict", "{error}");

        let gone = |key: &str| [(key.to_owned(), None)].into();
        let metadata = MetadataChange {
            labels: gone("nvidia.com/gpu.deploy.dcgm"),
            annotations: gone("gpulet.dev/cordoned"),
            version: Some(next),
        };
        api.change_node(&NodeChange { metadata, unschedulable: Some(false) }).await.unwrap();
        let (after, _) = api.get_node().await.unwrap();
        assert_eq!((after.labels, after.unschedulable), (before.labels, false));
    }
}

fn pod(plane: &ControlPlane, name: &str) -> String {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "labels": { "job": name } },
        "spec": { "nodeName": "a", "containers": [{ "name": "main", "image": "none" }] },
    });
    let uid = plane.create_running("default", &pod);
    let ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    plane.admin().strategic(&format!("/api/v1/namespaces/default/pods/{name}/status"), &ready).ok();
    uid
}

/// A budget for a Pod, of which no controller counts anything until a test says what.
fn budget(plane: &ControlPlane, name: &str, job: &str) {
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": name },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "job": job } } },
    });
    plane.admin().create(BUDGETS, &budget).ok();
}

fn counted(plane: &ControlPlane, name: &str) {
    let status = json!({ "status": {
        "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
    } });
    plane.admin().merge(&format!("{BUDGETS}/{name}/status"), &status).ok();
}

fn is_ending(plane: &ControlPlane, name: &str) -> bool {
    let pod: Value = plane.admin().get(&format!("/api/v1/namespaces/default/pods/{name}")).ok();
    pod["metadata"]["deletionTimestamp"].is_string()
}

async fn budgets_are_named(plane: &ControlPlane, api: &Api) {
    let uid = pod(plane, "held");
    budget(plane, "one", "held");
    let error = api.evict("default", "held", &uid).await.unwrap_err();
    assert!(error.budget().unwrap().contains("budget one is still being processed"), "{error}");
    assert_eq!(error.retry_after().unwrap().as_secs(), 10);
    counted(plane, "one");
    let error = api.evict("default", "held", &uid).await.unwrap_err();
    assert!(
        error.budget().unwrap().contains("budget one needs 1 healthy pods and has 1 currently"),
        "{error}"
    );
    budget(plane, "two", "held");
    let error = api.evict("default", "held", &uid).await.unwrap_err();
    assert!(error.budget().unwrap().contains("more than one PodDisruptionBudget"), "{error}");
    assert!(!is_ending(plane, "held"));
    for name in ["one", "two"] {
        plane.admin().delete(&format!("{BUDGETS}/{name}")).ok();
    }
    plane.delete_pod("default", "held");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs etcd and kube-apiserver"]
async fn evictions_are_accepted_or_it_is_said_why_not() {
    let plane = cluster(&[]);
    let (agent, _mounted) = as_agent(&plane).await;
    let (kubelet, _root) = as_kubelet(&plane).await;
    // A policy holds some time after it was made, not at once.
    let uid = pod(&plane, "first");
    let evict = async || agent.evict("default", "first", &uid).await.map_err(|error| error.to_string());
    eventually("evicted", evict).await;
    for api in [&agent, &kubelet] {
        budgets_are_named(&plane, api).await;
        let uid = pod(&plane, "free");
        let other = api.evict("default", "free", "0000").await.unwrap_err();
        assert_eq!(other.reason(), "Conflict", "{other}");
        assert!(!is_ending(&plane, "free"));
        for _ in 0..2 {
            api.evict("default", "free", &uid).await.unwrap();
        }
        assert!(is_ending(&plane, "free"));
        plane.delete_pod("default", "free");
        let gone = api.evict("default", "free", &uid).await.unwrap_err();
        assert!(["NotFound", "Forbidden"].contains(&gone.reason()), "{gone}");
    }
}
