//! The daemon with a simulated kubelet, a real API server, and a node that is full of Pods.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use gpulet_simulator::kubelet::{Container, Device, Machine, Pod, Settings, SimulatedKubelet};
use gpulet_simulator::node::Node;
use gpulet_tests::{Bound, ControlPlane, Stage};

use crate::process::{built, run_agent, scrape, serve_node};
use crate::watch;

/// As many as a kubelet takes (`maxPods`).
pub(crate) const PODS: usize = 110;
/// Pods that have GPUs: one each.
const WITH_GPU: usize = 8;
/// Pods that have CPUs for themselves: two each.
const GUARANTEED: usize = 60;

const NODE: &str = "footprint";
const GPUS: &str = "nvidia.com/gpu";

/// What it uses while nothing changes.
pub(crate) fn measure(seconds: u32) -> String {
    let plane = ControlPlane::start();
    for manifests in ["daemonset/crd", "daemonset"] {
        plane.apply(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(manifests));
    }
    plane.create_node(NODE);
    plane.admin().report_node(NODE, 0);
    let kubeconfig = plane.account("gpulet", "gpulet", Bound::Node(NODE)).kubeconfig;

    let directory = tempfile::tempdir().unwrap();
    let _node = serve_node(directory.path());
    let machine = Machine::of(&Node::load("dgx-h100").unwrap());
    let settings = Settings::strict(&machine);
    let kubelet = SimulatedKubelet::start(machine, settings, &directory.path().join("host")).unwrap();
    kubelet.register(GPUS, devices(directory.path()));
    for number in 0..PODS {
        start(&plane, &kubelet, number);
    }
    let kubeconfig = kubeconfig.to_str().unwrap();
    let arguments = ["--kubeconfig", kubeconfig, "--node-name", NODE, "--publish", "always"];
    let (agent, address) = run_agent(directory.path(), &arguments);
    // What is counted is not how it starts.
    while !scrape(address).contains("gpulet_topology_publication_state{state=\"Published\"} 1") {
        std::thread::sleep(Duration::from_millis(100));
    }
    watch(&agent, address, seconds)
}

/// One Pod, at the API server and on the node.
fn start(plane: &ControlPlane, kubelet: &SimulatedKubelet, number: usize) {
    let name = format!("pod-{number}");
    for stage in Stage::START {
        plane.admin().take_pod(&name, NODE, stage);
    }
    let mut container = Container::new("main");
    if number < GUARANTEED {
        container = container.guaranteed(2, 1 << 30);
    }
    if number < WITH_GPU {
        container = container.devices(GPUS, 1);
    }
    kubelet.admit(Pod::new("default", &name).container(container)).unwrap();
}

/// The node's GPUs as their plugin offers them.
fn devices(directory: &Path) -> Vec<Device> {
    let mut command = Command::new(built("gpulet"));
    command.env("GPULET_HOST_ROOT", directory.join("host"));
    command.env("GPULET_NVML_LIBRARY", directory.join("lib/libnvidia-ml.so.1"));
    command.env("GPULET_STATE_DIR", directory.join("gpulet"));
    let output = command.args(["topo", "-o", "json"]).output().unwrap();
    let topology: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let device = |gpu: &serde_json::Value| Device {
        id: gpu["uuid"].as_str().unwrap().to_owned(),
        numa: gpu["numa"]["node"].as_i64().map(|node| vec![node]),
        healthy: true,
    };
    topology["gpus"].as_array().unwrap().iter().map(device).collect()
}
