//! Nodes and Pods of the size that they have in clusters, and what a kubelet tells of them.
//!
//! The sizes matter: every change of a Node or a Pod is sent whole to whoever watches it.

use serde_json::{Value, json};

use super::Client;

/// A kubelet reports at most this many images of its node (`nodeStatusMaxImages`).
const IMAGES: usize = 50;

/// What is told of a Pod as it comes and goes, in order. The API server's watchers see each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Created, and bound to its node.
    Bound,
    /// Its network is there, its image is pulled.
    Preparing,
    /// Its container runs.
    Running,
    /// It is to end; its kubelet is asked to.
    Ending,
    /// Its container has ended.
    Ended,
    /// It is gone.
    Gone,
}

impl Stage {
    /// From its begin to its running.
    pub const START: [Self; 3] = [Self::Bound, Self::Preparing, Self::Running];
    /// From its running to its end.
    pub const END: [Self; 3] = [Self::Ending, Self::Ended, Self::Gone];
}

impl Client {
    /// Makes Node `name` what a kubelet tells of a GPU machine; `heartbeat` tells one report from the next.
    pub fn report_node(&self, name: &str, heartbeat: usize) {
        let path = format!("/api/v1/nodes/{name}/status");
        self.strategic(&path, &node_status(heartbeat)).ok();
    }

    /// Takes Pod `name` in namespace `default` to `stage`.
    pub fn take_pod(&self, name: &str, node: &str, stage: Stage) {
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        let tell = |status: Value| {
            self.strategic(&format!("{path}/status"), &json!({ "status": status })).ok();
        };
        match stage {
            Stage::Bound => {
                self.create("/api/v1/namespaces/default/pods", &pod(name, node)).ok();
            }
            Stage::Preparing => {
                let waiting = json!({ "waiting": { "reason": "ContainerCreating" } });
                tell(pod_status("Pending", false, &waiting));
            }
            Stage::Running => {
                tell(pod_status(
                    "Running",
                    true,
                    &json!({ "running": { "startedAt": TIME }, "waiting": null }),
                ));
            }
            Stage::Ending => {
                self.delete(&format!("{path}?gracePeriodSeconds=30")).ok();
            }
            Stage::Ended => {
                let ended =
                    json!({ "exitCode": 0, "reason": "Completed", "startedAt": TIME, "finishedAt": TIME });
                tell(pod_status("Succeeded", false, &json!({ "terminated": ended, "running": null })));
            }
            Stage::Gone => {
                self.delete(&format!("{path}?gracePeriodSeconds=0")).ok();
            }
        }
    }
}

const TIME: &str = "2026-01-01T00:00:00Z";
const CONTAINER: &str = "containerd://5f3c1d9be0a7c24f6d8e1b3a9c7f5e2d4b6a8c0e1f3d5b7a9c1e3f5d7b9a0c2e";

/// A training Pod: one container that has a GPU, with the environment, volumes and tolerations of its kind.
pub fn pod(name: &str, node: &str) -> Value {
    let variable = |number: usize| {
        let value = format!("/workspace/run-2026-01-01/step-{number:02}/checkpoint");
        json!({ "name": format!("TRAINING_PARAMETER_{number:02}"), "value": value })
    };
    let tolerate = |key: &str| json!({ "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300 });
    let amounts = json!({ "cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1" });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default",
            "labels": {
                "app": "trainer", "batch.kubernetes.io/job-name": "trainer-llm-7b",
                "batch.kubernetes.io/controller-uid": "0b0e7a5c-7a53-4d0e-9d0f-3f1c5a9b7e21",
                "topology.kubernetes.io/zone": "zone-a", "team": "research",
            },
            "annotations": {
                "prometheus.io/scrape": "true", "prometheus.io/port": "9400",
                "k8s.v1.cni.cncf.io/network-status": r#"[{"name": "net", "interface": "eth0", "ips": ["10.1.2.3"], "default": true}]"#,
            },
        },
        "spec": {
            "nodeName": node, "restartPolicy": "Never", "priority": 0, "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30,
            "containers": [{
                "name": "main", "image": "registry.example/research/trainer:2026.01.01-3f1c5a9",
                "command": ["python", "-m", "trainer.main"], "args": ["--config", "/etc/trainer/config.yaml"],
                "env": (0..20).map(variable).collect::<Vec<_>>(),
                "resources": { "limits": amounts, "requests": amounts },
                "volumeMounts": [
                    { "name": "shared-memory", "mountPath": "/dev/shm" },
                    { "name": "scratch", "mountPath": "/scratch" },
                ],
                "livenessProbe": { "httpGet": { "path": "/healthz", "port": 9400 }, "periodSeconds": 10 },
            }],
            "volumes": [
                { "name": "shared-memory", "emptyDir": { "medium": "Memory" } },
                { "name": "scratch", "emptyDir": {} },
            ],
            "tolerations": [
                tolerate("node.kubernetes.io/not-ready"), tolerate("node.kubernetes.io/unreachable"),
                { "key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule" },
            ],
        },
    })
}

