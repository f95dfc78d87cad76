//! gpulet as a DaemonSet: the real controllers make its Pod from the manifest that is shipped, the real kubelet runs it.

use std::path::{Path, PathBuf};
use std::process::Command;

use gpulet_tests::{ControlPlane, RealNode, documents, gpulet};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::published::{self, Published};
use crate::watched::Machine;

/// The image that the manifest names.
pub(crate) struct Image {
    directory: TempDir,
}

impl Image {
    /// Its file.
    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("gpulet.tar")
    }
}

fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("daemonset")
}

/// The manifests, in order; with the driver's library and device files, which NVIDIA's runtime would bring into the Pod.
fn objects() -> Vec<Value> {
    const DRIVER: &str = "/run/nvidia/simulated";
    let mut objects = documents(&manifests());
    let daemonset = objects.iter_mut().find(|object| object["kind"] == "DaemonSet").unwrap();
    let pod = &mut daemonset["spec"]["template"]["spec"];
    let push = |list: &mut Value, item: Value| list.as_array_mut().unwrap().push(item);
    push(
        &mut pod["volumes"],
        json!({ "name": "driver", "hostPath": { "path": DRIVER, "type": "Directory" } }),
    );
    let container = &mut pod["containers"][0];
    push(&mut container["volumeMounts"], json!({ "name": "driver", "mountPath": DRIVER }));
    let library = format!("{DRIVER}/lib/libnvidia-ml.so.1");
    push(&mut container["env"], json!({ "name": "GPULET_NVML_LIBRARY", "value": library }));
    objects
}

/// Makes the image with the built program.
pub(crate) fn image() -> Image {
    let directory = tempfile::tempdir().unwrap();
    let image = Image { directory };
    let program = image.directory.path().join("gpulet");
    let stripped = Command::new("strip").arg("-o").arg(&program).arg(gpulet().get_program()).status();
    assert!(stripped.unwrap().success());
    let objects = objects();
    let daemonset = objects.iter().find(|object| object["kind"] == "DaemonSet").unwrap();
    let name = daemonset["spec"]["template"]["spec"]["containers"][0]["image"].as_str().unwrap();
    let mut build = Command::new(manifests().join("image/build"));
    assert!(build.arg(&program).arg(name).arg(image.path()).status().unwrap().success());
    image
}

/// Its Pod gets ready, and publishes in the name of its service account, with its token of this node.
pub(crate) fn a_daemonset_publishes(plane: &ControlPlane, node: &RealNode) {
    let machine = Machine::of(node);
    plane.admin().delete(&published::path()).ok();
    node.run("ctr --namespace k8s.io images import /payload/gpulet.tar");
    let before = plane.requests().len();
    plane.start_controllers(&["daemonset-controller", "root-ca-certificate-publisher-controller"]);
    plane.start_scheduler();
    for object in objects() {
        plane.apply_object(&object, false).ok();
    }
    node.wait_for("the DaemonSet's Pod is ready", || {
        let status = &plane.admin().get("/apis/apps/v1/namespaces/gpulet/daemonsets/gpulet").ok()["status"];
        (status["desiredNumberScheduled"] == 1 && status["numberReady"] == 1).then_some(())
    });
    node.wait_for("it publishes what the kubelet says", || {
        Published::read(plane).filter(|object| object.agrees_with(&node.pod_resources(), &machine))
    });

    let requests = plane.requests();
    let mut own =
        requests[before..].iter().filter(|r| r.user == "system:serviceaccount:gpulet:gpulet").peekable();
    assert!(own.peek().is_some(), "the object is not the service account's");
    let refused: Vec<_> = own.filter(|request| matches!(request.code, 401 | 403)).collect();
    assert!(refused.is_empty(), "{refused:?}");
}
