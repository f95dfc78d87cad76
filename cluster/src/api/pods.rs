//! The node's own Pods.

use std::collections::BTreeMap;

use gpulet_inventory::pod::{Pod, PodContainer, PodPhase, QosClass};
use serde::Deserialize;

use super::meta::{Key, Meta, Object};

/// The annotation with the hash of a static Pod's file, by which the kubelet names its cgroups.
const CONFIG_HASH: &str = "kubernetes.io/config.hash";

/// A Pod as the API gives it, as far as it is read.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PodObject {
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    init_containers: Vec<Named>,
    containers: Vec<Named>,
    ephemeral_containers: Vec<Named>,
}

#[derive(Debug, Clone, Deserialize)]
struct Named {
    name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    qos_class: String,
    init_container_statuses: Vec<ContainerStatus>,
    container_statuses: Vec<ContainerStatus>,
    ephemeral_container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    name: String,
    #[serde(default, rename = "containerID")]
    container_id: String,
}

impl Object for PodObject {
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// What is used of it.
pub(crate) fn pod(object: PodObject) -> Pod {
    let PodObject { mut metadata, spec, status } = object;
    let all =
        [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    let ids: BTreeMap<&str, &str> = all
        .into_iter()
        .flatten()
        .map(|status| (status.name.as_str(), status.container_id.as_str()))
        .collect();
    let named = spec.init_containers.into_iter().chain(spec.containers).chain(spec.ephemeral_containers);
    let containers = named.map(|Named { name }| {
        // `containerd://` and the like.
        let id = ids.get(name.as_str()).and_then(|id| id.split_once("://")).map(|(_, id)| id.to_owned());
        PodContainer { id, name }
    });
    Pod {
        config_hash: metadata.annotations.remove(CONFIG_HASH),
        phase: phase(&status.phase),
        qos: qos(&status.qos_class),
        deleting: metadata.deletion_timestamp.is_some(),
        containers: containers.collect(),
        namespace: metadata.namespace,
        name: metadata.name,
        uid: metadata.uid,
    }
}

/// All of them, by namespace and name.
pub(crate) fn all(pods: &BTreeMap<Key, Pod>) -> Vec<Pod> {
    pods.values().cloned().collect()
}

fn phase(word: &str) -> PodPhase {
    match word {
        // A Pod that was never looked at has none.
        "Pending" | "" => PodPhase::Pending,
        "Running" => PodPhase::Running,
        "Succeeded" => PodPhase::Succeeded,
        "Failed" => PodPhase::Failed,
        _ => PodPhase::Unknown,
    }
}

fn qos(word: &str) -> QosClass {
    match word {
        "Guaranteed" => QosClass::Guaranteed,
        "Burstable" => QosClass::Burstable,
        _ => QosClass::BestEffort,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_static_pod_is_cut_down_to_what_is_used() {
        let object: PodObject = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "etcd-a", "namespace": "kube-system", "uid": "u", "resourceVersion": "7",
                "deletionTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{"manager": "kubelet"}],
                "annotations": {"kubernetes.io/config.hash": "0123", "other": "x"}},
            "spec": {"initContainers": [{"name": "wait"}], "containers": [{"name": "etcd", "image": "etcd"}]},
            "status": {"phase": "Running", "qosClass": "Burstable",
                "containerStatuses": [{"name": "etcd", "containerID": "containerd://abcd"}],
                "initContainerStatuses": [{"name": "wait"}]},
        }))
        .unwrap();
        let container =
            |name: &str, id: Option<&str>| PodContainer { name: name.into(), id: id.map(str::to_owned) };
        assert_eq!(
            pod(object),
            Pod {
                namespace: "kube-system".into(),
                name: "etcd-a".into(),
                uid: "u".into(),
                config_hash: Some("0123".into()),
                phase: PodPhase::Running,
                qos: QosClass::Burstable,
                deleting: true,
                containers: vec![container("wait", None), container("etcd", Some("abcd"))],
            }
        );
    }

    #[test]
    fn a_pod_without_status_is_pending() {
        let object = serde_json::from_value(serde_json::json!({"metadata": {"name": "a", "namespace": "b"}}));
        assert_eq!(pod(object.unwrap()).phase, PodPhase::Pending);
    }
}
