//! Plain calls: what they send, and that they fail once, in time, and with the right word.

use std::time::Duration;

use gpulet_cluster::api::{
    Api, ApiError, Condition, ConditionStatus, Event, EventKind, Kind, Limits, MetadataChange, NodeChange,
};
use gpulet_topology::nrt::object::{Body, Zone};
use serde_json::{Value, json};

use crate::server::{Answer, Server, limits, within};

fn body() -> Body {
    let zone = Zone { name: "node-0".into(), kind: "Node".into(), ..Zone::default() };
    Body { attributes: Vec::new(), zones: vec![zone] }
}

fn stored() -> Value {
    json!({"metadata": {"name": "node-a", "uid": "u", "resourceVersion": "7"}, "zones": []})
}

async fn refused(answer: impl Fn() -> Answer + Send + 'static, limits: Limits) -> (ApiError, Server, Api) {
    let server = Server::start(move |_, _| answer()).await;
    let api = server.api(limits).await;
    let error = within(api.apply_nrt(&body(), Some("node-uid"), false)).await.unwrap_err();
    (error, server, api)
}

#[tokio::test]
async fn an_apply_says_who_and_for_whom() {
    let server = Server::start(|_, _| Answer::Json(200, stored())).await;
    let api = server.api(limits()).await;
    let observed = within(api.apply_nrt(&body(), Some("node-uid"), true)).await.unwrap();
    assert_eq!(observed.resource_version, "7");
    let asked = &server.asked()[0];
    assert_eq!(
        (asked.method.as_str(), asked.content_type.as_str()),
        ("PATCH", "application/apply-patch+yaml")
    );
    assert_eq!(asked.path, "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/node-a");
    assert_eq!(asked.query, "fieldManager=gpulet&force=true");
    assert_eq!(
        asked.body,
        json!({
            "apiVersion": "topology.node.k8s.io/v1alpha2",
            "kind": "NodeResourceTopology",
            "metadata": {
                "name": "node-a",
                "labels": {"app.kubernetes.io/managed-by": "gpulet"},
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": "node-uid", "controller": false}],
            },
            "zones": [{"name": "node-0", "type": "Node"}],
        })
    );
}

#[tokio::test]
async fn a_throttled_call_is_not_repeated_and_tells_how_long_to_wait() {
    let answer = || Answer::Text(429, "Retry-After: 7", "Too many requests, please try again later.");
    let (error, server, api) = refused(answer, limits()).await;
    assert_eq!(error.reason(), "Throttled");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    assert!(error.to_string().contains("please try again later"), "{error}");
    assert_eq!(server.asked().len(), 1);
    let counts = api.traffic().counts();
    let kind = Kind { verb: "apply", resource: "noderesourcetopologies", code: Some(429) };
    assert_eq!(counts[&kind].received_bytes, 42);
}

#[tokio::test]
async fn a_throttled_call_without_a_time_is_throttled_too() {
    let status = json!({"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "budget",
        "details": {"retryAfterSeconds": 10}});
    let (error, ..) = refused(move || Answer::Json(429, status.clone()), limits()).await;
    assert_eq!(error.retry_after(), Some(Duration::from_secs(10)));
    let (error, ..) = refused(|| Answer::Text(429, "X: y", "no"), limits()).await;
    assert_eq!(error.retry_after(), Some(Duration::from_secs(1)), "at least that");
}

#[tokio::test]
async fn silence_ends_in_time() {
    let short = Duration::from_millis(200);
    for answer in [|| Answer::Silence, || Answer::HalfAndSilence] {
        let (error, server, _) = refused(answer, Limits { answer: short, call: short * 2, ..limits() }).await;
        assert_eq!(error.reason(), "TimedOut", "{error}");
        assert_eq!(server.asked().len(), 1);
    }
}

#[tokio::test]
async fn half_an_answer_is_none() {
    let (error, server, _) = refused(|| Answer::HalfAndEnd, limits()).await;
    assert_eq!(error.reason(), "Unreachable", "{error}");
    assert_eq!(server.asked().len(), 1, "whether it was done is not known, and the caller decides");
}

#[tokio::test]
async fn something_else_that_answers_is_named() {
    let (error, ..) =
        refused(|| Answer::Text(200, "Content-Type: text/html", "<html>Log in</html>"), limits()).await;
    assert_eq!(error.reason(), "Garbled", "{error}");
    let (error, ..) =
        refused(|| Answer::Text(502, "Content-Type: text/html", "<html>Bad</html>"), limits()).await;
    assert_eq!(error.reason(), "ServerError", "{error}");
}

