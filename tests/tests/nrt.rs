//! The NodeResourceTopology object of each shipped node: equal to a reviewed snapshot, true to the node and its kubelet,
//! and taken by a real API server.
//!
//! `GPULET_BLESS=1 cargo test -p gpulet-tests --test nrt` writes the snapshots anew; look at each difference before it is
//! committed.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use gpulet_inventory::kubelet::{ContainerAllocation, KubeletDevice, MemoryBlock, NodeAllocation};
use gpulet_inventory::numa::CpuSet;
use gpulet_simulator::device_plugin::{Naming, offer};
use gpulet_simulator::kubelet::{
    Container, CpuPolicy, Machine, MemoryPolicy, NumaNode, Pod, Quantity, ReservedMemory, Settings,
    SimulatedKubelet, TopologyPolicy,
};
use gpulet_simulator::{ClockMode, SimulatedNode, node};
use gpulet_tests::{Bound, ControlPlane, documents, wait_until};
use gpulet_topology::nrt::object::{Body, NODE_ZONE, Zone};
use gpulet_topology::nrt::{fingerprint, hazards};
use serde_json::Value;

const TOPOLOGIES: &str = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies";
const GPU: &str = "nvidia.com/gpu";
const MIB: u64 = 1 << 20;

fn snapshot_of(node: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots/nrt").join(format!("{node}.yaml"))
}

/// A shipped node with a kubelet on it that aligns all it can, and some Pods.
struct Rig {
    node: SimulatedNode,
    kubelet: SimulatedKubelet,
    /// The object from before there was a kubelet.
    without_kubelet: String,
    _directory: tempfile::TempDir,
}

impl Rig {
    fn start(name: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let node = SimulatedNode::start(name, directory.path(), ClockMode::Stepped).unwrap();
        let without_kubelet = topo(&node);
        let machine = Machine::of(&node.description());
        let kubelet =
            SimulatedKubelet::start(machine.clone(), settings(&machine), &node.host_root()).unwrap();
        for (resource, devices) in offer(&node.state(), &node.host_root(), &Naming::default()).unwrap() {
            if !devices.is_empty() {
                kubelet.register(&resource, devices);
            }
        }
        for pod in pods(node.state().gpus.len()) {
            let name = pod.name.clone();
            kubelet.admit(pod).unwrap_or_else(|refusal| panic!("{name}: {refusal:?}"));
        }
        Self { node, kubelet, without_kubelet, _directory: directory }
    }
}

