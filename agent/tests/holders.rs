//! Who holds which GPU, as the daemon serves it: kernel, driver and kubelet of a simulated node in one.

#![cfg(feature = "simulator")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod common;

use std::fs;

use common::node::Node;
use common::{stderr, stdout, value};
use gpulet_simulator::command::{Command as Happening, Hold};
use gpulet_simulator::kubelet::{Container, Device, Pod, SimulatedKubelet};
use gpulet_simulator::state::ProcessKind;

const NODE: &str = "l40s-4x";
const GPUS: &str = "nvidia.com/gpu";
const UID: &str = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0";

/// A node on which nobody holds a GPU.
fn node() -> Node {
    let node = Node::start(NODE);
    node.idle();
    node
}

fn hold(node: &Node, gpu: u32, pid: u32, cgroup: Option<String>) {
    let hold = Hold {
        gpu,
        pid,
        kind: ProcessKind::Compute,
        memory_bytes: Some(1 << 30),
        instance: None,
        name: "train".to_owned(),
        cgroup,
    };
    node.simulated.command(Happening::Hold(hold)).unwrap();
}

/// A kubelet that gives GPUs by their minor numbers, as GKE's plugin does, and one that there is not.
fn kubelet_of(node: &Node) -> SimulatedKubelet {
    let kubelet = node.kubelet(NODE);
    let device = |id: &str| Device { id: id.to_owned(), numa: None, healthy: true };
    kubelet.register(GPUS, vec![device("nvidia2/vgpu0")]);
    kubelet.register("nvidia.com/gpu.shared", vec![device("nvidia9")]);
    kubelet
}

/// The series of one family, each as its labels in order of the scrape and its value.
fn series<'s>(scrape: &'s str, name: &str) -> Vec<&'s str> {
    let of = |line: &'s str| line.strip_prefix(name).filter(|rest| rest.starts_with('{'));
    scrape.lines().filter_map(of).collect()
}

/// Whether there is a series with all of these labels, each `name="value"`.
fn told(scrape: &str, name: &str, labels: &[&str]) -> bool {
    series(scrape, name).iter().any(|line| labels.iter().all(|label| line.contains(label)))
}

#[test]
fn pods_services_and_processes_that_are_gone() {
    let node = node();
    let daemon = node.daemon();
    let until = |what: &str, labels: &[&str]| {
        daemon.scrape_until(what, |scrape| told(scrape, "gpulet_gpu_holder_info", labels));
    };
    hold(&node, 0, 100, Some(format!("/kubepods/burstable/pod{UID}/{}", "9a".repeat(32))));
    until("a Pod", &["gpu=\"0\"", "owner=\"pod\"", &format!("pod_uid=\"{UID}\"")]);
    hold(&node, 1, 101, None);
    until("a service", &["gpu=\"1\"", "owner=\"host:train.service\"", "pod_uid=\"\""]);
    // Its files go before the driver notices.
    hold(&node, 1, 102, None);
    fs::remove_dir_all(node.simulated.host_root().join("proc/102")).unwrap();
    until("a process that is gone", &["gpu=\"1\"", "owner=\"unknown\""]);
    daemon.scrape_until("all that the driver lists", |scrape| {
        told(scrape, "gpulet_gpu_processes", &["gpu=\"1\"", "kind=\"compute\"} 2"])
    });
    node.simulated.command(Happening::Release { pid: 100, gpu: None }).unwrap();
    daemon.scrape_until("nobody", |scrape| !told(scrape, "gpulet_gpu_holder_info", &["gpu=\"0\""]));
}

#[test]
fn what_the_kubelet_gave_and_what_is_not_there() {
    let node = node();
    let kubelet = kubelet_of(&node);
    let daemon = node.daemon();
    let container = Container::new("main").guaranteed(1, 1 << 30);
    kubelet.admit(Pod::new("ml", "train").container(container.clone().devices(GPUS, 1))).unwrap();
    daemon.scrape_until("what was given", |scrape| {
        told(
            scrape,
            "gpulet_gpu_allocated_info",
            &["resource=\"nvidia.com/gpu\"", "namespace=\"ml\"", "pod=\"train\"", "container=\"main\""],
        )
    });
    let lost = container.devices("nvidia.com/gpu.shared", 1);
    kubelet.admit(Pod::new("ml", "stranded").container(lost)).unwrap();
    daemon.scrape_until("what is not there", |scrape| {
        value(scrape, "gpulet_kubelet_unknown_devices") == Some(1.0)
    });
    let warned = "the kubelet gave a container a GPU or MIG instance that this node does not have now; was it divided anew \
                  or lost? The Pod must be made anew to get another";
    let event = daemon.wait_for_event(warned, 1);
    assert_eq!((event["device"].as_str(), event["pod"].as_str()), (Some("nvidia9"), Some("stranded")));
    assert!(kubelet.remove("ml", "stranded") && kubelet.remove("ml", "train"));
    daemon.scrape_until("nothing given", |scrape| {
        value(scrape, "gpulet_kubelet_unknown_devices") == Some(0.0)
            && series(scrape, "gpulet_gpu_allocated_info").is_empty()
    });
    assert_eq!(daemon.logged(warned).len(), 1, "once");
}

#[test]
fn a_bundle_tells_whose_the_processes_are() {
    let node = node();
    hold(&node, 2, 100, Some(format!("/kubepods/pod{UID}/{}", "9a".repeat(32))));
    hold(&node, 2, 101, None);
    let metrics = |arguments: &[&str]| {
        let output = node.run(arguments);
        assert!(output.status.success(), "{}", stderr(&output));
        let text = stdout(&output);
        series(&text, "gpulet_gpu_holder_info").iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()
    };
    let live = metrics(&["metrics"]);
    assert_eq!(live.len(), 2, "{live:?}");
    let bundle = node.file("bundle.tar.gz");
    let bundle = bundle.to_str().unwrap();
    let output = node.run(&["collect", bundle]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(metrics(&["--host-root", bundle, "metrics"]), live);
}
