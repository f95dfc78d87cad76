//! What a kubelet leaves on disk: its configuration, its state, and itself in `/proc`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use prost::Message;
use serde_json::Value;

use super::allocator::Allocator;
use super::checkpoint::{CpuState, DeviceState, MemoryState};
use super::settings::Settings;
use super::simulated_kubelet::KubeletError;
use crate::device_plugin::allocate_response;
use crate::host_tree::KUBELET_PID;

/// Where a kubelet's own files are, below the host's root.
pub(super) const DIRECTORY: &str = "var/lib/kubelet";

/// Writes the configuration and the process, as they are from the kubelet's start on.
pub(super) fn write_start(host_root: &Path, settings: &Settings) -> Result<(), KubeletError> {
    let path = host_root.join(DIRECTORY).join("config.yaml");
    let text = serde_saphyr::to_string(&whole(settings)).map_err(|error| {
        KubeletError::file("write", &path, std::io::Error::new(std::io::ErrorKind::InvalidData, error))
    })?;
    replace(&path, text.as_bytes())?;
    let process = process(host_root);
    let name = "kubelet";
    let arguments = [
        "/usr/bin/kubelet",
        "--kubeconfig=/etc/kubernetes/kubelet.conf",
        "--config=/var/lib/kubelet/config.yaml",
    ];
    let cmdline: String = arguments.iter().map(|argument| format!("{argument}\0")).collect();
    let status = format!(
        "Name:\t{name}\nState:\tS (sleeping)\nTgid:\t{KUBELET_PID}\nPid:\t{KUBELET_PID}\nPPid:\t1\nUid:\t0\t0\t0\t0\n"
    );
    replace(&process.join("cmdline"), cmdline.as_bytes())?;
    replace(&process.join("status"), status.as_bytes())?;
    replace(&process.join("comm"), format!("{name}\n").as_bytes())
}

/// The process is no more; its other files stay.
pub(super) fn remove_process(host_root: &Path) {
    // Whatever is left of it goes with the host tree.
    let _gone = fs::remove_dir_all(process(host_root));
}

fn process(host_root: &Path) -> PathBuf {
    host_root.join("proc").join(KUBELET_PID.to_string())
}

/// The whole file, of which the settings are a part.
fn whole(settings: &Settings) -> Value {
    let mut whole = serde_json::to_value(settings).unwrap_or_default();
    if let Value::Object(keys) = &mut whole {
        let mut default = |key: &str, value: &str| {
            keys.entry(key).or_insert_with(|| value.into());
        };
        default("apiVersion", "kubelet.config.k8s.io/v1beta1");
        default("kind", "KubeletConfiguration");
        default("cgroupDriver", "systemd");
    }
    whole
}

/// Writes the state files, those that have changed.
pub(super) fn write_state(
    host_root: &Path,
    allocator: &Allocator,
    settings: &Settings,
) -> Result<(), KubeletError> {
    let directory = host_root.join(DIRECTORY);
    // The answers of NVIDIA's plugin; others give nothing that matters here.
    let answered = |resource: &str, ids: &[&str]| {
        if resource.starts_with("nvidia.com/") {
            allocate_response(ids, &[], Path::new("/dev")).encode_to_vec()
        } else {
            Vec::new()
        }
    };
    let files = [
        ("cpu_manager_state", CpuState::of(allocator, settings).to_string()),
        ("memory_manager_state", MemoryState::of(allocator, settings).to_string()),
        ("device-plugins/kubelet_internal_checkpoint", DeviceState::of(allocator, answered).to_string()),
    ];
    for (name, content) in files {
        let path = directory.join(name);
        if fs::read(&path).ok().as_deref() != Some(content.as_bytes()) {
            replace(&path, content.as_bytes())?;
        }
    }
    Ok(())
}

/// Replaces a file in one step, as the kubelet does.
fn replace(path: &Path, content: &[u8]) -> Result<(), KubeletError> {
    let failed = |source| KubeletError::file("write", path, source);
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory).map_err(failed)?;
    let mut file = tempfile::Builder::new().prefix(".").tempfile_in(directory).map_err(failed)?;
    file.write_all(content).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}
