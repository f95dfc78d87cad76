//! Who may write what: a real API server with the shipped rights and policies, asked in the names of two nodes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use gpulet_tests::{Answer, Bound, Client, ControlPlane, documents, wait_until};
use serde_json::{Value, json};

const TOPOLOGIES: &str = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
const AGENT: &str = "system:serviceaccount:gpulet:gpulet";

/// Everything that gpulet may ever write, by verb and resource. What this version does not write yet is what changing a
/// node's GPUs takes: labels and annotations, cordoning, evictions.
const WRITES: [(&str, &str); 7] = [
    ("create", "noderesourcetopologies"),
    ("patch", "noderesourcetopologies"),
    ("patch", "nodes/status"),
    ("patch", "nodes"),
    ("create", "events"),
    ("patch", "events"),
    ("create", "pods/eviction"),
];

/// Everything that it may ever read.
const READS: [(&str, &str); 10] = [
    ("get", "nodes"),
    ("list", "nodes"),
    ("watch", "nodes"),
    ("list", "pods"),
    ("watch", "pods"),
    ("list", "resourceslices"),
    ("watch", "resourceslices"),
    ("get", "noderesourcetopologies"),
    ("list", "noderesourcetopologies"),
    ("watch", "noderesourcetopologies"),
];

/// A write, told what it is and on which node's objects.
type Write = (&'static str, fn(&Client, &str) -> Answer);

/// A control plane with everything that is shipped, two nodes, and Pods on each.
fn cluster() -> ControlPlane {
    let plane = ControlPlane::start();
    for manifests in ["daemonset/crd", "daemonset", "systemd/kubernetes.yaml"] {
        plane.apply(&shipped(manifests));
    }
    for node in ["a", "b"] {
        plane.create_node(node);
        let ready = json!({ "type": "Ready", "status": "True" });
        let status = json!({ "status": { "capacity": { "cpu": "4" }, "conditions": [ready] } });
        plane.admin().merge(&format!("/api/v1/nodes/{node}/status"), &status).ok();
        plane.create_pod("default", &format!("two-on-{node}"), node, "default");
        plane.create_pod("gpulet", &format!("gpulet-on-{node}"), node, "gpulet");
    }
    let unbound = plane.account("gpulet", "gpulet", Bound::Nothing).client;
    let evict_two = |client: &Client, node: &str| evict_pod(client, &format!("two-on-{node}"));
    let probes: [Write; 4] = [
        ("topology", apply_topology),
        ("label", label_ours),
        ("event", create_event),
        ("eviction", evict_two),
    ];
    for (what, write) in probes {
        // A kind and a policy hold some time after they were made, not at once.
        wait_until(what, || write(&unbound, "b").message().contains("is not bound to a node").then_some(()));
    }
    plane
}

fn shipped(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn topology(node: &str) -> Value {
    json!({
        "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology",
        "metadata": { "name": node }, "zones": [{ "name": "node-0", "type": "Node" }],
    })
}

fn apply_topology(client: &Client, node: &str) -> Answer {
    client.apply(&format!("{TOPOLOGIES}/{node}?fieldManager=gpulet&force=true"), &topology(node))
}

fn own_topology(client: &Client, node: &str) -> Answer {
    let mut object = topology(node);
    // The uid is the API server's affair: a wrong one makes the garbage collector delete the object, not the policy refuse.
    object["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "v1", "kind": "Node", "name": node, "uid": "1" }]);
    client.apply(&format!("{TOPOLOGIES}/{node}?fieldManager=gpulet&force=true"), &object)
}

fn label_topology(client: &Client, node: &str) -> Answer {
    let label = json!({ "metadata": { "labels": { "app.kubernetes.io/managed-by": "gpulet" } } });
    client.merge(&format!("{TOPOLOGIES}/{node}"), &label)
}

fn delete_topology(client: &Client, node: &str) -> Answer {
    client.delete(&format!("{TOPOLOGIES}/{node}"))
}

/// Leaves none, so that the first apply has to create it too.
fn may_create_topology(client: &Client, node: &str) -> Answer {
    client.create(&format!("{TOPOLOGIES}?dryRun=All"), &topology(node))
}

fn create_topology(client: &Client, node: &str) -> Answer {
    client.create(TOPOLOGIES, &topology(node))
}

fn condition(client: &Client, node: &str, kind: &str, status: &str) -> Answer {
    let conditions = json!([{ "type": kind, "status": status, "reason": "Test", "message": "" }]);
    client.strategic(
        &format!("/api/v1/nodes/{node}/status"),
        &json!({ "status": { "conditions": conditions } }),
    )
}

/// All that gpulet knows of, one after the other.
fn conditions(client: &Client, node: &str) -> Answer {
    let answers = gpulet_cluster::api::CONDITIONS.map(|kind| condition(client, node, kind, "Unknown"));
    let refused = answers.iter().find(|answer| !answer.is_ok());
    refused.or(answers.last()).unwrap().clone()
}

fn condition_applied(client: &Client, node: &str) -> Answer {
    let object = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": node },
        "status": { "conditions": [{ "type": "GpuHealthy", "status": "True", "reason": "Test", "message": "" }] },
    });
    client.apply(&format!("/api/v1/nodes/{node}/status?fieldManager=gpulet&force=true"), &object)
}

fn no_condition(client: &Client, node: &str) -> Answer {
    let gone = json!({ "status": { "conditions": [{ "type": "GpuHealthy", "$patch": "delete" }] } });
    client.strategic(&format!("/api/v1/nodes/{node}/status"), &gone)
}

fn label(client: &Client, node: &str, key: &str, value: Value) -> Answer {
    client.merge(&format!("/api/v1/nodes/{node}"), &json!({ "metadata": { "labels": { key: value } } }))
}

fn label_ours(client: &Client, node: &str) -> Answer {
    label(client, node, "gpulet.dev/mps.config.state", json!("pending"))
}

fn label_mig_state(client: &Client, node: &str) -> Answer {
    label(client, node, "nvidia.com/mig.config.state", json!("pending"))
}

fn pause_client(client: &Client, node: &str) -> Answer {
    label(client, node, "nvidia.com/gpu.deploy.device-plugin", json!("paused-for-mig-change"))
}

fn remove_label(client: &Client, node: &str) -> Answer {
    label(client, node, "gpulet.dev/mps.config.state", Value::Null)
}

fn annotate(client: &Client, node: &str) -> Answer {
    let annotation = json!({ "metadata": { "annotations": { "gpulet.dev/partition-status": "{}" } } });
    client.merge(&format!("/api/v1/nodes/{node}"), &annotation)
}

fn cordon(client: &Client, node: &str) -> Answer {
    client.merge(&format!("/api/v1/nodes/{node}"), &json!({ "spec": { "unschedulable": true } }))
}

fn uncordon(client: &Client, node: &str) -> Answer {
    client.merge(&format!("/api/v1/nodes/{node}"), &json!({ "spec": { "unschedulable": null } }))
}

fn event(node: &str) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": { "name": format!("{node}.gpulet"), "namespace": "default" },
        "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Warning", "reason": "Test", "action": "Test", "note": "",
        "reportingController": "gpulet", "reportingInstance": node,
        "regarding": { "apiVersion": "v1", "kind": "Node", "name": node, "uid": node },
    })
}