/// The object, as the program prints it.
fn topo(node: &SimulatedNode) -> String {
    let mut command = gpulet_tests::gpulet();
    command.args(["topo", "-o", "nrt"]).envs(node.environment());
    command.env("GPULET_NODE_NAME", node.description().name());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What a node for machine learning is run with. A kubelet does not align on more than eight NUMA nodes.
fn settings(machine: &Machine) -> Settings {
    let aligns = machine.numa.len() <= 8;
    let first = machine.numa.iter().find(|numa| !numa.cores.is_empty() && numa.memory_bytes > 0).unwrap();
    let evicted = BTreeMap::from([("memory.available".to_owned(), "100Mi".to_owned())]);
    let reserved = BTreeMap::from([("memory".to_owned(), Quantity::of(100 * MIB))]);
    Settings {
        topology_manager_policy: if aligns { TopologyPolicy::SingleNumaNode } else { TopologyPolicy::None },
        cpu_manager_policy: CpuPolicy::Static,
        reserved_system_cpus: Some(first.cores[0].threads.iter().copied().collect()),
        eviction_hard: Some(evicted),
        memory_manager_policy: if aligns { MemoryPolicy::Static } else { MemoryPolicy::None },
        reserved_memory: if aligns {
            vec![ReservedMemory { numa_node: first.id, limits: reserved }]
        } else {
            Vec::new()
        },
        ..Settings::default()
    }
}

/// One Pod with a GPU, one with CPUs and memory of its own alone, one with nothing of its own.
fn pods(gpus: usize) -> Vec<Pod> {
    let mut train = Container::new("main").guaranteed(4, 8192 * MIB);
    if gpus > 0 {
        train = train.devices(GPU, 1);
    }
    let guaranteed = Container::new("main").guaranteed(2, 1024 * MIB);
    vec![
        Pod::new("ml", "train").container(train),
        Pod::new("ml", "serve").container(guaranteed),
        Pod::new("web", "shared").container(Container::new("main")),
    ]
}

/// The object as it is kept: the same YAML with a list a line, to be read by people.
fn compact(text: &str) -> String {
    let object: Value = serde_saphyr::from_str(text).unwrap();
    let mut lines = String::new();
    for part in ["apiVersion", "kind", "metadata"] {
        writeln!(lines, "{part}: {}", object[part]).unwrap();
    }
    writeln!(lines, "attributes:").unwrap();
    for attribute in object["attributes"].as_array().unwrap() {
        writeln!(lines, "- {attribute}").unwrap();
    }
    writeln!(lines, "zones:").unwrap();
    for zone in object["zones"].as_array().unwrap() {
        writeln!(lines, "- name: {}", zone["name"]).unwrap();
        for part in ["type", "parent", "attributes", "costs"].iter().filter(|part| !zone[**part].is_null()) {
            writeln!(lines, "  {part}: {}", zone[*part]).unwrap();
        }
        for (position, resource) in zone["resources"].as_array().into_iter().flatten().enumerate() {
            let head = if position == 0 { "  resources:\n" } else { "" };
            writeln!(lines, "{head}  - {resource}").unwrap();
        }
    }
    assert_eq!(serde_saphyr::from_str::<Value>(&lines).unwrap(), object, "nothing is lost");
    lines
}

/// Without a kubelet the same parts are there, with the same capacities.
fn is_alike(without: &Body, with: &Body) {
    let part = |zone: &Zone| {
        (
            zone.name.clone(),
            zone.kind.clone(),
            zone.parent.clone(),
            zone.attributes.clone(),
            zone.costs.clone(),
        )
    };
    assert_eq!(
        without.zones.iter().map(part).collect::<Vec<_>>(),
        with.zones.iter().map(part).collect::<Vec<_>>()
    );
    for (without, with) in without.zones.iter().zip(&with.zones) {
        for resource in &with.resources {
            let same = without.resources.iter().find(|other| other.name == resource.name);
            let same = same.unwrap_or_else(|| panic!("{} of {}", resource.name, with.name));
            assert_eq!(same.capacity, resource.capacity, "{} of {}", resource.name, with.name);
        }
    }
}

/// The object's own part, apart from apiVersion, kind and metadata.
fn body(text: &str) -> Body {
    serde_saphyr::from_str(text).unwrap()
}

fn amount(zone: &Zone, resource: &str) -> Option<[u64; 3]> {
    let found = zone.resources.iter().find(|known| known.name == resource)?;
    Some(
        [&found.capacity, &found.allocatable, &found.available]
            .map(|amount| amount.as_str().parse().unwrap()),
    )
}

/// Counts anew, from the machine's description and the kubelet's own books, what the object should say.
fn is_true(rig: &Rig, body: &Body) {
    let with_cpus: Vec<&NumaNode> =
        rig.kubelet.machine().numa.iter().filter(|numa| !numa.cores.is_empty()).collect();
    let zones: Vec<&Zone> = body.zones.iter().filter(|zone| zone.kind == NODE_ZONE).collect();
    assert_eq!(zones.len(), with_cpus.len());
    let allocation = rig.kubelet.allocation();
    let truth = Truth::new(&allocation);
    for (position, (zone, numa)) in zones.iter().zip(&with_cpus).enumerate() {
        assert_eq!(zone.name, format!("node-{position}"));
        assert_eq!(amount(zone, "cpu"), Some(truth.cpus(numa)), "CPUs of {}", zone.name);
        let memory = amount(zone, "memory").unwrap();
        assert_eq!(memory[0], numa.memory_bytes);
        assert!(memory[1] <= memory[0] && memory[2] <= memory[1], "{memory:?}");
        if rig.kubelet.settings().memory_manager_policy == MemoryPolicy::Static {
            assert_eq!(memory[1..], truth.memory(numa), "memory of {}", zone.name);
        }
        if truth.has_gpus() {
            assert_eq!(amount(zone, GPU).unwrap()[1..], truth.gpus(numa), "GPUs of {}", zone.name);
        }
        let costs: Vec<i64> = zone.costs.iter().map(|cost| cost.value).collect();
        let distances = rig.kubelet.machine().numa.iter().zip(&numa.distances);
        let to_those =
            distances.filter(|(other, _)| !other.cores.is_empty()).map(|(_, distance)| *distance as i64);
        assert_eq!(costs, to_those.collect::<Vec<_>>());
    }
    for zone in body.zones.iter().filter(|zone| zone.kind != NODE_ZONE) {
        assert!(zone.resources.is_empty(), "{}: schedulers would count what it has", zone.name);
    }
    let wanted = fingerprint([("ml", "train"), ("ml", "serve"), ("web", "shared")]);
    let attribute = |name: &str| {
        body.attributes.iter().find(|known| known.name == name).map(|known| known.value.as_str())
    };
    assert_eq!(attribute("nodeTopologyPodsFingerprint"), Some(wanted.as_str()));
    assert_eq!(
        attribute("topologyManagerPolicy"),
        Some(rig.kubelet.settings().topology_manager_policy.as_str())
    );
}

#[test]
fn each_shipped_node_is_published_as_reviewed() {
    let mut different = Vec::new();
    let mut count = 0;
    for name in node::shipped() {
        let rig = Rig::start(name);
        let text = topo(&rig.node);
        assert_eq!(text, topo(&rig.node), "{name}: a second look gives the same");
        let (with, without) = (body(&text), body(&rig.without_kubelet));
        assert_eq!((hazards(&with), hazards(&without)), (vec![], vec![]), "{name}");
        is_true(&rig, &with);
        is_alike(&without, &with);
        let (path, text) = (snapshot_of(name), compact(&text));
        if std::env::var_os("GPULET_BLESS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        if std::fs::read_to_string(&path).ok().as_ref() != Some(&text) {
            different.push(name);
        }
        count += 1;
    }
    assert!(
        different.is_empty(),
        "not as in tests/snapshots/nrt: {different:?}; the head of this file says what to do"
    );
    let kept = std::fs::read_dir(snapshot_of("x").parent().unwrap()).unwrap().count();
    assert_eq!(kept, count, "a snapshot of each node and of no other");
}

/// What the object should say of NUMA nodes, by the kubelet's own books.
struct Truth<'a> {
    allocation: &'a NodeAllocation,
    held: Vec<&'a ContainerAllocation>,
}

