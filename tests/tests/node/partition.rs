//! A label divides one GPU of a node whose kubelet, Pods and evictions are real: the Pod that has it is moved away, the
//! others notice nothing, and the kubelet then advertises what there is.
//!
//! NVIDIA's device plugin sees devices only when it starts. That its Pod was paused and is another one is what makes the
//! kubelet know.

use std::collections::BTreeMap;
use std::time::Instant;

use gpulet_tests::{Answers, ControlPlane, RealNode};
use serde_json::{Value, json};

const OPERATOR: &str = "gpu-operator";
const PODS: &str = "/api/v1/namespaces/default/pods";
const GPUS: &str = "nvidia.com/gpu";
const MIG: &str = "nvidia.com/mig-1g.10gb";

/// A node that gpulet runs on as a DaemonSet.
struct Partition<'a> {
    plane: &'a ControlPlane,
    node: &'a RealNode,
}

/// All of it; about a minute and a half.
pub(crate) fn a_label_divides_one_gpu(plane: &ControlPlane, node: &RealNode) {
    let it = Partition { plane, node };
    node.run("systemctl stop device-plugin");
    it.start_plugin();
    it.wait_for_advertised(&[(GPUS, 6)]);
    let divisible = it.divisible();
    // The plugin would rather give away the first one, which is the one that can be divided.
    it.start("moved", GPUS);
    it.start("stays", GPUS);
    let answers = node.pod_resources();
    assert_eq!(devices(&answers, "moved"), [divisible.as_str()]);
    let stays = it.pod("stays").unwrap();

    let begun = Instant::now();
    it.label(&json!({ "gpulet.dev/when-busy": "drain", "nvidia.com/mig.config": "all-1g.10gb" }));
    it.wait_for_state("success");
    println!("drained and divided after {} ms", begun.elapsed().as_millis());
    assert!(it.pod("moved").is_none(), "the Pod that had it is gone");
    assert_eq!(it.pod("stays").unwrap()["metadata"]["uid"], stays["metadata"]["uid"]);
    assert_eq!(it.pod("stays").unwrap()["status"]["containerStatuses"], stays["status"]["containerStatuses"]);
    assert_ne!(it.object()["spec"]["unschedulable"], true);
    let evicted: Vec<_> =
        plane.requests().into_iter().filter(|request| request.resource == "pods/eviction").collect();
    assert!(
        evicted.iter().all(|request| request.uri.contains("/moved/")) && !evicted.is_empty(),
        "{evicted:?}"
    );
    it.wait_for_advertised(&[(GPUS, 5), (MIG, 7)]);
    let noticed = "grep -rh DevicePluginRefreshed /var/log/pods/gpulet_*";
    node.wait_for("gpulet has seen that it does", || {
        node.try_run(noticed).filter(|ran| ran.status == 0).map(drop)
    });
    // Two of the driver, and two of each instance.
    assert_eq!(it.capability_files(), 2 + 2 * 7);

    // What is advertised can be had; and who has it is in the way of the next change.
    it.start("small", MIG);
    let answers = node.pod_resources();
    let small = devices(&answers, "small");
    assert!(small.len() == 1 && small[0].starts_with("MIG-"), "{small:?}");
    let seen = "ls /proc/$(pgrep -f '^/bin/sleep 2000000$')/root/dev/nvidia-caps | wc -l";
    assert_eq!(node.run(seen).trim(), "2", "the files of its instance, and no others");
    it.label(&json!({ "gpulet.dev/when-busy": "refuse", "nvidia.com/mig.config": "all-disabled" }));
    it.wait_for_state("failed");
    let status = it.status();
    assert!(status["message"].as_str().unwrap().contains("default/small"), "{status:#}");
    assert_eq!(it.pod("small").unwrap()["status"]["phase"], "Running");
    plane.admin().delete(&format!("{PODS}/small")).ok();
    it.wait_for_state("success");
    it.wait_for_advertised(&[(GPUS, 6), (MIG, 0)]);
    assert_eq!(it.capability_files(), 2);
    assert_eq!(it.pod("stays").unwrap()["metadata"]["uid"], stays["metadata"]["uid"]);
    plane.admin().delete(&format!("{PODS}/stays")).ok();
}