fn create_event(client: &Client, node: &str) -> Answer {
    client.create(EVENTS, &event(node))
}

fn repeat_event(client: &Client, node: &str) -> Answer {
    let series = json!({ "series": { "count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z" } });
    client.merge(&format!("{EVENTS}/{node}.gpulet"), &series)
}

fn evict(client: &Client, node: &str) -> Answer {
    evict_pod(client, &format!("one-on-{node}"))
}

fn evict_pod(client: &Client, pod: &str) -> Answer {
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": pod, "namespace": "default" },
    });
    client.create(&format!("/api/v1/namespaces/default/pods/{pod}/eviction"), &eviction)
}

/// Every write that gpulet needs, in an order in which each finds what it needs.
const NEEDED: [Write; 17] = [
    ("creates its object", may_create_topology),
    ("applies it for the first time", apply_topology),
    ("applies it with the Node as owner", own_topology),
    ("labels it", label_topology),
    ("sets its conditions", conditions),
    ("applies GpuHealthy", condition_applied),
    ("takes GpuHealthy away", no_condition),
    ("sets a label of its own", label_ours),
    ("sets NVIDIA's state of MIG", label_mig_state),
    ("pauses a client", pause_client),
    ("removes a label of its own", remove_label),
    ("sets an annotation of its own", annotate),
    ("cordons", cordon),
    ("uncordons", uncordon),
    ("tells of an event", create_event),
    ("tells of it again", repeat_event),
    ("evicts a Pod", evict),
];

