//! A node with two GPUs in a cluster, NVIDIA's Pods on it, and what an administrator does.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gpulet_simulator::kubelet::{Machine, Settings, SimulatedKubelet};
use gpulet_simulator::node::Node as Described;
use gpulet_tests::{Agent, Bound, ControlPlane, Division, Gpu, Request, Site, wait_within};
use serde_json::{Value, json};

use crate::cluster;
use crate::history::History;
use crate::kubelet::{DEVICE, Kubelet, PLUGIN};

/// What asks for a layout.
pub(crate) const WANTED: &str = "nvidia.com/mig.config";
/// What says how far it is.
pub(crate) const STATE: &str = "nvidia.com/mig.config.state";
/// What becomes of those who use a GPU.
pub(crate) const WHEN_BUSY: &str = "gpulet.dev/when-busy";
/// What says everything.
const STATUS: &str = "gpulet.dev/partition-status";
/// NVIDIA's Pods that are paused: what their node selectors ask for.
pub(crate) const PLUGIN_KEY: &str = "nvidia.com/gpu.deploy.device-plugin";
pub(crate) const EXPORTER_KEY: &str = "nvidia.com/gpu.deploy.dcgm-exporter";
/// One that an administrator has switched off, and one that nobody has set.
pub(crate) const OFF_KEY: &str = "nvidia.com/gpu.deploy.gpu-feature-discovery";
pub(crate) const ABSENT_KEY: &str = "nvidia.com/gpu.deploy.nsm";
/// What a paused one has in its label.
pub(crate) const PAUSED: &str = "paused-for-mig-change";

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// Layouts of the first GPU; the second one is in none.
pub(crate) const FILE: &str = "\
version: v1
mig-configs:
  halves:
  - {devices: [0], mig-enabled: true, mig-devices: {3g.40gb: 2}}
  sevenths:
  - {devices: [0], mig-enabled: true, mig-devices: {1g.10gb: 7}}
  off:
  - {devices: [0], mig-enabled: false, mig-devices: {}}
";

/// A node in a cluster. Its GPUs are whole at first.
pub(crate) struct World {
    pub(crate) plane: Arc<ControlPlane>,
    pub(crate) name: &'static str,
    pub(crate) site: Site,
    pub(crate) kubelet: Kubelet,
    kubeconfig: PathBuf,
}

impl World {
    /// On the shared control plane, with gpulet to wait `patience` for Pods.
    pub(crate) fn new(name: &'static str, patience: &str) -> Self {
        Self::on(cluster::shared(), name, patience)
    }

    /// On this one.
    pub(crate) fn on(plane: Arc<ControlPlane>, name: &'static str, patience: &str) -> Self {
        plane.create_node(name);
        plane.admin().report_node(name, 0);
        let kubeconfig = plane.account("gpulet", "gpulet", Bound::Node(name)).kubeconfig;
        let site = Site::of(&[Gpu::whole("h100-sxm-80gb"), Gpu::whole("h100-sxm-80gb")]);
        let described = site.path("node.yaml");
        let machine = Machine::of(&Described::load(described.to_str().unwrap()).unwrap());
        let simulated =
            SimulatedKubelet::start(machine, Settings::default(), &site.node().host_root()).unwrap();
        let kubelet = Kubelet::play(Arc::clone(&plane), name, simulated, site.node().directory().to_owned());
        let world = Self { plane, name, site, kubelet, kubeconfig };
        world.mount(FILE);
        let file = world.site.path("mounted/partition.yaml");
        world.site.configure(&format!("partition: {{file: {}, wait: {patience}}}\n", file.display()));
        world.start_clients();
        world
    }

    /// NVIDIA's Pods, and what the operator labels for them.
    fn start_clients(&self) {
        for (component, app) in [("device-plugin", PLUGIN), ("dcgm-exporter", "nvidia-dcgm-exporter")] {
            self.plane.apply_object(&cluster::client(self.name, component, app), false).ok();
        }
        let labels = json!({ PLUGIN_KEY: "true", EXPORTER_KEY: "true", OFF_KEY: "false" });
        self.label_all(&labels);
        self.wait_for("NVIDIA's Pods run", || (self.clients().len() == 2).then_some(()));
    }

    /// gpulet on this node.
    pub(crate) fn agent(&self) -> Agent {
        self.agent_with(&[])
    }

    /// gpulet on this node, with more `options`.
    pub(crate) fn agent_with(&self, options: &[&str]) -> Agent {
        let kubeconfig = self.kubeconfig.to_str().unwrap();
        let arguments =
            ["run", "--listen", "127.0.0.1:0", "--kubeconfig", kubeconfig, "--node-name", self.name];
        Agent::start(self.site.command(&[&arguments, options].concat()))
    }

