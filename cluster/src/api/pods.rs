//! The node's own Pods.

use std::collections::BTreeMap;

use gpulet_inventory::pod::{Keeper, Pod, PodContainer, PodPhase, QosClass, Role};
use serde::Deserialize;
use serde_json::Value;

use super::meta::{Key, Meta, Object};

/// The annotation with the hash of a static Pod's file, by which the kubelet names its cgroups.
const CONFIG_HASH: &str = "kubernetes.io/config.hash";
/// The annotation of what the API shows of a static Pod.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// How the labels begin by which NVIDIA's operator places its parts.
const DEPLOY: &str = "nvidia.com/gpu.deploy.";

/// A Pod as the API gives it, as far as it is read.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct PodObject {
    metadata: PodMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodMeta {
    #[serde(flatten)]
    meta: Meta,
    #[serde(default)]
    owner_references: Vec<Owner>,
}

#[derive(Debug, Clone, Deserialize)]
struct Owner {
    kind: String,
    #[serde(default)]
    controller: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    init_containers: Vec<Named>,
    containers: Vec<Named>,
    ephemeral_containers: Vec<Named>,
    // `null` in objects that were written by hand.
    node_selector: Option<BTreeMap<String, String>>,
    affinity: Option<Affinity>,
}

#[derive(Debug, Clone, Deserialize)]
struct Named {
    name: String,
    #[serde(default)]
    env: Vec<Variable>,
}

#[derive(Debug, Clone, Deserialize)]
struct Variable {
    name: String,
    #[serde(default)]
    value: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    node_affinity: Option<NodeAffinity>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinity {
    // Read later: of all that stands here only the keys are used.
    required_during_scheduling_ignored_during_execution: Value,
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
        &self.metadata.meta
    }
}

