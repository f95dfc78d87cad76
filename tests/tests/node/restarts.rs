//! The kubelet starts anew: as before, and with other settings.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpulet_tests::{Answers, ControlPlane, RealNode};
use serde_json::Value;

use crate::pods::{Pod, Size};
use crate::published::Published;
use crate::watched::Machine;

const SETTINGS: &str = "/var/lib/kubelet/config.yaml";

/// While the kubelet starts, it knows no device until its plugin has come again: no resource vanishes of what is published,
/// and nothing that a Pod has is published as available.
pub(crate) fn nothing_vanishes(plane: &ControlPlane, node: &RealNode) {
    let machine = Machine::of(node);
    let pod = Pod {
        name: "stays".to_owned(),
        containers: vec![Size { cpus: 2, memory: 64 << 20, gpus: 2 }],
        ends: false,
    };
    plane.admin().create("/api/v1/namespaces/default/pods", &pod.manifest()).ok();
    let has_started = || {
        let pod = plane.admin().get("/api/v1/namespaces/default/pods/stays").ok();
        (pod["status"]["phase"] == "Running").then_some(())
    };
    node.wait_for("the Pod runs", has_started);
    let agrees =
        || Published::read(plane).filter(|object| object.agrees_with(&node.pod_resources(), &machine));
    let before = node.wait_for("its share is published", agrees);

    let seen = std::thread::scope(|scope| {
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        let seen = scope.spawn(move || everything_published(plane, &until));
        // Its plugin comes later, so that it does tell of a node without devices.
        node.run("systemctl stop kubelet; systemctl stop device-plugin; systemctl start kubelet");
        node.wait_for("the kubelet has no device", || {
            answers(node).filter(|answers| answers.allocatable.devices.is_empty())
        });
        node.run("systemctl start device-plugin");
        node.wait_for("the kubelet has its devices again", || {
            answers(node).filter(|answers| !answers.allocatable.devices.is_empty() && answers.pods.len() == 1)
        });
        node.wait_for("what is published is what the kubelet says", agrees);
        over.store(true, Ordering::Relaxed);
        seen.join().unwrap()
    });
    for zones in &seen {
        assert_eq!(zones, &before.object["zones"], "while the kubelet started");
    }
    plane.admin().delete("/api/v1/namespaces/default/pods/stays").ok();
    node.wait_for("the Pod is gone", || node.pod_resources().pods.is_empty().then_some(()));
}

/// The kubelet's answers; nothing while it does not answer.
fn answers(node: &RealNode) -> Option<Answers> {
    let ran = node.try_run("podresources").filter(|ran| ran.status == 0)?;
    Some(Answers::parse(ran.output.trim()))
}

/// Every state of the object's zones until it is `over`, each once.
fn everything_published(plane: &ControlPlane, over: &AtomicBool) -> Vec<Value> {
    let mut seen: Vec<Value> = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let zones = Published::read(plane).expect("the object stays").object["zones"].clone();
        if seen.last() != Some(&zones) {
            seen.push(zones);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    seen
}

/// Other policies are published as soon as the kubelet has them, and CPUs and memory also where no manager keeps them.
pub(crate) fn attributes_follow_settings(plane: &ControlPlane, node: &RealNode) {
    let resources = |published: &Published| -> Vec<BTreeSet<String>> {
        published.available.values().map(|zone| zone.keys().cloned().collect()).collect()
    };
    let before = Published::read(plane).unwrap();
    node.run(&format!("cp {SETTINGS} /root/config.yaml"));
    node.run(&format!(
        "sed -i 's/^topologyManagerPolicy: .*/topologyManagerPolicy: restricted/; \
         s/^topologyManagerScope: .*/topologyManagerScope: pod/' {SETTINGS} && systemctl restart kubelet"
    ));
    follow(plane, node, &[("topologyManagerPolicy", "restricted"), ("topologyManagerScope", "pod")]);

    // A kubelet does not start on the state of another policy.
    node.run(&format!(
        "systemctl stop kubelet && rm /var/lib/kubelet/{{cpu,memory}}_manager_state && \
         sed -i 's/^cpuManagerPolicy: .*/cpuManagerPolicy: none/; s/^memoryManagerPolicy: .*/memoryManagerPolicy: None/' \
         {SETTINGS} && systemctl start kubelet"
    ));
    follow(plane, node, &[("cpuManagerPolicy", "none"), ("memoryManagerPolicy", "None")]);
    assert_eq!(resources(&Published::read(plane).unwrap()), resources(&before));

    node.run(&format!(
        "systemctl stop kubelet && rm /var/lib/kubelet/{{cpu,memory}}_manager_state && \
         cp /root/config.yaml {SETTINGS} && systemctl start kubelet"
    ));
    let attributes = [
        ("topologyManagerPolicy", "single-numa-node"),
        ("topologyManagerScope", "container"),
        ("cpuManagerPolicy", "static"),
        ("memoryManagerPolicy", "Static"),
    ];
    follow(plane, node, &attributes);
}

fn follow(plane: &ControlPlane, node: &RealNode, attributes: &[(&str, &str)]) {
    let changed = Instant::now();
    node.wait_for("the attributes follow the settings", || {
        let published = Published::read(plane)?;
        attributes.iter().all(|(name, value)| published.attribute(name) == Some(value)).then_some(())
    });
    println!("{attributes:?} after {} ms", changed.elapsed().as_millis());
}
