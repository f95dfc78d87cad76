//! Our own Node, our own Pods and our own devices, and those of nobody else.

use gpulet_cluster::api::{Api, Condition, ConditionStatus, Event, EventKind, MetadataChange, NodeChange};
use gpulet_inventory::pod::PodPhase;
use gpulet_tests::ControlPlane;
use serde_json::{Value, json};

use crate::support::{AGENT, as_agent, as_kubelet, cluster, eventually, until};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs etcd and kube-apiserver"]
async fn only_what_is_ours_is_asked_for_over_one_connection() {
    let plane = cluster(&[]);
    plane.create_pod("default", "ours", "a", "default");
    plane.create_pod("default", "theirs", "b", "default");
    let before = connections(plane.port());
    let (api, _mounted) = as_agent(&plane).await;
    let (mut node, mut pods, mut slices, mut nrt) =
        (api.node(), api.pods(), api.resource_slices(), api.nrt());
    let own = until(&mut node, "the Node", |seen| seen.value.as_deref()?.clone()).await;
    assert_eq!((own.name.as_str(), own.unschedulable, own.conditions.len()), ("a", false, 0));
    let names = |seen: &gpulet_cluster::api::Seen<Vec<gpulet_inventory::pod::Pod>>| {
        let pods = seen.value.as_deref()?.iter().map(|pod| (pod.name.clone(), pod.phase));
        Some(pods.collect::<Vec<_>>())
    };
    assert_eq!(until(&mut pods, "Pods", names).await, [("ours".to_owned(), PodPhase::Running)]);
    until(&mut slices, "slices", |seen| seen.value.as_deref()?.is_empty().then_some(())).await;
    until(&mut nrt, "topology", |seen| seen.value.as_deref()?.is_none().then_some(())).await;
    until(&mut nrt, "no trouble", |seen| seen.trouble.is_none().then_some(())).await;
    all_are_watched(&api).await;
    assert_eq!(connections(plane.port()) - before, 1, "HTTP/2: all four watches share it");

    plane.create_pod("default", "theirs-too", "b", "default");
    plane.set_phase("default", "ours", "Succeeded");
    until(&mut pods, "it ended", |seen| {
        (names(seen)? == [("ours".to_owned(), PodPhase::Succeeded)]).then_some(())
    })
    .await;
    plane.delete_pod("default", "ours");
    until(&mut pods, "it is gone", |seen| names(seen)?.is_empty().then_some(())).await;
    plane.admin().merge("/api/v1/nodes/a", &json!({"spec": {"unschedulable": true}})).ok();
    until(&mut node, "cordoned", |seen| seen.value.as_deref()?.as_ref()?.unschedulable.then_some(())).await;
    publish_slice(&plane);
    let devices = until(&mut slices, "devices", |seen| {
        let devices = seen.value.clone()?;
        (!devices.is_empty()).then_some(devices)
    })
    .await;
    assert_eq!(devices[0].uuid.as_deref(), Some("GPU-1"));

    asked_for_its_own(&plane, AGENT);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs etcd and kube-apiserver"]
async fn the_kubelets_credentials_are_enough_to_watch() {
    let plane = cluster(&[]);
    plane.create_pod("default", "ours", "a", "default");
    plane.create_pod("default", "theirs", "b", "default");
    publish_slice(&plane);
    let (api, _root) = as_kubelet(&plane).await;
    let (mut node, mut pods, mut slices, mut nrt) =
        (api.node(), api.pods(), api.resource_slices(), api.nrt());
    until(&mut node, "the Node", |seen| seen.value.as_deref()?.is_some().then_some(())).await;
    until(&mut pods, "Pods", |seen| (seen.value.as_deref()?.len() == 1).then_some(())).await;
    until(&mut slices, "slices", |seen| (seen.value.as_deref()?.len() == 1).then_some(())).await;
    until(&mut nrt, "topology", |seen| seen.value.as_deref()?.is_none().then_some(())).await;
    all_are_watched(&api).await;
    asked_for_its_own(&plane, "system:node:a");
}

async fn all_are_watched(api: &Api) {
    eventually("all four are watched", async || {
        let watched = ["nodes", "pods", "resourceslices", "noderesourcetopologies"];
        let traffic = api.traffic();
        watched.iter().all(|resource| traffic.requests("watch", resource) == 1).then_some(()).ok_or("not yet")
    })
    .await;
}

/// What they asked for is their own, and each kind was listed once and watched once.
fn asked_for_its_own(plane: &ControlPlane, user: &str) {
    let requests = plane.requests();
    let theirs: Vec<_> = requests.iter().filter(|request| request.user == user).collect();
    assert_eq!(theirs.len(), 8, "{theirs:#?}");
    for request in theirs {
        let own = ["fieldSelector=metadata.name%3Da", "fieldSelector=spec.nodeName%3Da"];
        assert!(own.iter().any(|selector| request.uri.contains(selector)), "{request:?}");
        assert!(request.user_agent.starts_with("gpulet/"), "{request:?}");
        assert!(["list", "watch"].contains(&request.verb.as_str()) && request.code == 200, "{request:?}");
    }
}

/// Connections of this process to the port that are established.
fn connections(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let own = own_sockets();
    let to = format!(":{port:04X}");
    let lines = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.filter(|fields| fields[2].ends_with(&to) && fields[3] == "01" && own.contains(fields[9])).count()
}

fn own_sockets() -> std::collections::BTreeSet<String> {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    let names = links.map(|link| link.display().to_string());
    names.filter_map(|name| Some(name.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())).collect()
}

fn publish_slice(plane: &ControlPlane) {
    for (node, uuid) in [("a", "GPU-1"), ("b", "GPU-2")] {
        let slice = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": format!("{node}-gpus")},
            "spec": {"driver": "gpu.nvidia.com", "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0", "attributes": {"uuid": {"string": uuid}, "numaNode": {"int": 1}}}]},
        });
        plane.admin().create("/apis/resource.k8s.io/v1/resourceslices", &slice).ok();
    }
}