    /// Puts a partition file where a ConfigMap of this content is mounted: behind a link to a directory that is replaced.
    pub(crate) fn mount(&self, text: &str) {
        use std::fs;
        let mounted = self.site.path("mounted");
        fs::create_dir_all(&mounted).unwrap();
        let content = tempfile::Builder::new().prefix("..content-").tempdir_in(&mounted).unwrap().keep();
        fs::write(content.join("partition.yaml"), text).unwrap();
        let old = fs::read_link(mounted.join("..data"));
        std::os::unix::fs::symlink(content.file_name().unwrap(), mounted.join("..data_tmp")).unwrap();
        fs::rename(mounted.join("..data_tmp"), mounted.join("..data")).unwrap();
        match old {
            Ok(old) => fs::remove_dir_all(mounted.join(old)).unwrap(),
            Err(_) => {
                std::os::unix::fs::symlink("..data/partition.yaml", mounted.join("partition.yaml")).unwrap();
            }
        }
    }

    /// Waits until `condition` gives something. Says how the Node is when it never does.
    pub(crate) fn wait_for<T>(&self, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
        let since = std::time::Instant::now();
        wait_within(PATIENCE + Duration::from_secs(5), what, || {
            self.kubelet.assert_plays();
            let found = condition();
            if found.is_none() && since.elapsed() > PATIENCE {
                let (events, status) = (self.events(), self.status());
                panic!("waited in vain: {what}\n{:#}\n{status:#}\n{events:#?}", self.node());
            }
            found
        })
    }

    /// The Node.
    pub(crate) fn node(&self) -> Value {
        let mut node = self.plane.admin().get(&self.path()).ok();
        node["metadata"]["managedFields"].take();
        node["status"]["images"].take();
        node
    }

    fn path(&self) -> String {
        format!("/api/v1/nodes/{}", self.name)
    }

