//! The folder that the node gets as a disk.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::{RealNode, scripts};
use crate::control_plane::ControlPlane;
use crate::program::{gpulet, gpulet_sim, library};

/// Makes the folder: what lets the kubelet join `plane`, the built programs, the settings of `tests/node/payload`, and the
/// files of `bring`.
pub(super) fn make(payload: &Path, plane: &ControlPlane, bring: &[(&str, &Path)]) {
    let copied = Command::new("cp").arg("-r").arg(scripts().join("payload")).arg(payload).status().unwrap();
    assert!(copied.success());
    credentials(&payload.join("kubernetes"), plane);
    fs::write(payload.join("api-server"), format!("10.0.2.2:{}", plane.port())).unwrap();
    let programs = payload.join("bin");
    fs::create_dir(&programs).unwrap();
    for program in [gpulet().get_program(), gpulet_sim().get_program()].map(Path::new) {
        strip(program, &programs);
    }
    strip(&library(), &programs);
    for (name, path) in bring {
        fs::copy(path, payload.join(name)).unwrap();
    }
}

/// Copies `program` into `folder` without what only debuggers need: most of it.
fn strip(program: &Path, folder: &Path) {
    let target = folder.join(program.file_name().unwrap());
    let stripped = Command::new("strip").arg("-o").arg(target).arg(program).status();
    assert!(stripped.expect("strip of binutils").success());
}

/// The kubelet's kubeconfig with the files that it names, all in `folder`.
fn credentials(folder: &Path, plane: &ControlPlane) {
    fs::create_dir(folder).unwrap();
    let identity = plane.kubelet_of(RealNode::NAME);
    let kubeconfig: serde_json::Value =
        serde_saphyr::from_str(&fs::read_to_string(&identity.kubeconfig).unwrap()).unwrap();
    let user = &kubeconfig["users"][0]["user"];
    let keep = |name: &str, path: &str| {
        fs::copy(path, folder.join(name)).unwrap();
    };
    keep("kubelet.crt", user["client-certificate"].as_str().unwrap());
    keep("kubelet.key", user["client-key"].as_str().unwrap());
    keep("ca.crt", plane.ca().to_str().unwrap());
    let server = format!("https://10.0.2.2:{}", plane.port());
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "node",
        "clusters": [{ "name": "node", "cluster": { "server": server, "certificate-authority": "ca.crt" } }],
        "users": [{ "name": "node", "user": { "client-certificate": "kubelet.crt", "client-key": "kubelet.key" } }],
        "contexts": [{ "name": "node", "context": { "cluster": "node", "user": "node" } }],
    });
    fs::write(folder.join("kubelet.conf"), config.to_string()).unwrap();
}
