//! Publishing at a real API server: what is written, how often, and what comes of every trouble.
//!
//! A simulated node with a simulated kubelet, the daemon on it with a token that is bound to its Node, under the rights and
//! policies that are shipped.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulet_simulator::kubelet::{Container, Device, Machine, Pod, Settings, SimulatedKubelet};
use gpulet_tests::{Agent, Bound, ControlPlane, Node, Request, gpulet, wait_until, wait_within};
use serde_json::{Value, json};

const TOPOLOGIES: &str = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies";
const GPUS: &str = "nvidia.com/gpu";
const NFD: &str = "node-feature-discovery-topology-updater";

fn shipped(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// What is shipped, but for the definition of the objects.
fn rights(plane: &ControlPlane) {
    for manifests in ["daemonset", "systemd/kubernetes.yaml"] {
        plane.apply(&shipped(manifests));
    }
}

fn definition(plane: &ControlPlane) {
    plane.apply(&shipped("daemonset/crd"));
}

/// A node, its kubelet and its Node in a cluster.
struct World {
    plane: Arc<ControlPlane>,
    name: &'static str,
    node: Node,
    kubelet: SimulatedKubelet,
    kubeconfig: PathBuf,
}

impl World {
    fn new(plane: Arc<ControlPlane>, name: &'static str) -> Self {
        plane.create_node(name);
        let kubeconfig = plane.account("gpulet", "gpulet", Bound::Node(name)).kubeconfig;
        let node = Node::serve("dgx-h100");
        let machine = Machine::of(&gpulet_simulator::node::Node::load("dgx-h100").unwrap());
        let settings = Settings::strict(&machine);
        let kubelet = SimulatedKubelet::start(machine, settings, &node.host_root()).unwrap();
        kubelet.register(GPUS, devices(&node));
        Self { plane, name, node, kubelet, kubeconfig }
    }

    /// A world in a cluster with everything that is shipped.
    fn complete(name: &'static str) -> Self {
        let plane = ControlPlane::shared();
        definition(&plane);
        rights(&plane);
        Self::new(plane, name)
    }

    fn agent(&self, arguments: &[&str]) -> Agent {
        let kubeconfig = self.kubeconfig.to_str().unwrap();
        let usual = ["--kubeconfig", kubeconfig, "--node-name", self.name];
        Agent::run(&self.node, &[&usual[..], arguments].concat())
    }

    fn path(&self) -> String {
        format!("{TOPOLOGIES}/{}", self.name)
    }

    fn object(&self) -> Option<Value> {
        let answer = self.plane.admin().try_get(&self.path())?;
        answer.is_ok().then_some(answer.body)
    }

    /// What is free of `resource` in each zone of type Node.
    fn available(&self, resource: &str) -> Option<Vec<u64>> {
        let object = self.object()?;
        let zones = object["zones"].as_array()?.iter().filter(|zone| zone["type"] == "Node");
        let of = |zone: &Value| {
            let resources = zone["resources"].as_array()?;
            let amount = &resources.iter().find(|has| has["name"] == resource)?["available"];
            amount.as_str()?.parse().ok()
        };
        zones.map(of).collect()
    }

    fn wait_for(&self, resource: &str, available: &[u64]) {
        wait_within(Duration::from_secs(90), &format!("{available:?} of {resource}"), || {
            (self.available(resource).as_deref() == Some(available)).then_some(())
        });
    }

    fn condition(&self, kind: &str) -> Option<Value> {
        let node = self.plane.admin().get(&format!("/api/v1/nodes/{}", self.name)).ok();
        node["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind).cloned()
    }

    fn wait_for_condition(&self, kind: &str, status: &str, reason: &str) -> Value {
        wait_within(Duration::from_secs(60), &format!("{kind} {status} {reason}"), || {
            self.condition(kind).filter(|it| it["status"] == status && it["reason"] == reason)
        })
    }

    fn has_event(&self, reason: &str) -> bool {
        let events = self.plane.admin().get("/apis/events.k8s.io/v1/namespaces/default/events").ok();
        let ours = |event: &&Value| event["regarding"]["name"] == self.name && event["reason"] == reason;
        events["items"].as_array().unwrap().iter().filter(ours).count() > 0
    }

    /// Everything that the daemon asked of the API server.
    fn requests(&self) -> Vec<Request> {
        let of_daemon = |request: &Request| request.user == "system:serviceaccount:gpulet:gpulet";
        let mut requests = self.plane.requests();
        requests.retain(of_daemon);
        requests.retain(|request| request.uri.contains(self.name) || request.resource == "events");
        requests
    }

    /// Writes of the object.
    fn writes(&self) -> usize {
        let of_object =
            |request: &&Request| request.resource == "noderesourcetopologies" && request.is_write();
        self.requests().iter().filter(of_object).count()
    }

    fn start(&self, pod: &str, cpus: u64, gpus: u64) {
        let container = Container::new("main").guaranteed(cpus, 1 << 30).devices(GPUS, gpus);
        self.kubelet.admit(Pod::new("ml", pod).container(container)).unwrap();
    }

    /// Another publisher applies the object as NFD's topology updater does: with force.
    fn nfd_applies(&self) {
        let path = format!("{}?fieldManager={NFD}&force=true", self.path());
        self.plane.admin().apply(&path, &self.of_another()).ok();
    }

    fn of_another(&self) -> Value {
        json!({
            "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology",
            "metadata": { "name": self.name },
            "zones": [{ "name": "node-0", "type": "Node", "resources": [
                { "name": "cpu", "capacity": "3", "allocatable": "3", "available": "3" },
            ] }],
        })
    }

    fn managers(&self) -> Vec<String> {
        let object = self.object().unwrap();
        let entries = object["metadata"]["managedFields"].as_array().unwrap();
        let of_zones = entries.iter().filter(|entry| !entry["fieldsV1"]["f:zones"].is_null());
        of_zones.map(|entry| entry["manager"].as_str().unwrap().to_owned()).collect()
    }
}

/// The node's GPUs as its device plugin offers them.
fn devices(node: &Node) -> Vec<Device> {
    let mut command = gpulet();
    node.environment(&mut command);
    let output = command.args(["topo", "-o", "json"]).output().unwrap();
    let topology: Value = serde_json::from_slice(&output.stdout).unwrap();
    let device = |gpu: &Value| Device {
        id: gpu["uuid"].as_str().unwrap().to_owned(),
        numa: gpu["numa"]["node"].as_i64().map(|node| vec![node]),
        healthy: true,
    };
    topology["gpus"].as_array().unwrap().iter().map(device).collect()
}

/// Waits for some time to pass: nothing happens, which cannot be waited for otherwise.
fn pass(time: Duration) {
    std::thread::sleep(time);
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn what_does_not_change_is_not_written_and_a_burst_of_pods_costs_few_writes() {
    let world = World::complete("quiet");
    let agent = world.agent(&[]);
    world.wait_for(GPUS, &[4, 4]);
    world.wait_for_condition("GpuTopologyPublished", "True", "Published");
    let object = world.object().unwrap();
    assert_eq!(object["metadata"]["ownerReferences"][0]["kind"], "Node");
    assert_eq!(object["metadata"]["labels"]["app.kubernetes.io/managed-by"], "gpulet");
    assert_eq!(world.managers(), ["gpulet"]);
    assert_eq!(world.writes(), 1, "{:#?}", world.requests());

    world.kubelet.register(GPUS, devices(&world.node));
    agent.scrape_until("further scans", |scrape| {
        scrape.value("gpulet_topology_publications_unchanged_total", &[]).is_some_and(|scans| scans > 3.0)
    });
    assert_eq!(world.writes(), 1, "a second scan writes nothing");

    let begun = Instant::now();
    for pod in 0..100 {
        let name = format!("pod-{pod}");
        world.start(&name, 1, u64::from(pod % 3 == 0));
        if pod >= 4 {
            assert!(world.kubelet.remove("ml", &format!("pod-{}", pod - 4)));
        }
        pass((Duration::from_millis(100) * (pod + 1)).saturating_sub(begun.elapsed()));
    }
    for pod in 96..100 {
        world.kubelet.remove("ml", &format!("pod-{pod}"));
    }
    world.wait_for(GPUS, &[4, 4]);
    pass(Duration::from_secs(3));
    let writes = world.writes() - 1;
    assert!((5..=12).contains(&writes), "{writes} writes for 100 Pods");

    let requests = world.requests();
    let count = |verb: &str, resource: &str| {
        requests.iter().filter(|request| request.verb == verb && request.resource == resource).count()
    };
    assert_eq!(count("get", "noderesourcetopologies"), 1, "it is looked at once: {requests:#?}");
    for resource in ["nodes", "pods", "noderesourcetopologies", "resourceslices"] {
        assert_eq!((count("list", resource), count("watch", resource)), (1, 1), "{resource}: {requests:#?}");
    }
    assert!(count("patch", "nodes/status") <= 4, "{requests:#?}");
    let scrape = agent.scrape();
    let counted = scrape
        .series("gpulet_api_requests_total", &[("verb", "apply"), ("resource", "noderesourcetopologies")]);
    assert!(!counted.is_empty());
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn what_pods_have_is_published_with_the_kubelets_settings() {
    let world = World::complete("told");
    // A run without API server leaves a file, which would be taken for true.
    let file = world.node.host_root().join("run/gpulet/noderesourcetopology.yaml");
    let before = Agent::run(&world.node, &["--publish", "never"]);
    wait_until("the file", || file.exists().then_some(()));
    drop(before);
    let _agent = world.agent(&[]);
    world.wait_for(GPUS, &[4, 4]);
    wait_until("the file is gone", || (!file.exists()).then_some(()));
    world.start("train", 8, 2);
    wait_until("two GPUs are taken", || {
        world.available(GPUS).filter(|free| free.iter().sum::<u64>() == 6).map(drop)
    });
    let attributes = world.object().unwrap()["attributes"].clone();
    let says = |name: &str, value: &str| {
        attributes.as_array().unwrap().contains(&json!({ "name": name, "value": value }))
    };
    assert!(says("topologyManagerPolicy", "single-numa-node"), "{attributes}");
    assert!(says("cpuManagerPolicy", "static"), "{attributes}");
    world.wait_for_condition("GpuHealthy", "True", "AsExpected");
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn what_is_deleted_or_edited_by_hand_is_restored() {
    let world = World::complete("hands");
    let _agent = world.agent(&[]);
    world.wait_for(GPUS, &[4, 4]);
    let writes = world.writes();
    world.plane.admin().delete(&world.path()).ok();
    world.wait_for(GPUS, &[4, 4]);
    assert_eq!(world.writes(), writes + 1);

    let mut edited = world.object().unwrap();
    edited["zones"] = world.of_another()["zones"].clone();
    let path = format!("{}?fieldManager=kubectl-edit", world.path());
    world.plane.admin().replace(&path, &edited).ok();
    world.wait_for(GPUS, &[4, 4]);
    assert_eq!(world.managers(), ["gpulet"]);
    pass(Duration::from_secs(3));
    assert_eq!(world.writes(), writes + 2, "{:#?}", world.requests());
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn another_publishers_object_is_left_alone_until_it_is_taken_over() {
    let world = World::complete("shared");
    world.nfd_applies();
    let mut agent = world.agent(&[]);
    let condition = world.wait_for_condition("GpuTopologyPublished", "False", "OtherPublisher");
    assert!(condition["message"].as_str().unwrap().contains(NFD), "{condition}");
    wait_until("the Event", || world.has_event("OtherPublisher").then_some(()));
    agent.scrape_until("the metric", |scrape| {
        scrape.value("gpulet_topology_publication_state", &[("state", "OtherPublisher")]) == Some(1.0)
    });
    let said = |line: &String| {
        let event: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
        let fields = &event["fields"];
        fields["message"] == "not publishing" && fields["meaning"].as_str().unwrap().contains(NFD)
    };
    assert!(agent.log().iter().any(said), "{:#?}", agent.log());
    world.start("train", 8, 2);
    pass(Duration::from_secs(8));
    assert_eq!(world.writes(), 0, "{:#?}", world.requests());
    assert_eq!(world.managers(), [NFD]);

    agent.signal(nix::sys::signal::Signal::SIGTERM);
    agent.ended();
    let agent = world.agent(&["--take-over"]);
    wait_until("gpulet has it", || (world.managers() == ["gpulet"]).then_some(()));
    world.wait_for_condition("GpuTopologyPublished", "True", "Published");
    assert_eq!(world.available(GPUS).unwrap().iter().sum::<u64>(), 6);

    // The other goes on: the two do not fight for ever.
    for _ in 0..12 {
        world.nfd_applies();
        pass(Duration::from_secs(1));
    }
    let condition = world.wait_for_condition("GpuTopologyPublished", "False", "OtherPublisher");
    assert!(condition["message"].as_str().unwrap().contains("again and again"), "{condition}");
    assert!(world.writes() <= 4, "{:#?}", world.requests());
    drop(agent);
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn an_api_server_that_was_away_for_a_minute_is_caught_up_with_one_write() {
    let plane = Arc::new(ControlPlane::start());
    definition(&plane);
    rights(&plane);
    let world = World::new(Arc::clone(&plane), "away");
    let agent = world.agent(&[]);
    world.wait_for(GPUS, &[4, 4]);
    world.wait_for_condition("GpuTopologyPublished", "True", "Published");
    let writes = world.writes();
    plane.stop_api_server();
    let begun = Instant::now();
    let mut pod = 0;
    while begun.elapsed() < Duration::from_secs(60) {
        world.start(&format!("pod-{pod}"), 1, 0);
        pod += 1;
        pass(Duration::from_secs(2));
    }
    world.start("train", 1, 2);
    // Sampling and scrapes go on.
    agent.scrape_until("it says so", |scrape| {
        scrape.value("gpulet_topology_publication_state", &[("state", "Unreachable")]) == Some(1.0)
    });
    plane.start_api_server();
    wait_within(Duration::from_secs(90), "it has caught up", || {
        world.available(GPUS).filter(|free| free.iter().sum::<u64>() == 6).map(drop)
    });
    pass(Duration::from_secs(5));
    assert_eq!(world.writes(), writes + 1, "{:#?}", world.requests());
    agent.scrape_until("all is well", |scrape| {
        scrape.value("gpulet_topology_publication_state", &[("state", "Published")]) == Some(1.0)
    });
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn the_object_ends_with_its_node_and_comes_back_with_it() {
    let mut world = World::complete("ends");
    // A token that is bound to the Node would end with it, too.
    world.kubeconfig = world.plane.kubelet_of(world.name).kubeconfig;
    let agent = world.agent(&[]);
    world.wait_for(GPUS, &[4, 4]);
    let admin = world.plane.admin();
    admin.delete(&format!("/api/v1/nodes/{}", world.name)).ok();
    agent.scrape_until("it is missed", |scrape| {
        scrape.value("gpulet_topology_publication_state", &[("state", "NoNode")]) == Some(1.0)
    });
    // As the garbage collector does.
    admin.delete(&world.path()).ok();
    world.start("train", 8, 2);
    pass(Duration::from_secs(5));
    assert_eq!(world.object(), None, "nobody would ever delete it");
    let uid = world.plane.create_node(world.name);
    world.wait_for(GPUS, &[2, 4]);
    let owner = || world.object().map(|object| object["metadata"]["ownerReferences"][0]["uid"].clone());
    assert_eq!(owner(), Some(json!(uid)));

    // A Node that was made anew before anyone has deleted the object.
    admin.delete(&format!("/api/v1/nodes/{}", world.name)).ok();
    let uid = world.plane.create_node(world.name);
    wait_until("the new Node owns it", || (owner() == Some(json!(uid))).then_some(()));
    agent.scrape_until("all is well", |scrape| {
        scrape.value("gpulet_topology_publication_state", &[("state", "Published")]) == Some(1.0)
    });
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn what_is_left_out_of_the_object_is_said_in_the_condition() {
    let world = World::complete("odd");
    let lost = Device { id: "lost-0".to_owned(), numa: Some(vec![99]), healthy: true };
    world.kubelet.register("example.com/lost", vec![lost]);
    let _agent = world.agent(&[]);
    let condition = world.wait_for_condition("GpuTopologyPublished", "True", "Published");
    let message = condition["message"].as_str().unwrap();
    assert!(message.contains("UnknownNumaNode (example.com/lost)"), "{message}");
}

#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn a_definition_that_comes_later_and_a_token_that_expires_are_waited_for() {
    let plane = Arc::new(ControlPlane::start());
    rights(&plane);
    let world = World::new(Arc::clone(&plane), "late");
    let agent = world.agent(&[]);
    world.wait_for_condition("GpuTopologyPublished", "False", "NotInstalled");
    definition(&plane);
    world.wait_for(GPUS, &[4, 4]);
    world.wait_for_condition("GpuTopologyPublished", "True", "Published");

    let token = world.kubeconfig.with_extension("token");
    let good = std::fs::read_to_string(&token).unwrap();
    std::fs::write(&token, "expired").unwrap();
    let mut pod = 0;
    wait_within(Duration::from_secs(150), "the token is refused", || {
        world.start(&format!("pod-{pod}"), 1, 0);
        pod += 1;
        pass(Duration::from_secs(2));
        let state =
            |state: &str| agent.scrape().value("gpulet_topology_publication_state", &[("state", state)]);
        (state("Unauthorized") == Some(1.0)).then_some(())
    });
    std::fs::write(&token, good).unwrap();
    world.start("train", 1, 2);
    wait_within(Duration::from_secs(120), "it is known again", || {
        world.available(GPUS).filter(|free| free.iter().sum::<u64>() == 6).map(drop)
    });
}
