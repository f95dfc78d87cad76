//! gpulet on a real node: what it publishes, held against what the real kubelet does. `tests/node` builds and boots it.
//! Needs root on Debian, x86-64, with Go and the packages that `.ci/run` installs; `.ci/run` runs this test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod admissions;
mod daemonset;
mod partition;
mod pods;
mod published;
mod restarts;
mod scheduler;
mod transcript;
mod watched;

use std::path::Path;

use gpulet_tests::{ControlPlane, RealNode, wait_until};

use crate::published::Published;

/// One boot for all of it: a minute of each run's four.
#[test]
#[ignore = "needs root, QEMU, Go, and Debian packages for the machine"]
fn what_is_published_of_a_real_node_is_what_its_kubelet_does() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let plane = ControlPlane::start();
    plane.apply(&root.join("daemonset/crd"));
    // The unit has no rights but those of its kubelet and these.
    plane.apply(&root.join("systemd/kubernetes.yaml"));
    let image = daemonset::image();
    let unit = root.join("systemd/gpulet.service");
    let node = RealNode::boot(&plane, &[("gpulet.service", &unit), ("gpulet.tar", &image.path())]);

    step("gpulet runs from its unit");
    node.run("systemctl start gpulet");
    wait_until("the object is published", || Published::read(&plane));
    says_the_kubelets_settings(&plane);

    step("Pods of random sizes come and go");
    admissions::statements_equal_verdicts(&plane, &node);

    step("the kubelet starts anew, and with other settings");
    restarts::nothing_vanishes(&plane, &node);
    restarts::attributes_follow_settings(&plane, &node);

    step("gpulet runs from its manifest");
    node.run("systemctl stop gpulet");
    daemonset::a_daemonset_publishes(&plane, &node);

    step("a label divides a GPU");
    partition::a_label_divides_one_gpu(&plane, &node);
}

fn step(what: &str) {
    println!("== {what}");
}

/// Those of `tests/node/guest/kubelet.yaml`.
fn says_the_kubelets_settings(plane: &ControlPlane) {
    let published = Published::read(plane).unwrap();
    let settings = [
        ("cpuManagerPolicy", "static"),
        ("memoryManagerPolicy", "Static"),
        ("topologyManagerPolicy", "single-numa-node"),
        ("topologyManagerScope", "container"),
    ];
    for (name, value) in settings {
        assert_eq!(published.attribute(name), Some(value), "{name}");
    }
}
