//! The simulated kubelet as those see it who ask it and who watch its files.

mod client;
mod policies;

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use tonic::Code;

use self::client::{Client, sorted};
use super::*;
use crate::device_plugin::{Naming, offer};
use crate::node::Node;
use crate::{ClockMode, SimulatedNode};

const GPU: &str = "nvidia.com/gpu";

fn machine() -> Machine {
    Machine::of(&Node::load("dgx-h100").unwrap())
}

fn gpus() -> Vec<Device> {
    let gpu = |n: i64| Device { id: format!("GPU-{n}"), numa: Some(vec![n / 4]), healthy: true };
    (0..8).map(gpu).collect()
}

fn kubelet(root: &Path) -> SimulatedKubelet {
    let machine = machine();
    let settings = Settings::strict(&machine);
    let kubelet = SimulatedKubelet::start(machine, settings, root).unwrap();
    kubelet.register(GPU, gpus());
    kubelet
}

fn start() -> (TempDir, SimulatedKubelet, Client) {
    let dir = tempfile::tempdir().unwrap();
    let kubelet = kubelet(dir.path());
    let client = Client::new(&kubelet.socket());
    (dir, kubelet, client)
}

fn pod(name: &str, cpus: u64, gpus: u64) -> Pod {
    Pod::new("default", name).container(Container::new("c").guaranteed(cpus, 1 << 30).devices(GPU, gpus))
}

#[test]
fn what_is_asked_is_the_truth() {
    let (_dir, kubelet, client) = start();
    kubelet.admit(pod("a", 4, 2)).unwrap();
    kubelet.admit(pod("b", 2, 1)).unwrap();
    let truth = kubelet.allocation();
    assert_eq!(client.list().unwrap(), sorted(truth.pods.clone()));
    let allocatable = client.allocatable().unwrap();
    assert_eq!(allocatable.devices.len(), 8);
    assert_eq!(allocatable.cpus.len(), 223);
    assert_eq!(allocatable.memory.len(), 2);
    let one = client.get("default", "a").unwrap();
    assert_eq!(one, truth.pods[0]);
    assert_eq!(client.get("default", "nobody").unwrap_err().code(), Code::Unknown);
}

#[test]
fn a_pod_that_ends_is_not_listed_unless_by_an_old_kubelet() {
    let (_dir, kubelet, client) = start();
    kubelet.admit(pod("a", 4, 2)).unwrap();
    let had = client.list().unwrap();
    assert!(kubelet.end("default", "a"));
    assert!(client.list().unwrap().is_empty());
    kubelet.behave(Behaviour { lists_ended: true, ..Behaviour::default() });
    assert_eq!(client.list().unwrap(), had);
    assert!(kubelet.remove("default", "a") && !kubelet.remove("default", "a"));
    assert!(client.list().unwrap().is_empty());
}

#[test]
fn a_pod_in_the_midst_of_its_admission_has_no_memory_yet() {
    let (_dir, kubelet, client) = start();
    kubelet.begin(pod("a", 4, 2)).unwrap();
    let container = client.list().unwrap()[0].containers[0].clone();
    assert_eq!((container.cpus.len(), container.devices.len(), container.memory.len()), (4, 2, 0));
    assert!(kubelet.complete("default", "a"));
    assert_eq!(client.list().unwrap()[0].containers[0].memory.len(), 1);
}

#[test]
fn unhealthy_devices_are_not_allocatable_but_stay_with_those_who_have_them() {
    let (_dir, kubelet, client) = start();
    kubelet.admit(pod("a", 1, 1)).unwrap();
    let id = client.list().unwrap()[0].containers[0].devices[0].id.clone();
    assert!(kubelet.set_health(GPU, &id, false));
    assert_eq!(client.allocatable().unwrap().devices.len(), 7);
    assert_eq!(client.list().unwrap()[0].containers[0].devices[0].id, id);
    kubelet.unregister(GPU);
    assert!(client.allocatable().unwrap().devices.is_empty());
    assert_eq!(kubelet.admit(pod("b", 1, 1)).unwrap_err().reason, "TopologyAffinityError");
}

#[test]
fn after_a_restart_devices_are_missing_until_their_plugins_return() {
    let (_dir, kubelet, client) = start();
    kubelet.admit(pod("a", 4, 2)).unwrap();
    let before = client.list().unwrap();
    let process = kubelet.host_root().join("proc/1211/cmdline");
    assert!(std::fs::read_to_string(&process).unwrap().contains("kubelet\0--kubeconfig"));
    kubelet.stop();
    assert!(!process.exists());
    assert!(kubelet.socket().exists(), "the socket of a process that is killed stays");
    assert_eq!(client.list().unwrap_err().code(), Code::Unavailable);
    kubelet.resume().unwrap();
    assert!(process.exists());
    assert_eq!(client.list().unwrap(), before, "what was given away is remembered");
    assert!(client.allocatable().unwrap().devices.is_empty());
    kubelet.plugins_return();
    assert_eq!(client.allocatable().unwrap().devices.len(), 8);
}

#[test]
fn a_socket_can_be_removed_and_replaced() {
    let (_dir, kubelet, client) = start();
    kubelet.remove_socket().unwrap();
    assert_eq!(client.list().unwrap_err().code(), Code::Unavailable);
    kubelet.replace_socket().unwrap();
    assert!(client.list().unwrap().is_empty());
    let open = client.connect().unwrap();
    kubelet.replace_socket().unwrap();
    kubelet.admit(pod("a", 1, 1)).unwrap();
    assert_eq!(client.list_over(open).unwrap().len(), 1, "who was connected stays so");
}

