//! A cluster with everything that is shipped, and the controllers that make and end Pods.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use gpulet_tests::ControlPlane;
use serde_json::{Value, json};

/// Where NVIDIA's Pods are.
pub(crate) const OPERATOR: &str = "gpu-operator";

/// Who makes DaemonSets' Pods, who counts what a budget allows, and what these two need.
const CONTROLLERS: [&str; 3] =
    ["daemonset-controller", "disruption-controller", "root-ca-certificate-publisher-controller"];

/// One of its own, for a test that ends the API server.
pub(crate) fn own() -> Arc<ControlPlane> {
    let plane = ControlPlane::start();
    for manifests in ["daemonset/crd", "daemonset", "systemd/kubernetes.yaml"] {
        plane.apply(&shipped(manifests));
    }
    plane.create_namespace(OPERATOR);
    plane.create_namespace("ml");
    plane.start_controllers(&CONTROLLERS);
    plane.start_scheduler();
    Arc::new(plane)
}

/// The one that the others share while any of them uses it.
pub(crate) fn shared() -> Arc<ControlPlane> {
    static SHARED: Mutex<Weak<ControlPlane>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let plane = own();
        *shared = Arc::downgrade(&plane);
        plane
    })
}

fn shipped(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// A DaemonSet of NVIDIA's for one node, which runs where `nvidia.com/gpu.deploy.COMPONENT` is `true`.
pub(crate) fn client(node: &str, component: &str, app: &str) -> Value {
    let labels = json!({ "app": app, "node": node });
    let key = format!("nvidia.com/gpu.deploy.{component}");
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": { "name": format!("{component}-{node}"), "namespace": OPERATOR },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "nodeSelector": { key: "true", "kubernetes.io/hostname": node },
                    "automountServiceAccountToken": false,
                    "tolerations": [{ "operator": "Exists" }],
                    "containers": [{ "name": "main", "image": "none" }],
                },
            },
        },
    })
}