/// Makes a node as it is before gpulet has written anything, with a Pod to evict.
fn reset(plane: &ControlPlane, node: &str) {
    delete_topology(plane.admin(), node);
    plane.admin().delete(&format!("{EVENTS}/{node}.gpulet"));
    let pod = format!("one-on-{node}");
    plane.admin().delete(&format!("/api/v1/namespaces/default/pods/{pod}?gracePeriodSeconds=0"));
    plane.create_pod("default", &pod, node, "default");
}

/// What there is of a node.
fn state(plane: &ControlPlane, node: &str) -> Value {
    let paths = [
        format!("{TOPOLOGIES}/{node}"),
        format!("/api/v1/nodes/{node}"),
        format!("{EVENTS}/{node}.gpulet"),
        format!("/api/v1/namespaces/default/pods/one-on-{node}"),
    ];
    paths.iter().map(|path| plane.admin().get(path).ok()).collect()
}

fn all_go(client: &Client, node: &str) {
    for (what, write) in NEEDED {
        let answer = write(client, node);
        assert!(answer.is_ok(), "{what}: {}", answer.message());
    }
}

/// Every write is refused, and nothing has changed.
fn none_goes(plane: &ControlPlane, client: &Client, node: &str) {
    let before = state(plane, node);
    for (what, write) in NEEDED {
        let answer = write(client, node);
        assert_eq!(answer.status, 403, "{what}: {}", answer.message());
    }
    assert_eq!(state(plane, node), before);
}

/// With the token of `a`, everything that is needed for `a` goes and nothing of it for `b`.
fn holds_to_its_node(plane: &ControlPlane, client: &Client) {
    reset(plane, "a");
    reset(plane, "b");
    all_go(client, "a");
    create_topology(plane.admin(), "b").ok();
    create_event(plane.admin(), "b").ok();
    none_goes(plane, client, "b");
    // They were refused for whose they were, not for what they are: with the other node's own token each goes.
    reset(plane, "b");
    all_go(&plane.account("gpulet", "gpulet", Bound::Node("b")).client, "b");
}

/// What of its own node is none of its affair.
fn leaves_the_rest_of_its_node_alone(client: &Client) {
    let node = "/api/v1/nodes/a";
    let metadata = |change: Value| client.merge(node, &json!({ "metadata": change }));
    let status = |change: Value| client.merge(&format!("{node}/status"), &change);
    let kept = client.get(node).ok()["status"]["conditions"].clone();
    let refused = [
        ("the layout that is wanted", label(client, "a", "nvidia.com/mig.config", json!("all-disabled"))),
        ("others' labels", label(client, "a", "kubernetes.io/hostname", json!("b"))),
        ("a label that only begins alike", label(client, "a", "gpulet.dev.example.com/x", json!("y"))),
        ("removes others' labels", label(client, "a", "kubernetes.io/hostname", Value::Null)),
        ("others' annotations", metadata(json!({ "annotations": { "example.com/x": "y" } }))),
        ("finalizers", metadata(json!({ "finalizers": ["gpulet.dev/x"] }))),
        (
            "owners",
            metadata(
                json!({ "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": "a", "uid": "1" }] }),
            ),
        ),
        (
            "taints",
            client.merge(node, &json!({ "spec": { "taints": [{ "key": "x", "effect": "NoExecute" }] } })),
        ),
        ("its provider's id", client.merge(node, &json!({ "spec": { "providerID": "cloud://b" } }))),
        ("capacity", status(json!({ "status": { "capacity": { "nvidia.com/gpu": "8" } } }))),
        ("allocatable", status(json!({ "status": { "allocatable": { "cpu": "400" } } }))),
        (
            "addresses",
            status(json!({ "status": { "addresses": [{ "type": "InternalIP", "address": "10.0.0.9" }] } })),
        ),
        ("the kubelet's conditions", condition(client, "a", "Ready", "False")),
        ("all conditions at once", status(json!({ "status": { "conditions": [] } }))),
        ("labels by way of the status", status(json!({ "metadata": { "labels": { "x": "y" } } }))),
    ];
    for (what, answer) in refused {
        assert_eq!(answer.status, 403, "{what}: {}", answer.message());
    }
    assert_eq!(client.get(node).ok()["status"]["conditions"], kept);
    let mut owned = topology("a");
    owned["metadata"]["ownerReferences"] =
        json!([{ "apiVersion": "v1", "kind": "Namespace", "name": "x", "uid": "1" }]);
    let answer = client.apply(&format!("{TOPOLOGIES}/a?fieldManager=gpulet&force=true"), &owned);
    assert_eq!(answer.status, 403, "an owner that is not the Node: {}", answer.message());
    let mut about_a_pod = event("a");
    about_a_pod["regarding"] =
        json!({ "apiVersion": "v1", "kind": "Pod", "name": "x", "namespace": "default" });
    assert_eq!(client.create(EVENTS, &about_a_pod).status, 403, "an event about something else");
    let moved = client.merge(&format!("{EVENTS}/b.gpulet"), &json!({ "regarding": { "name": "a" } }));
    assert_eq!(moved.status, 422, "another node's event made its own: {}", moved.message());
}