fn conditions(plane: &ControlPlane) -> Vec<Value> {
    let node = plane.admin().get("/api/v1/nodes/a").ok();
    node["status"]["conditions"].as_array().unwrap().clone()
}

fn healthy(plane: &ControlPlane) -> Value {
    conditions(plane).into_iter().find(|condition| condition["type"] == "GpuHealthy").unwrap()
}

async fn tells_of_the_node(plane: &ControlPlane, api: &Api) {
    let condition = |status, reason: &str, message: &str| Condition {
        kind: "GpuHealthy".into(),
        status,
        reason: reason.into(),
        message: message.into(),
    };
    let first = condition(ConditionStatus::True, "Healthy", "8 GPUs");
    assert!(eventually("set", async || api.set_condition(&first).await).await);
    assert!(!api.set_condition(&first).await.unwrap(), "as it is already");
    let before = healthy(plane);
    assert!(api.set_condition(&condition(ConditionStatus::True, "Healthy", "7 GPUs")).await.unwrap());
    let same = healthy(plane);
    assert_eq!((&same["message"], &same["status"]), (&json!("7 GPUs"), &json!("True")));
    assert_eq!(same["lastTransitionTime"], before["lastTransitionTime"], "its status is the same");
    // Times are in seconds.
    let second = || std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let now = second();
    eventually("a second later", async || (second() > now).then_some(()).ok_or("not yet")).await;
    assert!(
        api.set_condition(&condition(ConditionStatus::False, "TopologyFindings", "no link")).await.unwrap()
    );
    assert!(healthy(plane)["lastTransitionTime"].as_str() > before["lastTransitionTime"].as_str());
    let ready = conditions(plane).into_iter().find(|condition| condition["type"] == "Ready").unwrap();
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("True"), &json!("Up")), "no other is touched");
    let mut node = api.node();
    let seen = until(&mut node, "our condition", |seen| {
        seen.value.as_deref()?.as_ref()?.conditions.first().cloned()
    })
    .await;
    assert_eq!((seen.status, seen.reason.as_str()), (ConditionStatus::False, "TopologyFindings"));

    let event = Event {
        kind: EventKind::Warning,
        reason: "OtherPublisher".into(),
        action: "Publish".into(),
        note: format!("told by {}", api.place()),
    };
    for _ in 0..3 {
        api.event(&event).await.unwrap();
    }
    // What `kubectl describe node` looks for.
    let listed =
        plane.admin().get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.uid%3Da").ok();
    let told: Vec<_> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["message"] == event.note.as_str())
        .collect();
    assert_eq!(told.len(), 1);
    assert_eq!((&told[0]["series"]["count"], &told[0]["reason"]), (&json!(3), &json!("OtherPublisher")));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs etcd and kube-apiserver"]
async fn both_identities_may_tell_of_the_node() {
    let plane = cluster(&[]);
    let (agent, _mounted) = as_agent(&plane).await;
    tells_of_the_node(&plane, &agent).await;
    let (kubelet, _root) = as_kubelet(&plane).await;
    tells_of_the_node(&plane, &kubelet).await;
    let label = ("gpulet.dev/mps.config.state".to_owned(), Some("success".to_owned()));
    let metadata = MetadataChange { labels: [label.clone()].into(), ..MetadataChange::default() };
    let mut change = NodeChange { metadata, unschedulable: None };
    for api in [&agent, &kubelet] {
        api.change_node(&change).await.unwrap();
        assert_eq!(plane.admin().get("/api/v1/nodes/a").ok()["metadata"]["labels"][&label.0], "success");
        change.metadata.labels.insert(label.0.clone(), None);
        api.change_node(&change).await.unwrap();
        assert_eq!(plane.admin().get("/api/v1/nodes/a").ok()["metadata"]["labels"][&label.0], Value::Null);
        change.metadata.labels.insert(label.0.clone(), label.1.clone());
    }
}
