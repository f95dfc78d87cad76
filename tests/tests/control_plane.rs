//! The control plane that other tests stand on: what they count on must hold.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use gpulet_tests::{Bound, ControlPlane};
use serde_json::json;

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn tokens_are_bound_and_restarts_keep_what_is_there() {
    let plane = ControlPlane::start();
    plane.create_node("a");
    plane.create_namespace("apps");
    plane.service_account("apps", "agent");
    let uid = plane.create_pod("apps", "one", "a", "agent");
    assert_eq!(plane.admin().get("/api/v1/namespaces/apps/pods/one").ok()["status"]["phase"], "Running");

    // What the API server makes of a token is what admission sees of it.
    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview" });
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    for bound in [Bound::Node("a"), Bound::Pod("apps", "one")] {
        let agent = plane.account("apps", "agent", bound);
        let said = agent.client.create(path, &review).ok();
        let user = &said["status"]["userInfo"];
        assert_eq!(user["username"], "system:serviceaccount:apps:agent");
        assert_eq!(user["extra"]["authentication.kubernetes.io/node-name"], json!(["a"]), "{bound:?}");
    }
    let kubelet = plane.kubelet_of("a");
    assert!(kubelet.client.get("/api/v1/nodes/a").is_ok());
    assert_eq!(
        kubelet.client.get("/api/v1/namespaces/apps/secrets").status,
        403,
        "the Node authorizer holds"
    );
    assert!(plane.requests().iter().any(|r| r.verb == "list" && r.resource == "secrets" && r.code == 403));

    plane.stop_api_server();
    assert!(plane.admin().try_get("/readyz").is_none());
    plane.start_api_server();
    let pod = plane.admin().get("/api/v1/namespaces/apps/pods/one").ok();
    assert_eq!(pod["metadata"]["uid"], uid.as_str());
    assert!(kubelet.client.get("/api/v1/nodes/a").is_ok(), "who was known still is");
    assert!(plane.metrics().value("apiserver_storage_objects", &[("resource", "pods")]).is_some());
}