type VerbsAndResources = BTreeSet<(String, String)>;

/// With what `user` asked and was let through.
fn let_through(plane: &ControlPlane, user: &str) -> VerbsAndResources {
    let requests = plane.requests().into_iter();
    let of = requests.filter(|request| request.user == user && request.code < 400);
    of.map(|request| (request.verb, request.resource)).collect()
}

/// What the shipped roles of gpulet grant.
fn granted() -> VerbsAndResources {
    let words = |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap_or_default() };
    let mut granted = BTreeSet::new();
    for object in documents(&shipped("daemonset/20-rbac.yaml")) {
        for rule in object["rules"].as_array().into_iter().flatten() {
            for verb in words(&rule["verbs"]) {
                granted
                    .extend(words(&rule["resources"]).into_iter().map(|resource| (verb.clone(), resource)));
            }
        }
    }
    granted
}

fn reads(client: &Client) {
    let own = |path: &str, selector: &str| {
        assert!(client.get(&format!("{path}?fieldSelector={selector}")).is_ok(), "{path}");
        let watched = client.get(&format!("{path}?fieldSelector={selector}&watch=true&timeoutSeconds=1"));
        assert!(watched.is_ok(), "{path}: {}", watched.message());
    };
    own("/api/v1/nodes", "metadata.name=a");
    own("/api/v1/pods", "spec.nodeName=a");
    own("/apis/resource.k8s.io/v1/resourceslices", "spec.nodeName=a");
    own(TOPOLOGIES, "metadata.name=a");
    client.get("/api/v1/nodes/a").ok();
    client.get(&format!("{TOPOLOGIES}/a"));
}

/// What nobody has granted.
fn has_no_other_rights(client: &Client) {
    let refused = [
        client.get("/api/v1/secrets"),
        client.get("/api/v1/namespaces/gpulet/configmaps"),
        client.get("/api/v1/nodes/a/proxy/pods"),
        client.delete("/api/v1/nodes/a"),
        client.delete("/api/v1/namespaces/default/pods/two-on-a"),
        client.create(
            "/api/v1/nodes",
            &json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "c" } }),
        ),
        client.delete(TOPOLOGIES),
        delete_topology(client, "a"),
        client.create("/api/v1/namespaces/gpulet/serviceaccounts/gpulet/token", &json!({})),
    ];
    for (number, answer) in refused.iter().enumerate() {
        assert_eq!(answer.status, 403, "{number}: {}", answer.message());
    }
}