#[test]
fn faults_are_what_they_are_called() {
    let (_dir, kubelet, client) = start();
    kubelet.admit(pod("a", 1, 1)).unwrap();
    kubelet.fault(Some(Fault::Hang));
    assert!(client.list_within(Duration::from_millis(200)).is_err());
    kubelet.fault(Some(Fault::Garbage));
    assert!(client.list().is_err());
    kubelet.fault(Some(Fault::Exhausted));
    assert_eq!(client.list().unwrap_err().code(), Code::ResourceExhausted);
    kubelet.fault(Some(Fault::Broken));
    assert_eq!(client.list().unwrap_err().code(), Code::Unknown);
    for mib in [6, 17] {
        kubelet.fault(Some(Fault::Large { bytes: mib << 20 }));
        let bytes = client.list_bytes().unwrap();
        assert!((mib << 20..(mib << 20) + 1024).contains(&bytes), "{bytes}");
    }
    kubelet.fault(None);
    assert_eq!(client.list().unwrap().len(), 1);
}

#[test]
fn a_call_that_hangs_is_answered_when_the_fault_is_over() {
    let (_dir, kubelet, client) = start();
    kubelet.fault(Some(Fault::Hang));
    let asked = std::thread::spawn(move || client.list());
    while kubelet.calls() == 0 {
        std::thread::yield_now();
    }
    kubelet.fault(None);
    assert!(asked.join().unwrap().unwrap().is_empty());
}

#[test]
fn get_may_be_missing_and_calls_are_limited() {
    let (_dir, kubelet, client) = start();
    kubelet.behave(Behaviour { get: GetOffer::Disabled, ..Behaviour::default() });
    assert_eq!(client.get("default", "a").unwrap_err().message(), "PodResources API Get method disabled");
    kubelet.behave(Behaviour { get: GetOffer::Unknown, ..Behaviour::default() });
    assert_eq!(client.get("default", "a").unwrap_err().code(), Code::Unimplemented);
    let codes = client.list_often(200);
    assert!(codes.contains(&Code::ResourceExhausted) && codes.contains(&Code::Ok), "{codes:?}");
    kubelet.behave(Behaviour { unlimited: true, ..Behaviour::default() });
    assert!(client.list_often(200).iter().all(|code| *code == Code::Ok));
}

#[test]
fn its_files_are_those_of_a_kubelet() {
    let (_dir, kubelet, _client) = start();
    kubelet.admit(pod("a", 4, 2)).unwrap();
    let read = |name: &str| std::fs::read_to_string(kubelet.directory().join(name)).unwrap();
    let config = Settings::parse("config.yaml", &read("config.yaml")).unwrap();
    assert_eq!(config.others["kind"], "KubeletConfiguration");
    assert_eq!(config.topology_manager_policy, kubelet.settings().topology_manager_policy);
    let cpus: CpuState = serde_json::from_str(&read("cpu_manager_state")).unwrap();
    assert_eq!(cpus.checksum(), cpus.true_checksum());
    let memory: MemoryState = serde_json::from_str(&read("memory_manager_state")).unwrap();
    assert_eq!(memory.checksum(), memory.true_checksum());
    let text = read("device-plugins/kubelet_internal_checkpoint");
    let devices: DeviceState = serde_json::from_str(&text).unwrap();
    assert_eq!(devices.checksum(), devices.true_checksum());
    assert!(text.contains("GPU-0") && read("cpu_manager_state").contains("\"policyName\":\"static\""));
}

#[test]
fn other_settings_need_an_empty_node() {
    let (_dir, kubelet, client) = start();
    kubelet.admit(pod("a", 4, 2)).unwrap();
    assert_eq!(kubelet.reconfigure(Settings::default()).unwrap_err().reason(), "PodsLeft");
    kubelet.remove("default", "a");
    kubelet.reconfigure(Settings::default()).unwrap();
    let allocatable = client.allocatable().unwrap();
    assert_eq!((allocatable.cpus.len(), allocatable.memory.len(), allocatable.devices.len()), (0, 0, 8));
}

#[test]
fn beside_a_simulated_node_its_gpus_are_the_devices() {
    let dir = tempfile::tempdir().unwrap();
    let node = SimulatedNode::start("hgx-a100-nps4", dir.path(), ClockMode::Stepped).unwrap();
    let machine = Machine::of(&node.description());
    let settings = Settings::strict(&machine);
    let kubelet = SimulatedKubelet::start(machine, settings, &node.host_root()).unwrap();
    for (resource, devices) in offer(&node.state(), &node.host_root(), &Naming::default()).unwrap() {
        kubelet.register(&resource, devices);
    }
    kubelet.admit(pod("a", 2, 1)).unwrap();
    // The node's own upkeep of its processes leaves the kubelet's alone.
    let hold = crate::command::Hold {
        gpu: 0,
        pid: 4242,
        kind: crate::state::ProcessKind::Compute,
        memory_bytes: None,
        instance: None,
        name: "python3".to_owned(),
        cgroup: None,
    };
    node.command(crate::command::Command::Hold(hold)).unwrap();
    assert!(node.host_root().join("proc/1211/cmdline").exists());
    let pods = Client::new(&kubelet.socket()).list().unwrap();
    let device = &pods[0].containers[0].devices[0];
    assert!(node.state().gpus.iter().any(|gpu| gpu.identity.uuid == device.id));
}
