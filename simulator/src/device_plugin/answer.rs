//! What a container is given with its devices.

use std::path::Path;

use super::offer::without_replica;
use super::v1beta1::messages::{ContainerAllocateResponse, DeviceSpec};

/// Device files that go with every GPU.
const COMMON: [&str; 3] = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"];

/// The variable by which NVIDIA's container toolkit is told the devices, and the device files that the machine has.
/// `files` are those of the devices, named as in `/dev`; nothing is looked up below `dev` that is not a device file there.
pub(crate) fn allocate_response(ids: &[&str], files: &[String], dev: &Path) -> ContainerAllocateResponse {
    let mut devices: Vec<&str> = ids.iter().map(|id| without_replica(id)).collect();
    devices.sort_unstable();
    devices.dedup();
    let mut names: Vec<&str> = files.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    let files = names.into_iter().chain(COMMON).map(|name| dev.join(name)).filter(|path| is_device(path));
    let spec = |path: String| DeviceSpec {
        container_path: path.clone(),
        host_path: path,
        permissions: "rw".to_owned(),
    };
    ContainerAllocateResponse {
        envs: [("NVIDIA_VISIBLE_DEVICES".to_owned(), devices.join(","))].into(),
        devices: files.map(|path| spec(path.display().to_string())).collect(),
        ..Default::default()
    }
}

/// A simulated node's device files are ordinary ones: no container could be given them.
fn is_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|file| file.file_type().is_char_device())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_sees_each_gpu_once() {
        let answer = allocate_response(
            &["GPU-b::1", "GPU-a::0", "GPU-b::0"],
            &["nvidia0".to_owned()],
            Path::new("/nowhere"),
        );
        assert_eq!(answer.envs["NVIDIA_VISIBLE_DEVICES"], "GPU-a,GPU-b");
        assert!(answer.devices.is_empty());
    }
}