/// What is used of it.
pub(crate) fn pod(object: PodObject) -> Pod {
    let PodObject { metadata: PodMeta { meta: mut metadata, owner_references }, spec, status } = object;
    let keeper = keeper(&metadata, &owner_references);
    let (deployed_by, role) = (deployed_by(&spec), role(&metadata.labels, &spec));
    let all =
        [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    let ids: BTreeMap<&str, &str> = all
        .into_iter()
        .flatten()
        .map(|status| (status.name.as_str(), status.container_id.as_str()))
        .collect();
    let named = spec.init_containers.into_iter().chain(spec.containers).chain(spec.ephemeral_containers);
    let containers = named.map(|Named { name, .. }| {
        // `containerd://` and the like.
        let id = ids.get(name.as_str()).and_then(|id| id.split_once("://")).map(|(_, id)| id.to_owned());
        PodContainer { id, name }
    });
    Pod {
        config_hash: metadata.annotations.remove(CONFIG_HASH),
        phase: phase(&status.phase),
        qos: qos(&status.qos_class),
        deleting: metadata.deletion_timestamp.is_some(),
        keeper,
        deployed_by,
        role,
        containers: containers.collect(),
        namespace: metadata.namespace,
        name: metadata.name,
        uid: metadata.uid,
    }
}

fn keeper(meta: &Meta, owners: &[Owner]) -> Keeper {
    let is = |kind: &str| owners.iter().any(|owner| owner.controller && owner.kind == kind);
    match () {
        () if meta.annotations.contains_key(MIRROR) || is("Node") => Keeper::File,
        () if is("DaemonSet") => Keeper::DaemonSet,
        () => Keeper::Other,
    }
}

/// The labels that NVIDIA's operator places it by. A DaemonSet ends its Pod when the node has lost one, of the selector as of
/// a required affinity.
fn deployed_by(spec: &Spec) -> Vec<String> {
    let selected = spec.node_selector.iter().flatten().map(|(key, _)| key.clone());
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let terms = affinity
        .and_then(|affinity| {
            affinity.required_during_scheduling_ignored_during_execution.get("nodeSelectorTerms")
        })
        .and_then(Value::as_array);
    let expressions = terms.into_iter().flatten().filter_map(|term| term.get("matchExpressions")?.as_array());
    // That a label is `true`; not that it is absent.
    let wanted =
        expressions.flatten().filter(|one| one.get("operator").and_then(Value::as_str) == Some("In"));
    let keys = wanted.filter_map(|one| one.get("key")?.as_str().map(str::to_owned));
    let mut keys: Vec<String> = selected.chain(keys).filter(|key| key.starts_with(DEPLOY)).collect();
    keys.sort();
    keys.dedup();
    keys
}

fn role(labels: &BTreeMap<String, String>, spec: &Spec) -> Option<Role> {
    let has = |key: &str, value: &str| labels.get(key).is_some_and(|there| there == value);
    let dynamic = |variable: &Variable| {
        let mut gates = variable.value.split(',');
        variable.name == "FEATURE_GATES"
            && gates.any(|gate| gate.trim().eq_ignore_ascii_case("DynamicMIG=true"))
    };
    let kubelet_plugin = ["nvidia-dra-driver-gpu-component", "dra-driver-nvidia-gpu-component"]
        .iter()
        .any(|key| has(key, "kubelet-plugin"));
    match () {
        () if has("app", "nvidia-mig-manager") => Some(Role::MigManager),
        () if has("app.kubernetes.io/component", "hami-device-plugin") => Some(Role::Hami),
        () if kubelet_plugin && spec.containers.iter().flat_map(|one| &one.env).any(dynamic) => {
            Some(Role::DynamicMig)
        }
        () if has("app", "nvidia-device-plugin-daemonset")
            || has("name", "nvidia-device-plugin-ds")
            || has("app.kubernetes.io/name", "nvidia-device-plugin") =>
        {
            Some(Role::DevicePlugin)
        }
        () => None,
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
                "annotations": {"kubernetes.io/config.hash": "0123", "kubernetes.io/config.mirror": "0123", "other": "x"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "1", "controller": true}]},
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
                keeper: Keeper::File,
                deployed_by: Vec::new(),
                role: None,
                containers: vec![container("wait", None), container("etcd", Some("abcd"))],
            }
        );
    }

    fn read(labels: Value, spec: Value) -> Pod {
        let metadata = serde_json::json!({"name": "a", "namespace": "b", "labels": labels,
            "ownerReferences": [{"kind": "DaemonSet", "name": "d", "controller": true}]});
        pod(serde_json::from_value(serde_json::json!({"metadata": metadata, "spec": spec})).unwrap())
    }

    #[test]
    fn what_has_to_go_without_a_label_is_known() {
        let key = "nvidia.com/gpu.deploy.dcgm";
        let selector =
            read(serde_json::json!({}), serde_json::json!({"nodeSelector": {key: "true", "other": "x"}}));
        assert_eq!((selector.deployed_by, selector.keeper), (vec![key.to_owned()], Keeper::DaemonSet));
        let affinity = |operator: &str| {
            let terms = serde_json::json!([{"matchExpressions": [{"key": key, "operator": operator, "values": ["true"]}]}]);
            let required = serde_json::json!({"nodeSelectorTerms": terms});
            let node = serde_json::json!({"requiredDuringSchedulingIgnoredDuringExecution": required});
            read(serde_json::json!({}), serde_json::json!({"affinity": {"nodeAffinity": node}})).deployed_by
        };
        assert_eq!((affinity("In"), affinity("NotIn")), (vec![key.to_owned()], vec![]));
    }

    #[test]
    fn who_else_divides_gpus_is_known_by_its_labels() {
        let role = |labels: Value, spec: Value| read(labels, spec).role;
        let plain = |labels: Value| role(labels, Value::Object(serde_json::Map::default()));
        assert_eq!(plain(serde_json::json!({"app": "nvidia-mig-manager"})), Some(Role::MigManager));
        let hami = serde_json::json!({"app.kubernetes.io/component": "hami-device-plugin", "app.kubernetes.io/name": "hami"});
        assert_eq!(plain(hami), Some(Role::Hami));
        assert_eq!(plain(serde_json::json!({"name": "nvidia-device-plugin-ds"})), Some(Role::DevicePlugin));
        assert_eq!(plain(serde_json::json!({"app": "nginx"})), None);
        let gates = |value: &str| {
            let labels = serde_json::json!({"nvidia-dra-driver-gpu-component": "kubelet-plugin"});
            let env = serde_json::json!([{"name": "FEATURE_GATES", "value": value}, {"name": "NODE", "valueFrom": {}}]);
            role(labels, serde_json::json!({"containers": [{"name": "gpus", "env": env}]}))
        };
        assert_eq!(gates("IMEXDaemons=true,DynamicMIG=true,"), Some(Role::DynamicMig));
        assert_eq!((gates("DynamicMIG=false,"), gates("")), (None, None));
    }

    #[test]
    fn a_pod_without_status_is_pending() {
        let object = serde_json::from_value(serde_json::json!({"metadata": {"name": "a", "namespace": "b"}}));
        assert_eq!(pod(object.unwrap()).phase, PodPhase::Pending);
    }
}
