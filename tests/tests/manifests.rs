//! The manifests that are shipped, against a real API server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::path::{Path, PathBuf};

use gpulet_tests::{ControlPlane, documents, wait_until};
use serde_json::{Value, json};

const TOPOLOGIES: &str = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies";

fn shipped(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Every manifest, in the order in which the page on installing applies them.
fn manifests() -> Vec<Value> {
    let folders = ["daemonset/crd", "daemonset", "systemd/kubernetes.yaml"];
    folders.iter().flat_map(|folder| documents(&shipped(folder))).collect()
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn each_is_accepted_by_dry_run_and_then_for_good() {
    let plane = ControlPlane::start();
    let manifests = manifests();
    assert!(manifests.len() > 20, "{}", manifests.len());
    for object in &manifests {
        let what = format!("{} {}", object["kind"], object["metadata"]["name"]);
        for dry_run in [true, false] {
            let answer = plane.apply_object(object, dry_run);
            assert!(answer.is_ok(), "{what}, dry run {dry_run}: {}", answer.message());
        }
    }
    patches_of_the_page_are_accepted(&plane);
    policies_are_of_the_right_types(&plane);
    a_pod_is_made_for_each_node(&plane);
}

/// What docs/install.md tells people to patch.
fn patches_of_the_page_are_accepted(plane: &ControlPlane) {
    let page = std::fs::read_to_string(shipped("docs/install.md")).unwrap();
    let (of_status, patches): (Vec<&str>, Vec<&str>) = page
        .split("-p '")
        .skip(1)
        .map(|rest| rest.split('\'').next().unwrap())
        .partition(|patch| patch.starts_with(r#"{"status""#));
    assert_eq!((of_status.len(), patches.len()), (1, 2));
    plane.create_node("left");
    let status = "/api/v1/nodes/left/status?dryRun=All&fieldValidation=Strict";
    plane.admin().strategic(status, &serde_json::from_str(of_status[0]).unwrap()).ok();
    let path = "/apis/apps/v1/namespaces/gpulet/daemonsets/gpulet?dryRun=All&fieldValidation=Strict";
    let before = plane.admin().get(path).ok()["spec"]["template"].clone();
    for patch in patches {
        let after = plane.admin().strategic(path, &serde_json::from_str(patch).unwrap()).ok();
        assert_ne!(after["spec"]["template"], before, "{patch}");
        assert_eq!(
            after["spec"]["template"]["spec"]["containers"][0]["image"],
            before["spec"]["containers"][0]["image"]
        );
    }
}

/// The controller of policies finds no field that is not there.
fn policies_are_of_the_right_types(plane: &ControlPlane) {
    plane.start_controllers(&["validatingadmissionpolicy-status-controller", "daemonset-controller"]);
    let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let checked = wait_until("the policies' types are checked", || {
        let policies = plane.admin().get(path).ok()["items"].as_array().unwrap().clone();
        policies.iter().all(|policy| policy["status"]["observedGeneration"].is_u64()).then_some(policies)
    });
    assert_eq!(checked.len(), 4);
    for policy in checked {
        let warnings = &policy["status"]["typeChecking"]["expressionWarnings"];
        assert!(warnings.is_null(), "{}: {warnings:#}", policy["metadata"]["name"]);
    }
}

/// The real controller makes a Pod from the template, on a node with any taint.
fn a_pod_is_made_for_each_node(plane: &ControlPlane) {
    plane.create_node("tainted");
    let taint = json!({ "spec": { "taints": [{ "key": "nvidia.com/gpu", "effect": "NoSchedule" }] } });
    plane.admin().merge("/api/v1/nodes/tainted", &taint).ok();
    let label = json!({ "metadata": { "labels": { "kubernetes.io/os": "linux" } } });
    plane.admin().merge("/api/v1/nodes/tainted", &label).ok();
    let pod = wait_until("the DaemonSet has a Pod", || {
        let pods = plane.admin().get("/api/v1/namespaces/gpulet/pods").ok();
        pods["items"].as_array().unwrap().first().cloned()
    });
    let container = &pod["spec"]["containers"][0];
    assert_eq!(container["securityContext"]["privileged"], false);
    let projected = pod["spec"]["volumes"].as_array().unwrap().iter().find(|v| !v["projected"].is_null());
    let token = &projected.unwrap()["projected"]["sources"][0]["serviceAccountToken"];
    assert!(token.is_object(), "its token is the kind that is bound to the Pod and its Node");
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn the_kind_takes_what_schedulers_read_and_nothing_else() {
    let plane = ControlPlane::start();
    plane.apply(&shipped("daemonset/crd"));
    wait_until("the kind is served", || plane.admin().get(TOPOLOGIES).is_ok().then_some(()));
    let with = |zones: Value| {
        json!({
            "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology",
            "metadata": { "name": "node-a" }, "zones": zones,
        })
    };
    let zone = |available: Value| {
        let resource =
            json!({ "name": "cpu", "capacity": 4, "allocatable": "3500m", "available": available });
        with(
            json!([{ "name": "node-0", "type": "Node", "costs": [{ "name": "node-0", "value": 10 }], "resources": [resource] }]),
        )
    };
    let path = format!("{TOPOLOGIES}/node-a?fieldManager=tests&dryRun=All&fieldValidation=Strict");
    for taken in [with(json!([])), zone(json!(0)), zone(json!("0")), zone(json!("1.5Gi")), zone(json!("1e3"))]
    {
        let answer = plane.admin().apply(&path, &taken);
        assert!(answer.is_ok(), "{}: {taken}", answer.message());
    }
    let mut without_zones = with(json!([]));
    without_zones.as_object_mut().unwrap().remove("zones");
    let refused = [
        without_zones,
        zone(json!("many")),
        zone(json!("1 Gi")),
        zone(json!(1.5)),
        zone(Value::Null),
        with(json!([{ "name": "node-0" }])),
        with(json!([{ "name": "node-0", "type": "Node", "costs": [{ "name": "node-0", "value": "near" }] }])),
        with(json!([{ "name": "node-0", "type": "Node", "colour": "red" }])),
    ];
    let collection = format!("{TOPOLOGIES}?dryRun=All&fieldValidation=Strict");
    for object in refused {
        let answer = plane.admin().create(&collection, &object);
        assert!(matches!(answer.status, 400 | 422), "{}: {object}", answer.status);
    }
}
