//! What else a change of GPUs has to do with on the host: who has them open, persistence mode, device files, services.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::site::Site;

/// The monitor that has a GPU open.
const MONITOR: u32 = 31_337;

impl Site {
    /// Whether it is a virtual machine, which cannot reset its GPUs.
    pub fn is_virtual_machine(&self) -> bool {
        self.node().state()["virtual_machine"].as_bool().unwrap()
    }

    /// A monitor opens GPU `index`, without working on it; gives its process id.
    pub fn observe(&self, index: usize) -> u32 {
        self.node().sim(&[
            "observe",
            &index.to_string(),
            "--pid",
            &MONITOR.to_string(),
            "--name",
            "dcgm-exporter",
        ]);
        MONITOR
    }

    /// Sets persistence mode of GPU `index`.
    pub fn set_persistence(&self, index: usize, on: bool) {
        self.node().sim(&["set", "persistence", &index.to_string(), if on { "on" } else { "off" }]);
    }

    /// Whether GPU `index` is in persistence mode.
    pub fn persistence(&self, index: usize) -> bool {
        self.node().state()["gpus"][index]["now"]["persistence"].as_bool().unwrap()
    }

    /// Loads `nvidia_drm` with mode setting, or unloads it.
    pub fn modeset(&self, on: bool) {
        self.node().sim(&["set", "modeset", if on { "on" } else { "off" }]);
    }

    /// Puts a `systemctl` on the host that only writes down what it is asked for; tells where.
    pub fn record_systemctl(&self) -> PathBuf {
        let asked = self.path("systemctl.asked");
        let program = self.node().host_root().join("usr/bin/systemctl");
        fs::create_dir_all(program.parent().unwrap()).unwrap();
        fs::write(&program, format!("#!/bin/sh\necho \"$@\" >> {}\n", asked.display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        asked
    }

    /// Minor numbers of the capabilities of all instances, as the kernel module tells them.
    pub fn capabilities(&self) -> BTreeSet<u32> {
        let root = self.node().host_root().join("proc/driver/nvidia/capabilities");
        let mut files = Vec::new();
        below(&root, &mut files);
        files.iter().filter(|file| file.ends_with("access")).map(|file| minor(file)).collect()
    }

    /// Minor numbers of the device files of capabilities, those of MIG's configuration and monitoring aside.
    pub fn capability_devices(&self) -> BTreeSet<u32> {
        let folder = self.node().host_root();
        let mig = ["config", "monitor"]
            .map(|name| minor(&folder.join("proc/driver/nvidia/capabilities/mig").join(name)));
        let devices = fs::read_dir(folder.join("dev/nvidia-caps")).into_iter().flatten();
        let names = devices.map(|device| device.unwrap().file_name().into_string().unwrap());
        let minors = names.map(|name| name.strip_prefix("nvidia-cap").unwrap().parse().unwrap());
        minors.filter(|minor| !mig.contains(minor)).collect()
    }
}

/// The number in `DeviceFileMinor: N`.
fn minor(file: &Path) -> u32 {
    let text = fs::read_to_string(file).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("DeviceFileMinor:"));
    line.unwrap_or_else(|| panic!("{}: {text}", file.display())).trim().parse().unwrap()
}

fn below(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { below(&path, files) } else { files.push(path) }
    }
}