#[tokio::test]
async fn an_answer_longer_than_any_object_is_given_up_and_said_to_be() {
    let (error, server, _) = refused(|| Answer::Json(200, json!("x".repeat(5 << 20))), limits()).await;
    assert_eq!(error.reason(), "TooLarge", "{error}");
    assert!(error.to_string().contains("4194304 bytes"), "{error}");
    assert_eq!(server.asked().len(), 1);
    let (error, ..) = refused(|| Answer::Json(200, json!("x".repeat(3 << 20))), limits()).await;
    assert_eq!(error.reason(), "Garbled", "{error}");
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let server = Server::start(|_, _| Answer::Silence).await;
    let kubeconfig = server.directory().join("nobody");
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    std::fs::write(&kubeconfig, crate::server::kubeconfig(&format!("http://{free}"), json!({}))).unwrap();
    let api = Api::connect(crate::server::only(kubeconfig), "node-a", limits()).await.unwrap();
    let error = within(api.get_nrt()).await.unwrap_err();
    assert_eq!(error.reason(), "Unreachable");
    assert!(error.to_string().contains("refused"), "{error}");
    let none = Kind { verb: "get", resource: "noderesourcetopologies", code: None };
    assert_eq!(api.traffic().counts()[&none].requests, 1);
}

#[tokio::test]
async fn a_condition_is_written_when_it_is_another() {
    let node = json!({"metadata": {"name": "node-a", "uid": "u"}, "status": {"conditions": [
        {"type": "Ready", "status": "True"},
        {"type": "GpuHealthy", "status": "True", "reason": "Healthy", "message": "well",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    let server = Server::start(move |_, _| Answer::Json(200, node.clone())).await;
    let api = server.api(limits()).await;
    let condition = |status, reason: &str| Condition {
        kind: "GpuHealthy".into(),
        status,
        reason: reason.into(),
        message: "well".into(),
    };
    assert!(!within(api.set_condition(&condition(ConditionStatus::True, "Healthy"))).await.unwrap());
    assert_eq!(server.of("PATCH").len(), 0);
    assert!(within(api.set_condition(&condition(ConditionStatus::False, "TopologyFindings"))).await.unwrap());
    let patches = server.of("PATCH");
    assert_eq!(patches.len(), 1);
    assert_eq!(patches[0].path, "/api/v1/nodes/node-a/status");
    assert_eq!(patches[0].content_type, "application/strategic-merge-patch+json");
    let conditions = patches[0].body["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 1, "no other is touched");
    assert!(conditions[0]["lastTransitionTime"].as_str().unwrap().ends_with('Z'));
}

#[tokio::test]
async fn the_same_event_is_written_once_and_counted() {
    let server = Server::start(|asked, before| match (asked.method.as_str(), before) {
        ("PATCH", 1) => Answer::Json(
            404,
            json!({"kind": "Status", "code": 404, "reason": "NotFound",
            "message": "gone", "details": {"name": "it", "kind": "events"}}),
        ),
        _ => Answer::Json(201, json!({})),
    })
    .await;
    let api = server.api(limits()).await;
    let event = Event {
        kind: EventKind::Warning,
        reason: "OtherPublisher".into(),
        action: "Publish".into(),
        note: "it belongs to another".into(),
    };
    for _ in 0..3 {
        within(api.event(&event)).await.unwrap();
    }
    let (created, counted) = (server.of("POST"), server.of("PATCH"));
    assert_eq!((created.len(), counted.len()), (2, 2), "the third time the server had forgotten it");
    assert_eq!(created[0].path, "/apis/events.k8s.io/v1/namespaces/default/events");
    assert_eq!(created[0].body["regarding"]["uid"], "node-a", "as the kubelet does");
    assert_eq!(counted[0].body["series"]["count"], 2);
}

#[tokio::test]
async fn refused_credentials_are_read_again() {
    let server = Server::start(|asked, _| match asked.token.as_str() {
        "second" => Answer::Json(200, stored()),
        _ => Answer::Json(
            401,
            json!({"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"}),
        ),
    })
    .await;
    let token = server.directory().join("token");
    std::fs::write(&token, "first").unwrap();
    let api = server.api_as(json!({"tokenFile": token}), limits()).await;
    let error = within(api.get_nrt()).await.unwrap_err();
    assert_eq!(error.reason(), "Unauthorized");
    assert!(error.to_string().contains("kubeconfig"), "says where they are from: {error}");
    assert_eq!(server.asked().len(), 2, "once more with what the file said then");
    // Long before the minute is over after which a token is read again anyway.
    std::fs::write(&token, "second").unwrap();
    within(api.get_nrt()).await.unwrap();
    let tokens: Vec<String> = server.asked().into_iter().map(|asked| asked.token).collect();
    assert_eq!(tokens, ["first", "first", "first", "second"]);
}

#[tokio::test]
async fn refused_credentials_are_not_read_all_the_time() {
    let status = json!({"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"});
    let server = Server::start(move |_, _| Answer::Json(401, status.clone())).await;
    let api = server.api(Limits { renew: Duration::from_secs(3600), ..limits() }).await;
    for calls in 1..4 {
        let error = within(api.get_nrt()).await.unwrap_err();
        assert_eq!(error.reason(), "Unauthorized");
        assert_eq!(server.asked().len(), calls, "they were read when the connection was made");
    }
}

#[tokio::test]
async fn bytes_are_counted() {
    let server = Server::start(|_, _| Answer::Json(200, stored())).await;
    let api = server.api(limits()).await;
    within(api.apply_nrt(&body(), None, false)).await.unwrap();
    let kind = Kind { verb: "apply", resource: "noderesourcetopologies", code: Some(200) };
    let count = api.traffic().counts()[&kind];
    assert_eq!(count.requests, 1);
    assert_eq!(count.sent_bytes, server.asked()[0].body.to_string().len() as u64);
    assert_eq!(count.received_bytes, stored().to_string().len() as u64);
    assert_eq!(api.traffic().requests("apply", "noderesourcetopologies"), 1);
}

#[tokio::test]
async fn an_eviction_names_the_pod_and_its_uid_and_a_budget_is_known_as_one() {
    let refusal = json!({"kind": "Status", "code": 429, "reason": "TooManyRequests",
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "details": {"retryAfterSeconds": 10, "causes": [{"reason": "DisruptionBudget",
            "message": "The disruption budget train needs 1 healthy pods and has 1 currently"}]}});
    let server = Server::start(move |_, before| match before {
        0 => Answer::Json(429, refusal.clone()),
        1 => Answer::Text(429, "Retry-After: 1", "Too many requests, please try again later."),
        _ => Answer::Json(201, json!({"kind": "Status", "status": "Success"})),
    })
    .await;
    let api = server.api(limits()).await;
    let error = within(api.evict("jobs", "train-0", "u")).await.unwrap_err();
    assert_eq!(error.retry_after(), Some(Duration::from_secs(10)));
    assert!(error.budget().unwrap().contains("budget train needs 1"), "{error}");
    let error = within(api.evict("jobs", "train-0", "u")).await.unwrap_err();
    assert_eq!((error.reason(), error.budget()), ("Throttled", None));
    within(api.evict("jobs", "train-0", "u")).await.unwrap();
    let asked = &server.asked()[0];
    assert_eq!(
        (asked.method.as_str(), asked.path.as_str()),
        ("POST", "/api/v1/namespaces/jobs/pods/train-0/eviction")
    );
    assert_eq!(asked.body["metadata"], json!({"name": "train-0", "namespace": "jobs"}));
    assert_eq!(asked.body["deleteOptions"]["preconditions"]["uid"], "u");
}

#[tokio::test]
async fn what_is_forbidden_because_a_namespace_ends_is_known_as_that() {
    let refusal = |causes: Value| {
        json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "forbidden",
            "details": {"name": "train-0", "causes": causes}})
    };
    let ends = json!([{"reason": "NamespaceTerminating", "field": "metadata.namespace",
        "message": "namespace jobs is being terminated"}]);
    let server = Server::start(move |_, before| match before {
        0 => Answer::Json(403, refusal(ends.clone())),
        _ => Answer::Json(403, refusal(json!([]))),
    })
    .await;
    let api = server.api(limits()).await;
    for ends in [true, false] {
        let error = within(api.evict("jobs", "train-0", "u")).await.unwrap_err();
        assert!(
            matches!(error, ApiError::Forbidden { namespace_ends, .. } if namespace_ends == ends),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_node_is_changed_at_the_version_that_was_read() {
    let node =
        json!({"metadata": {"name": "node-a", "uid": "u", "resourceVersion": "7", "labels": {"a": "1"}}});
    let server = Server::start(move |asked, _| match asked.method.as_str() {
        "GET" => Answer::Json(200, node.clone()),
        _ => Answer::Json(
            409,
            json!({"kind": "Status", "code": 409, "reason": "Conflict", "message": "modified"}),
        ),
    })
    .await;
    let api = server.api(limits()).await;
    let (node, version) = within(api.get_node()).await.unwrap();
    assert_eq!((node.labels["a"].as_str(), version.as_str()), ("1", "7"));
    let metadata = MetadataChange { version: Some(version), ..MetadataChange::default() };
    let change = NodeChange { metadata, unschedulable: Some(true) };
    let error = within(api.change_node(&change)).await.unwrap_err();
    assert_eq!(error.reason(), "Conflict");
    let asked = &server.asked()[1];
    assert_eq!(asked.content_type, "application/merge-patch+json");
    assert_eq!(asked.body, json!({"metadata": {"resourceVersion": "7"}, "spec": {"unschedulable": true}}));
}