/// Whoever grants deletions too grants those of the own node's object only.
fn a_deletion_would_be_held_to_its_node(plane: &ControlPlane, client: &Client) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "deletes" },
        "rules": [{ "apiGroups": ["topology.node.k8s.io"], "resources": ["noderesourcetopologies"], "verbs": ["delete"] }],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "deletes" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "deletes" },
        "subjects": [{ "kind": "ServiceAccount", "name": "gpulet", "namespace": "gpulet" }],
    });
    let rights = "/apis/rbac.authorization.k8s.io/v1";
    plane.admin().create(&format!("{rights}/clusterroles"), &role).ok();
    plane.admin().create(&format!("{rights}/clusterrolebindings"), &binding).ok();
    wait_until("granted", || delete_topology(client, "a").is_ok().then_some(()));
    let answer = delete_topology(client, "b");
    assert_eq!(answer.status, 403, "{}", answer.message());
    assert!(answer.message().contains("ValidatingAdmissionPolicy"), "{}", answer.message());
    plane.admin().get(&format!("{TOPOLOGIES}/b")).ok();
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn a_token_of_one_node_writes_that_node_only() {
    let plane = cluster();
    for bound in [Bound::Pod("gpulet", "gpulet-on-a"), Bound::Node("a")] {
        let client = plane.account("gpulet", "gpulet", bound).client;
        holds_to_its_node(&plane, &client);
        leaves_the_rest_of_its_node_alone(&client);
    }
    let client = plane.account("gpulet", "gpulet", Bound::Node("a")).client;
    assert_eq!(evict_pod(&client, "two-on-b").status, 403, "also one that was there long before");
    reads(&client);
    let listed =
        WRITES.iter().chain(&READS).map(|(verb, resource)| ((*verb).to_owned(), (*resource).to_owned()));
    let listed: VerbsAndResources = listed.collect();
    assert_eq!(let_through(&plane, AGENT), listed, "exactly what is listed was asked for and let through");
    let mut granted = granted();
    // The kubelet is asked for it, and asks the API server whether it may answer.
    assert!(granted.remove(&("get".to_owned(), "nodes/configz".to_owned())));
    assert!(may(&plane, "configz") && !may(&plane, "proxy"));
    assert_eq!(granted, listed, "and exactly that is granted");
    has_no_other_rights(&client);
    a_deletion_would_be_held_to_its_node(&plane, &client);
}

/// Whether the kubelet may answer gpulet under `/SUBRESOURCE`.
fn may(plane: &ControlPlane, subresource: &str) -> bool {
    let attributes = json!({ "verb": "get", "resource": "nodes", "subresource": subresource, "name": "a" });
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": { "user": AGENT, "resourceAttributes": attributes },
    });
    let answer = plane.admin().create("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).ok();
    answer["status"]["allowed"] == true
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn a_token_without_a_node_writes_nothing() {
    let plane = cluster();
    let client = plane.account("gpulet", "gpulet", Bound::Nothing).client;
    for node in ["a", "b"] {
        reset(&plane, node);
        create_topology(plane.admin(), node).ok();
        create_event(plane.admin(), node).ok();
        none_goes(&plane, &client, node);
    }
}

/// What a unit writes with the kubelet's credentials. Its Node's labels are for the kubelet to write, within what
/// NodeRestriction lets it.
const UNIT: [&str; 16] = [
    "creates its object",
    "applies it for the first time",
    "applies it with the Node as owner",
    "labels it",
    "sets its conditions",
    "takes GpuHealthy away",
    "sets a label of its own",
    "sets NVIDIA's state of MIG",
    "pauses a client",
    "removes a label of its own",
    "sets an annotation of its own",
    "cordons",
    "uncordons",
    "tells of an event",
    "tells of it again",
    "evicts a Pod",
];

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn the_kubelets_credentials_write_their_node_only() {
    let plane = cluster();
    let kubelet = plane.kubelet_of("a").client;
    reset(&plane, "a");
    reset(&plane, "b");
    let needed: Vec<Write> = NEEDED.into_iter().filter(|(what, _)| UNIT.contains(what)).collect();
    assert_eq!(needed.len(), UNIT.len());
    for (what, write) in &needed {
        let answer = write(&kubelet, "a");
        assert!(answer.is_ok(), "{what}: {}", answer.message());
    }
    create_topology(plane.admin(), "b").ok();
    create_event(plane.admin(), "b").ok();
    let before = state(&plane, "b");
    // Events are not held to their node by the Node authorizer, and gpulet's policy does not look at the kubelet's.
    for (what, write) in needed.iter().filter(|(what, _)| !what.starts_with("tells of")) {
        let answer = write(&kubelet, "b");
        assert_eq!(answer.status, 403, "{what}: {}", answer.message());
    }
    assert_eq!(state(&plane, "b"), before);
    // What the kubelet itself does is none of the policies' affair.
    let status = json!({ "status": { "allocatable": { "cpu": "4" }, "conditions": [{ "type": "Ready", "status": "True" }] } });
    kubelet.strategic("/api/v1/nodes/a/status", &status).ok();
    label(&kubelet, "a", "example.com/rack", json!("7")).ok();
    // Nor is what others do with the objects of any node.
    for node in ["a", "b"] {
        label_topology(plane.admin(), node).ok();
        annotate(plane.admin(), node).ok();
    }
}
