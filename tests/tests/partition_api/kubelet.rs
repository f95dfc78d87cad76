//! The kubelet of a simulated node, as far as the API server sees it: Pods that are bound to the node start, get devices,
//! and end when they are deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use gpulet_simulator::client::Client;
use gpulet_simulator::device_plugin::{MigStrategy, Naming, offer};
use gpulet_simulator::kubelet::{Container, Pod, SimulatedKubelet};
use gpulet_tests::{Answer, ControlPlane};
use serde_json::{Map, Value, json};

/// What NVIDIA's operator calls its device plugin.
pub(crate) const PLUGIN: &str = "nvidia-device-plugin-daemonset";
/// Names the device that a Pod of a test gets.
pub(crate) const DEVICE: &str = "test/device";

/// Plays the kubelet until it is dropped.
pub(crate) struct Kubelet {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    plane: Arc<ControlPlane>,
    node: String,
    /// What PodResources tells.
    simulated: SimulatedKubelet,
    /// The simulated node.
    directory: PathBuf,
    /// Pods whose names begin so do not end.
    clinging: Mutex<BTreeSet<String>>,
    /// Resources that were ever registered.
    known: Mutex<BTreeSet<String>>,
    over: AtomicBool,
}

impl Kubelet {
    pub(crate) fn play(
        plane: Arc<ControlPlane>,
        node: &str,
        simulated: SimulatedKubelet,
        directory: PathBuf,
    ) -> Self {
        let shared = Arc::new(Shared {
            plane,
            node: node.to_owned(),
            simulated,
            directory,
            clinging: Mutex::default(),
            known: Mutex::default(),
            over: AtomicBool::new(false),
        });
        let playing = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            while !playing.over.load(Ordering::Relaxed) {
                playing.round();
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        Self { shared, thread: Some(thread) }
    }

    /// Panics when it has ended, which it says why.
    pub(crate) fn assert_plays(&self) {
        assert!(self.thread.as_ref().is_some_and(|thread| !thread.is_finished()), "the kubelet has ended");
    }

    /// From now on Pods whose names begin with `prefix` go on running when they are deleted.
    pub(crate) fn let_cling(&self, prefix: &str) {
        self.shared.clinging.lock().unwrap().insert(prefix.to_owned());
    }

    /// From now on they end, also those that were to end before.
    pub(crate) fn let_go(&self, prefix: &str) {
        self.shared.clinging.lock().unwrap().remove(prefix);
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        // What it panicked with was printed, and a test that needed it has failed by itself.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Shared {
    /// Looks at all Pods of the node once; none while the API server is away.
    fn round(&self) {
        let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{}", self.node);
        let Some(listed) = self.plane.admin().try_get(&path).filter(Answer::is_ok) else { return };
        for pod in listed.body["items"].as_array().unwrap() {
            if pod["metadata"]["deletionTimestamp"].is_string() {
                self.end(pod);
            } else if pod["status"]["phase"] == "Pending" {
                self.start(pod);
            }
        }
    }

    fn start(&self, pod: &Value) {
        let meta = &pod["metadata"];
        let mut container = Container::new("main");
        let limits = pod["spec"]["containers"][0]["resources"]["limits"].as_object();
        for (resource, amount) in limits.into_iter().flatten().filter(|(name, _)| name.contains('/')) {
            container = container.devices(resource, amount.as_str().unwrap().parse().unwrap());
        }
        let mut admitted = Pod::new(text(&meta["namespace"]), text(&meta["name"])).container(container);
        text(&meta["uid"]).clone_into(&mut admitted.uid);
        let device = meta["annotations"][DEVICE].as_str().map(str::to_owned);
        self.simulated.admit_with(admitted, &|_| device.iter().cloned().collect()).unwrap();
        if is_plugin(pod) {
            self.plugin_starts();
        }
        let ready = json!({ "type": "Ready", "status": "True" });
        let running = json!({ "status": { "phase": "Running", "conditions": [ready] } });
        self.plane.admin().try_strategic(&format!("{}/status", path(pod)), &running);
    }

    fn end(&self, pod: &Value) {
        let name = text(&pod["metadata"]["name"]);
        if self.clinging.lock().unwrap().iter().any(|prefix| name.starts_with(prefix.as_str())) {
            return;
        }
        if is_plugin(pod) {
            for resource in self.known.lock().unwrap().iter() {
                self.simulated.unregister(resource);
            }
        }
        self.simulated.remove(text(&pod["metadata"]["namespace"]), name);
        self.plane.admin().try_delete(&format!("{}?gracePeriodSeconds=0", path(pod)));
    }

    /// NVIDIA's plugin looks at the devices when it starts, and at no other time. A resource of which there is nothing any
    /// more stays in the Node, as none of it.
    fn plugin_starts(&self) {
        let state = Client::connect(&self.directory).unwrap().state().unwrap();
        let naming = Naming { mig: MigStrategy::Mixed, ..Naming::default() };
        let offered = offer(&state, &self.directory.join("host"), &naming).unwrap();
        let mut known = self.known.lock().unwrap();
        known.extend(offered.keys().cloned());
        let mut amounts = Map::new();
        for resource in known.iter() {
            let devices = offered.get(resource).cloned().unwrap_or_default();
            amounts.insert(resource.clone(), json!(devices.len().to_string()));
            if !devices.is_empty() {
                self.simulated.register(resource, devices);
            }
        }
        let status = json!({ "status": { "capacity": amounts, "allocatable": amounts } });
        self.plane.admin().try_strategic(&format!("/api/v1/nodes/{}/status", self.node), &status);
    }
}

/// How much of each resource the Node says that there is.
pub(crate) fn allocatable(node: &Value) -> BTreeMap<String, u64> {
    let all = node["status"]["allocatable"].as_object().unwrap().iter();
    let devices = all.filter(|(name, _)| name.starts_with("nvidia.com/"));
    devices.map(|(name, amount)| (name.clone(), amount.as_str().unwrap().parse().unwrap())).collect()
}

fn is_plugin(pod: &Value) -> bool {
    pod["metadata"]["labels"]["app"] == PLUGIN
}

fn path(pod: &Value) -> String {
    let meta = &pod["metadata"];
    format!("/api/v1/namespaces/{}/pods/{}", text(&meta["namespace"]), text(&meta["name"]))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}