impl<'a> Truth<'a> {
    fn new(allocation: &'a NodeAllocation) -> Self {
        Self { allocation, held: allocation.pods.iter().flat_map(|pod| &pod.containers).collect() }
    }

    fn cpus(&self, numa: &NumaNode) -> [u64; 3] {
        let threads: Vec<u32> = numa.cores.iter().flat_map(|core| &core.threads).copied().collect();
        let of = |cpus: &CpuSet| cpus.iter().filter(|cpu| threads.contains(cpu)).count() as u64;
        let allocatable = of(&self.allocation.allocatable.cpus);
        let held: u64 = self.held.iter().map(|container| of(&container.cpus)).sum();
        [threads.len() as u64, allocatable, allocatable - held]
    }

    fn memory(&self, numa: &NumaNode) -> [u64; 2] {
        let of = |blocks: &[MemoryBlock]| -> u64 {
            let here = blocks
                .iter()
                .filter(|block| block.kind == "memory" && block.numa_nodes.contains(&numa.id.into()));
            here.inspect(|block| assert_eq!(block.numa_nodes.len(), 1)).map(|block| block.bytes).sum()
        };
        let allocatable = of(&self.allocation.allocatable.memory);
        [allocatable, allocatable - self.held.iter().map(|container| of(&container.memory)).sum::<u64>()]
    }

    fn gpus(&self, numa: &NumaNode) -> [u64; 2] {
        let of = |devices: &[KubeletDevice]| {
            let here = |device: &&KubeletDevice| device.numa_nodes.as_deref() == Some(&[numa.id.into()]);
            devices.iter().filter(|device| device.resource == GPU).filter(here).count() as u64
        };
        let allocatable = of(&self.allocation.allocatable.devices);
        [allocatable, allocatable - self.held.iter().map(|container| of(&container.devices)).sum::<u64>()]
    }

    /// Whether there are any of which the plugin tells where they are.
    fn has_gpus(&self) -> bool {
        self.allocation
            .allocatable
            .devices
            .iter()
            .any(|device| device.resource == GPU && device.numa_nodes.is_some())
    }
}

/// The kinds of object that the snapshots are, taken by the API server from the agent itself.
#[test]
#[ignore = "needs etcd and kube-apiserver"]
fn each_snapshot_is_taken_by_a_real_api_server() {
    let plane = ControlPlane::start();
    for manifests in ["daemonset/crd", "daemonset"] {
        plane.apply(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(manifests));
    }
    wait_until("the kind is served", || plane.admin().get(TOPOLOGIES).is_ok().then_some(()));
    let mut count = 0;
    for name in node::shipped() {
        plane.create_node(name);
        let agent = plane.account("gpulet", "gpulet", Bound::Node(name)).client;
        let wanted = documents(&snapshot_of(name)).remove(0);
        let path = format!("{TOPOLOGIES}/{name}?fieldManager=gpulet&fieldValidation=Strict");
        let stored = agent.apply(&path, &wanted).ok();
        for part in ["attributes", "zones"] {
            assert_eq!(stored[part], wanted[part], "{name}");
        }
        let again = agent.apply(&path, &wanted).ok();
        assert_eq!(
            again["metadata"]["resourceVersion"], stored["metadata"]["resourceVersion"],
            "{name}: no change"
        );
        count += 1;
    }
    assert_eq!(plane.admin().get(TOPOLOGIES).ok()["items"].as_array().map(Vec::len), Some(count));
}