fn pod_status(phase: &str, ready: bool, state: &Value) -> Value {
    let condition = |kind: &str, holds: bool| {
        let status = if holds { "True" } else { "False" };
        json!({ "type": kind, "status": status, "lastTransitionTime": TIME })
    };
    let mut container = json!({
        "name": "main", "ready": ready, "started": ready, "restartCount": 0, "state": state,
        "image": "registry.example/research/trainer:2026.01.01-3f1c5a9", "imageID": "",
    });
    if phase != "Pending" {
        container["containerID"] = CONTAINER.into();
        container["imageID"] =
            "registry.example/research/trainer@sha256:5f3c1d9be0a7c24f6d8e1b3a9c7f5e2d4b6a8c0e1f3d5b7a9c1e3f5d7b9a0c2e".into();
    }
    json!({
        "phase": phase, "startTime": TIME, "hostIP": "10.0.0.1", "podIP": "10.1.2.3",
        "hostIPs": [{ "ip": "10.0.0.1" }], "podIPs": [{ "ip": "10.1.2.3" }],
        "conditions": [
            condition("PodReadyToStartContainers", true), condition("Initialized", true), condition("PodScheduled", true),
            condition("Ready", ready), condition("ContainersReady", ready),
        ],
        "containerStatuses": [container],
    })
}

fn node_status(heartbeat: usize) -> Value {
    let time = format!("2026-01-01T00:{:02}:{:02}Z", heartbeat / 60 % 60, heartbeat % 60);
    let condition = |kind: &str, status: &str, reason: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": format!("kubelet has {reason}"),
            "lastHeartbeatTime": time, "lastTransitionTime": TIME,
        })
    };
    let image = |number: usize| {
        let name = format!("registry.example/research/image-{number:02}");
        let digest =
            format!("{name}@sha256:5f3c1d9be0a7c24f6d8e1b3a9c7f5e2d4b6a8c0e1f3d5b7a9c1e3f5d7b9a{number:04}");
        json!({ "names": [digest, format!("{name}:2026.01.01")], "sizeBytes": 12_345_678_901_u64 })
    };
    let amounts = json!({
        "cpu": "224", "memory": "2113532Mi", "ephemeral-storage": "1757Gi", "hugepages-1Gi": "0", "hugepages-2Mi": "0",
        "pods": "110", "nvidia.com/gpu": "8", "rdma/rdma_shared_device_a": "63",
    });
    json!({ "status": {
        "capacity": amounts, "allocatable": amounts,
        "conditions": [
            condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            condition("PIDPressure", "False", "KubeletHasSufficientPID"),
            condition("Ready", "True", "KubeletReady"),
        ],
        "nodeInfo": {
            "machineID": "0123456789abcdef0123456789abcdef", "systemUUID": "00000000-0000-0000-0000-000000000000",
            "bootID": "00000000-0000-0000-0000-000000000000", "kernelVersion": "6.8.0-1024-generic",
            "osImage": "Ubuntu 24.04 LTS", "containerRuntimeVersion": "containerd://2.1.4", "kubeletVersion": "v1.36.0",
            "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
        },
        "images": (0..IMAGES).map(image).collect::<Vec<_>>(),
    } })
}
