//! The NodeResourceTopology object without an API server: `topo -o nrt`, and the file that the daemon keeps.

#![cfg(feature = "simulator")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod common;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::node::Node;
use common::{stderr, stdout, value, wait_until};
use gpulet_simulator::kubelet::{Container, Device, Fault, Pod, SimulatedKubelet};
use nix::sys::signal::Signal;
use serde_json::Value;

const GPUS: &str = "nvidia.com/gpu";

/// A node on which nobody holds a GPU, where there are any.
fn start(name: &str) -> Node {
    let node = Node::start(name);
    if name != "cpu-only" {
        node.idle();
    }
    node
}

/// Where the daemon keeps the object.
fn object_file(node: &Node) -> PathBuf {
    node.simulated.host_root().join("run/gpulet/noderesourcetopology.yaml")
}

/// A strict kubelet with the GPUs of this node.
fn kubelet_of(node: &Node, name: &str) -> SimulatedKubelet {
    let kubelet = node.kubelet(name);
    let topology: Value = serde_json::from_slice(&node.run(&["topo", "-o", "json"]).stdout).unwrap();
    let device = |gpu: &Value| Device {
        id: gpu["uuid"].as_str().unwrap().to_owned(),
        numa: gpu["numa"]["node"].as_i64().map(|node| vec![node]),
        healthy: true,
    };
    kubelet.register(GPUS, topology["gpus"].as_array().unwrap().iter().map(device).collect());
    kubelet
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What is free of `resource` in each zone of type Node.
fn free(object: &Value, resource: &str) -> Vec<u64> {
    let zones = object["zones"].as_array().unwrap().iter().filter(|zone| zone["type"] == "Node");
    let of = |zone: &Value| {
        let resources = zone["resources"].as_array().unwrap();
        let has = resources.iter().find(|has| has["name"] == resource).unwrap();
        has["available"].as_str().unwrap().parse().unwrap()
    };
    zones.map(of).collect()
}

fn in_file(file: &Path, resource: &str) -> Option<Vec<u64>> {
    Some(free(&yaml(&fs::read_to_string(file).ok()?), resource))
}

fn wait_for(file: &Path, resource: &str, expected: &[u64]) {
    wait_until(&format!("{expected:?} of {resource}"), || {
        (in_file(file, resource).as_deref() == Some(expected)).then_some(())
    });
}

fn train(gpus: u64) -> Pod {
    Pod::new("ml", "train").container(Container::new("main").guaranteed(4, 1 << 30).devices(GPUS, gpus))
}

#[test]
fn each_node_has_its_object_without_a_cluster() {
    for (name, gpus) in [("dgx-h100", vec![4, 4]), ("l40s-4x", vec![2, 2]), ("cpu-only", vec![])] {
        let node = start(name);
        let output = node.run(&["topo", "-o", "nrt", "--node-name", "gpu-1"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let object = yaml(&stdout(&output));
        assert_eq!(object["apiVersion"], "topology.node.k8s.io/v1alpha2");
        assert_eq!(object["kind"], "NodeResourceTopology");
        assert_eq!(object["metadata"]["name"], "gpu-1");
        if !gpus.is_empty() {
            assert_eq!(free(&object, GPUS), gpus, "{name}");
        }
        assert!(free(&object, "memory").iter().all(|bytes| *bytes > 0), "{name}");
        assert_eq!(stderr(&output), "", "there is no kubelet, which is nothing odd");
    }
}

#[test]
fn why_tells_pod_by_pod_and_goes_with_nrt_only() {
    let node = start("dgx-h100");
    let kubelet = kubelet_of(&node, "dgx-h100");
    kubelet.admit(train(2)).unwrap();
    let output = node.run(&["topo", "-o", "nrt", "--why"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let why = stdout(&output);
    assert!(why.contains("ml/train, container main"), "{why}");
    assert!(why.contains("nvidia.com/gpu: available 2 = 4 allocatable"), "{why}");
    let refused = node.run(&["topo", "--why"]);
    assert_eq!(refused.status.code(), Some(64));
    assert!(stderr(&refused).contains("-o nrt"), "{}", stderr(&refused));
}

#[test]
fn a_kubelet_that_does_not_answer_is_said_and_the_object_is_made_without_it() {
    let node = start("dgx-h100");
    let kubelet = kubelet_of(&node, "dgx-h100");
    kubelet.fault(Some(Fault::Garbage));
    let output = node.run(&["topo", "-o", "nrt"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("made without the kubelet"), "{}", stderr(&output));
    assert_eq!(free(&yaml(&stdout(&output)), GPUS), [4, 4]);
}

#[test]
fn without_kubernetes_the_daemon_keeps_the_object_in_a_file() {
    let node = start("dgx-h100");
    let mut daemon = node.daemon();
    let file = object_file(&node);
    wait_for(&file, GPUS, &[4, 4]);
    let inode = fs::metadata(&file).unwrap().ino();
    daemon.scrape_until("further scans", |scrape| {
        value(scrape, "gpulet_topology_publications_unchanged_total").is_some_and(|scans| scans > 4.0)
    });
    assert_eq!(fs::metadata(&file).unwrap().ino(), inode, "what does not change is not written again");
    let scrape = daemon.get("/metrics").1;
    assert_eq!(
        value(&scrape, "gpulet_topology_publication_state{state=\"Published\"}"),
        Some(1.0),
        "{scrape}"
    );
    assert!(!scrape.contains("gpulet_kubelet_answers"), "there is no kubelet");
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.ended().success());
    assert!(in_file(&file, GPUS).is_some(), "it stays");
}

#[test]
fn what_pods_have_is_in_the_file() {
    let node = start("dgx-h100");
    let kubelet = kubelet_of(&node, "dgx-h100");
    let _daemon = node.daemon();
    let file = object_file(&node);
    wait_for(&file, GPUS, &[4, 4]);
    kubelet.admit(train(3)).unwrap();
    wait_until("three GPUs are taken", || {
        in_file(&file, GPUS).filter(|free| free.iter().sum::<u64>() == 5).map(drop)
    });
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("single-numa-node"), "the kubelet's settings: {text}");
    kubelet.remove("ml", "train");
    wait_for(&file, GPUS, &[4, 4]);
}

#[test]
fn the_last_good_answer_stands_whatever_the_kubelet_does() {
    let node = start("dgx-h100");
    let kubelet = kubelet_of(&node, "dgx-h100");
    kubelet.admit(train(3)).unwrap();
    let daemon = node.daemon();
    let file = object_file(&node);
    let taken = || in_file(&file, GPUS).filter(|free| free.iter().sum::<u64>() == 5).map(drop);
    wait_until("three GPUs are taken", taken);
    let failures = |reason: &str| {
        let series = format!("gpulet_kubelet_failures_total{{reason=\"{reason}\"}}");
        daemon.scrape_until(reason, |scrape| value(scrape, &series).is_some_and(|count| count > 0.0))
    };
    kubelet.fault(Some(Fault::Garbage));
    failures("Garbled");
    kubelet.fault(Some(Fault::Broken));
    failures("Failed");
    kubelet.fault(None);
    kubelet.remove_socket().unwrap();
    let scrape = failures("SocketAbsent");
    assert!(value(&scrape, "gpulet_kubelet_answer_age_seconds").unwrap() >= 0.0);
    assert!(taken().is_some(), "what it told last stands");
    assert_eq!(daemon.get("/healthz").0, 200);
    kubelet.replace_socket().unwrap();
    kubelet.remove("ml", "train");
    wait_for(&file, GPUS, &[4, 4]);
    assert!(daemon.logged("the kubelet answers").len() >= 2, "it is said when it is back");
}

#[test]
fn devices_do_not_vanish_while_plugins_have_not_registered_again() {
    let node = start("dgx-h100");
    let kubelet = kubelet_of(&node, "dgx-h100");
    let daemon = node.daemon();
    let file = object_file(&node);
    wait_for(&file, GPUS, &[4, 4]);
    kubelet.stop();
    wait_until("it is said", || daemon.logged("the kubelet does not answer; what it told last stands").pop());
    kubelet.resume().unwrap();
    daemon.wait_for_event("the kubelet answers", 2);
    let answers = |scrape: &str| value(scrape, "gpulet_kubelet_answers_total").unwrap_or_default();
    let before = answers(&daemon.get("/metrics").1);
    daemon.scrape_until("further answers without devices", |scrape| answers(scrape) >= before + 2.0);
    assert_eq!(in_file(&file, GPUS).as_deref(), Some(&[4, 4][..]));
    kubelet.plugins_return();
    kubelet.admit(train(1)).unwrap();
    wait_until("one GPU is taken", || {
        in_file(&file, GPUS).filter(|free| free.iter().sum::<u64>() == 7).map(drop)
    });
}

#[test]
fn an_answer_of_six_megabytes_is_read() {
    let node = start("dgx-h100");
    let kubelet = kubelet_of(&node, "dgx-h100");
    kubelet.fault(Some(Fault::Large { bytes: 6 << 20 }));
    let _daemon = node.daemon();
    wait_for(&object_file(&node), GPUS, &[4, 4]);
}

#[test]
fn a_kubelet_that_hangs_delays_neither_sampling_nor_the_end() {
    let node = start("dgx-h100");
    let kubelet = kubelet_of(&node, "dgx-h100");
    kubelet.fault(Some(Fault::Hang));
    let mut daemon = node.daemon();
    let ticks = |scrape: &str| value(scrape, "gpulet_sampling_ticks_total").unwrap_or_default();
    let before = ticks(&daemon.get("/metrics").1);
    daemon.scrape_until("it samples", |scrape| ticks(scrape) >= before + 10.0);
    let asked = Instant::now();
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.ended().success());
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
}

#[test]
fn a_file_that_leads_out_of_the_root_is_said_once() {
    let node = start("l40s-4x");
    node.configure("kubernetes: {publish: never, file: /../object.yaml}\n");
    let daemon = node.daemon();
    let told = daemon.wait_for_event("the NodeResourceTopology object is not published", 1);
    assert_eq!(told["reason"], "Unwritable");
    assert!(told["error"].as_str().unwrap().contains("/../object.yaml"), "{told}");
    let state = "gpulet_topology_publication_state{state=\"Unwritable\"}";
    let scrape = daemon.scrape_until("it is told", |scrape| value(scrape, state) == Some(1.0));
    assert_eq!(value(&scrape, "gpulet_loop_restarts_total{loop=\"publish\"}"), Some(0.0));
}