    /// Its version, for [`World::since`].
    pub(crate) fn version(&self) -> String {
        self.node()["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
    }

    /// Every state of the Node since a version.
    pub(crate) fn since(&self, version: &str) -> History {
        History::read(&self.plane, self.name, version)
    }

    /// Sets a label of the Node, or takes it away.
    pub(crate) fn label(&self, key: &str, value: Option<&str>) {
        self.label_all(&json!({ key: value }));
    }

    fn label_all(&self, labels: &Value) {
        self.plane.admin().merge(&self.path(), &json!({ "metadata": { "labels": labels } })).ok();
    }

    /// Asks for a layout.
    pub(crate) fn want(&self, layout: &str) {
        self.label(WANTED, Some(layout));
    }

    /// Asks for a layout. The change goes on to the point where its first instance is made, and there it stands until the
    /// faults of the simulator are cleared.
    pub(crate) fn want_and_stop_half_way(&self, layout: &str) {
        let create = "nvmlDeviceCreateGpuInstanceWithPlacement";
        self.site.node().sim(&["fault", "call", "--symbol", create, "--block"]);
        self.want(layout);
        self.wait_for("the old layout is gone", || self.site.gpu(0).instances.is_empty().then_some(()));
    }

    /// A label of the Node.
    pub(crate) fn labelled(&self, key: &str) -> Option<String> {
        self.node()["metadata"]["labels"][key].as_str().map(str::to_owned)
    }

    /// What the annotation says; null without one.
    pub(crate) fn status(&self) -> Value {
        let node = self.node();
        let text = node["metadata"]["annotations"][STATUS].as_str();
        text.map(|text| serde_json::from_str(text).unwrap()).unwrap_or_default()
    }

    /// The condition `GpuPartitioned`; null without one.
    pub(crate) fn condition(&self) -> Value {
        let node = self.node();
        let mut conditions = node["status"]["conditions"].as_array().unwrap().iter();
        conditions.find(|condition| condition["type"] == "GpuPartitioned").cloned().unwrap_or_default()
    }

    /// Waits until label, annotation and condition say that `layout` has come to `state`; gives the annotation.
    pub(crate) fn wait_for_state(&self, layout: &str, state: &str) -> Value {
        self.wait_for(&format!("{layout}: {state}"), || {
            let status = self.status();
            // They are read one after the other.
            let said = status["config"] == layout && status["state"] == state;
            (said && self.labelled(STATE).as_deref() == Some(state)).then_some(status)
        })
    }

    /// The same with the reason that the annotation and the condition then give.
    pub(crate) fn wait_for_reason(&self, layout: &str, state: &str, reason: &str) -> Value {
        self.wait_for(&format!("{layout}: {state} for {reason}"), || {
            let (status, condition) = (self.status(), self.condition());
            let said = status["reason"] == reason && condition["reason"] == reason;
            let there = self.labelled(STATE).as_deref() == Some(state) && status["config"] == layout;
            (said && there).then_some(status)
        })
    }

    /// Waits until `layout` is there, on the hardware too, and everything is as it is between changes.
    pub(crate) fn wait_for_success(&self, layout: &str, instances: &[&str]) {
        self.wait_for_state(layout, "success");
        assert_eq!(self.site.gpu(0).layout(), instances);
        self.wait_for("the condition holds", || (self.condition()["status"] == "True").then_some(()));
        self.assert_at_rest();
    }

    /// Waits until the first GPU has so many instances, without asking the API server.
    pub(crate) fn wait_for_hardware(&self, instances: usize) {
        wait_within(PATIENCE, "the GPU is divided", || {
            (self.site.gpu(0).instances.len() == instances).then_some(())
        });
    }

    /// Nothing of a change is left: no client is paused, the Node is open, no journal lies about.
    pub(crate) fn assert_at_rest(&self) {
        let labels: BTreeMap<String, Value> =
            serde_json::from_value(self.node()["metadata"]["labels"].clone()).unwrap();
        assert_eq!(labels[PLUGIN_KEY], "true");
        assert_eq!(labels[EXPORTER_KEY], "true");
        assert_eq!(labels[OFF_KEY], "false", "switched off by an administrator");
        assert!(!labels.contains_key(ABSENT_KEY), "nobody has set it");
        assert_ne!(self.node()["spec"]["unschedulable"], true);
        let gpus = || self.site.journals().into_iter().filter(|path| !path.ends_with("node.json"));
        assert_eq!(gpus().count(), 0, "{:?}", self.site.journals());
    }

    /// How the second GPU is divided, which no layout names.
    pub(crate) fn other_gpu(&self) -> Division {
        self.site.gpu(1)
    }

    /// Names of NVIDIA's Pods that run here and are not to end.
    pub(crate) fn clients(&self) -> Vec<String> {
        let path =
            format!("/api/v1/namespaces/{}/pods?labelSelector=node%3D{}", cluster::OPERATOR, self.name);
        let listed = self.plane.admin().get(&path).ok();
        let pods = listed["items"].as_array().unwrap().iter();
        let running = pods.filter(|pod| {
            pod["status"]["phase"] == "Running" && !pod["metadata"]["deletionTimestamp"].is_string()
        });
        running.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Starts a Pod that has the GPU `gpu`, and waits until it runs.
    pub(crate) fn start_pod(&self, name: &str, gpu: usize) {
        self.start_pod_on(name, "nvidia.com/gpu", &self.site.uuid(gpu));
    }

    /// Starts a Pod that has a device of `resource`.
    pub(crate) fn start_pod_on(&self, name: &str, resource: &str, device: &str) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": "ml", "labels": { "job": name }, "annotations": { DEVICE: device },
            },
            "spec": {
                "nodeName": self.name, "automountServiceAccountToken": false,
                "containers": [{
                    "name": "main", "image": "none", "resources": { "limits": { resource: "1" } },
                }],
            },
        });
        self.plane.admin().create("/api/v1/namespaces/ml/pods", &pod).ok();
        self.wait_for("the Pod runs", || (self.pod(name)?["status"]["phase"] == "Running").then_some(()));
    }

    /// A Pod of a test; nothing when it is gone.
    pub(crate) fn pod(&self, name: &str) -> Option<Value> {
        let answer = self.plane.admin().get(&format!("/api/v1/namespaces/ml/pods/{name}"));
        (answer.status != 404).then(|| answer.ok())
    }

    /// Whether a Pod runs and nobody has asked it to end.
    pub(crate) fn runs(&self, name: &str) -> bool {
        self.pod(name).is_some_and(|pod| !pod["metadata"]["deletionTimestamp"].is_string())
    }

    /// Deletes a Pod as its owner would.
    pub(crate) fn delete_pod(&self, name: &str) {
        self.plane.admin().delete(&format!("/api/v1/namespaces/ml/pods/{name}")).ok();
    }

    /// Events about the Node that gpulet has told about its division: type, reason, note.
    pub(crate) fn events(&self) -> Vec<(String, String, String)> {
        let listed = self.plane.admin().get("/apis/events.k8s.io/v1/namespaces/default/events").ok();
        let ours = listed["items"].as_array().unwrap().iter().filter(|event| {
            event["regarding"]["name"] == self.name && event["reportingController"] == "gpulet"
        });
        let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
        ours.map(|event| (text(event, "type"), text(event, "reason"), text(event, "note"))).collect()
    }

    /// Waits until gpulet has told of an event with this reason; gives what it says.
    pub(crate) fn wait_for_event(&self, kind: &str, reason: &str) -> String {
        self.wait_for(&format!("{kind} event {reason}"), || {
            self.events().into_iter().find(|event| event.0 == kind && event.1 == reason).map(|event| event.2)
        })
    }

    /// What gpulet asked to change of this node, in order.
    pub(crate) fn writes(&self) -> Vec<Request> {
        let mut requests = self.plane.requests();
        requests
            .retain(|request| request.user == "system:serviceaccount:gpulet:gpulet" && request.is_write());
        // Pods of a test have its name before theirs.
        let pods = format!("/pods/{}-", self.name);
        requests.retain(|request| match request.resource.as_str() {
            "pods/eviction" => request.uri.contains(&pods),
            _ => request.uri.contains(self.name),
        });
        requests
    }
}

/// Waits for some time to pass: nothing happens, which cannot be waited for otherwise.
pub(crate) fn pass(time: Duration) {
    std::thread::sleep(time);
}