impl Partition<'_> {
    /// NVIDIA's device plugin, as its operator has it: where a label says so, and looking once.
    fn start_plugin(&self) {
        self.plane.create_namespace(OPERATOR);
        let labels = json!({ "app": "nvidia-device-plugin-daemonset" });
        let mounts = ["/payload", "/run/nvidia/simulated", "/var/lib/kubelet/device-plugins", "/dev"];
        let names = mounts.map(|path| path[1..].replace('/', "-"));
        let volumes: Vec<_> = mounts
            .iter()
            .zip(&names)
            .map(|(path, name)| json!({ "name": name, "hostPath": { "path": path } }))
            .collect();
        let mounts: Vec<_> = mounts
            .iter()
            .zip(&names)
            .map(|(path, name)| json!({ "name": name, "mountPath": path }))
            .collect();
        let daemonset = json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": { "name": "nvidia-device-plugin-daemonset", "namespace": OPERATOR },
            "spec": {
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": {
                        "nodeSelector": { "nvidia.com/gpu.deploy.device-plugin": "true" },
                        "automountServiceAccountToken": false, "enableServiceLinks": false, "dnsPolicy": "Default",
                        "terminationGracePeriodSeconds": 1,
                        "tolerations": [{ "operator": "Exists" }],
                        "containers": [{
                            // Of gpulet's image only the C library is used.
                            "name": "plugin", "image": "gpulet:0.1.0", "imagePullPolicy": "Never",
                            "command": [
                                "/payload/bin/gpulet-sim", "device-plugin", "--dir", "/run/nvidia/simulated",
                                "--mig", "mixed", "--once", "--prefer",
                            ],
                            "volumeMounts": mounts,
                        }],
                        "volumes": volumes,
                    },
                },
            },
        });
        self.plane.apply_object(&daemonset, false).ok();
        self.label(&json!({ "nvidia.com/gpu.deploy.device-plugin": "true" }));
        self.node.wait_for("the plugin's Pod runs", || {
            let path =
                format!("/apis/apps/v1/namespaces/{OPERATOR}/daemonsets/nvidia-device-plugin-daemonset");
            (self.plane.admin().get(&path).ok()["status"]["numberReady"] == 1).then_some(())
        });
    }

    /// UUID of the one GPU that can be divided.
    fn divisible(&self) -> String {
        let state = self.node.run("/payload/bin/gpulet-sim state -o json --dir /run/nvidia/simulated");
        let state: Value = serde_json::from_str(&state).unwrap();
        let mut gpus = state["gpus"].as_array().unwrap().iter().filter(|gpu| !gpu["mig"].is_null());
        let uuid = gpus.next().unwrap()["identity"]["uuid"].as_str().unwrap().to_owned();
        assert!(gpus.next().is_none());
        uuid
    }

    /// How many device files of capabilities there are.
    fn capability_files(&self) -> usize {
        self.node.run("find /dev/nvidia-caps -type c").lines().filter(|line| !line.is_empty()).count()
    }

    fn label(&self, labels: &Value) {
        let path = format!("/api/v1/nodes/{}", RealNode::NAME);
        self.plane.admin().merge(&path, &json!({ "metadata": { "labels": labels } })).ok();
    }

    fn object(&self) -> Value {
        self.plane.admin().get(&format!("/api/v1/nodes/{}", RealNode::NAME)).ok()
    }

    fn status(&self) -> Value {
        let node = self.object();
        let text = node["metadata"]["annotations"]["gpulet.dev/partition-status"].as_str();
        text.map(|text| serde_json::from_str(text).unwrap()).unwrap_or_default()
    }

    /// Waits until what the labels ask for has come to `state`.
    fn wait_for_state(&self, state: &str) {
        let mut seen = Value::Null;
        self.node.wait_for(&format!("the change: {state}"), || {
            let (node, status) = (self.object(), self.status());
            let labels = &node["metadata"]["labels"];
            if status != seen {
                println!("{}: {status}", labels["nvidia.com/mig.config.state"]);
                seen = status.clone();
            }
            let this = status["config"] == labels["nvidia.com/mig.config"];
            (this && labels["nvidia.com/mig.config.state"] == state).then_some(())
        });
    }

    /// Waits until the kubelet says that there is so much of each resource, and no other of NVIDIA's.
    fn wait_for_advertised(&self, wanted: &[(&str, u64)]) {
        let wanted: BTreeMap<String, u64> =
            wanted.iter().map(|(name, amount)| ((*name).to_owned(), *amount)).collect();
        let mut seen = BTreeMap::new();
        self.node.wait_for(&format!("the kubelet advertises {wanted:?}"), || {
            let node = self.object();
            let all = node["status"]["allocatable"].as_object().unwrap().iter();
            let ours = all.filter(|(name, _)| name.starts_with("nvidia.com/"));
            let now = ours
                .map(|(name, amount)| (name.clone(), amount.as_str().unwrap().parse().unwrap()))
                .collect();
            if now != seen {
                println!("advertised: {now:?}");
                seen = now;
            }
            (seen == wanted).then_some(())
        });
    }

    /// Starts a Pod with one device, and waits until it runs.
    fn start(&self, name: &str, resource: &str) {
        // By which its process can be found.
        let sleep = if resource == MIG { "2000000" } else { "1000000" };
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "default" },
            "spec": {
                "nodeName": RealNode::NAME, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": false, "enableServiceLinks": false, "dnsPolicy": "Default",
                "containers": [{
                    "name": "main", "image": "gpulet.test/pod:1", "imagePullPolicy": "Never",
                    "command": ["/bin/sleep", sleep], "resources": { "limits": { resource: "1" } },
                }],
            },
        });
        self.plane.admin().create(PODS, &pod).ok();
        self.node.wait_for("the Pod runs", || {
            let status = &self.pod(name)?["status"];
            assert_ne!(status["phase"], "Failed", "{status}");
            (status["phase"] == "Running").then_some(())
        });
    }

    /// A Pod; nothing when it is gone.
    fn pod(&self, name: &str) -> Option<Value> {
        let answer = self.plane.admin().get(&format!("{PODS}/{name}"));
        (answer.status != 404).then(|| answer.ok())
    }
}

/// Devices that a Pod has.
fn devices<'a>(answers: &'a Answers, pod: &str) -> Vec<&'a str> {
    let holding = &answers.pods[&("default".to_owned(), pod.to_owned())];
    holding.devices.iter().map(|device| device.id.as_str()).collect()
}
