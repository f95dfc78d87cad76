//! What of a division is seen in the host's files.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use gpulet_simulator::command::{Command, Observe};

use super::*;

const CAPABILITIES: &str = "proc/driver/nvidia/capabilities";

fn names(directory: &Path) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(directory) else { return BTreeSet::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn capabilities_come_and_go_with_instances_and_device_files_do_not() {
    let (test, driver) = empty(H100);
    let root = test.node.host_root();
    let gpu = root.join(CAPABILITIES).join("gpu1/mig");
    let devices = || names(&root.join("dev/nvidia-caps"));
    let before = devices();
    assert_eq!(names(&gpu), set(&[]));
    let instance = driver.create_at(H100, 14, (0, 2)).unwrap();
    assert_eq!(names(&gpu.join("gi3")), set(&["access"]), "an instance without compute instances");
    let compute = driver.create_compute(instance, 1).unwrap();
    assert_eq!(names(&gpu.join("gi3")), set(&["access", "ci0"]));
    let access = fs::read_to_string(gpu.join("gi3/ci0/access")).unwrap();
    let minor = access.lines().find_map(|line| line.strip_prefix("DeviceFileMinor: ")).unwrap();
    let table = fs::read_to_string(root.join("proc/driver/nvidia-caps/mig-minors")).unwrap();
    assert!(table.contains(&format!("gpu1/gi3/ci0/access {minor}\n")), "{access}");
    assert_eq!(devices(), before, "whoever wants to use it makes the device file");

    let node = root.join(format!("dev/nvidia-caps/nvidia-cap{minor}"));
    fs::write(&node, "").unwrap();
    assert_eq!((driver.destroy_compute(compute), driver.destroy(instance)), (OK, OK));
    assert_eq!(names(&gpu), set(&[]));
    assert!(node.exists(), "and whoever made it takes it away");
    assert_eq!(driver.set_mode(H100, 0), (OK, OK));
    assert!(!gpu.exists());
}

#[test]
fn instances_that_were_there_have_device_files() {
    let test = idle();
    let mig = state(&test, H100_MIG).mig.unwrap();
    let count = mig.instances.len() + mig.instances.iter().map(|gi| gi.compute.len()).sum::<usize>();
    let rtx = state(&test, 7).mig.unwrap();
    let others = rtx.instances.len() + rtx.instances.iter().map(|gi| gi.compute.len()).sum::<usize>();
    let devices = || names(&test.node.host_root().join("dev/nvidia-caps")).len();
    assert_eq!(devices(), 2 + count + others);
    test.node.command(Command::Reboot).unwrap();
    assert_eq!(devices(), 2, "the machine was started anew");
}

#[test]
fn open_files_tell_who_has_what() {
    let (test, driver) = empty(H100);
    let root = test.node.host_root();
    let open = |pid: u32| -> BTreeSet<String> {
        let fd = root.join(format!("proc/{pid}/fd"));
        let link = |name: String| fs::read_link(fd.join(name)).unwrap().display().to_string();
        names(&fd).into_iter().map(link).collect()
    };
    let instance = driver.create_at(H100, 14, (0, 2)).unwrap();
    driver.create_compute(instance, 1).unwrap();
    hold(&test, H100, 4711, Some((3, 0)));
    hold(&test, A100, 4711, None);
    // GPU 1, GPU instance 3: fifteen of each GPU, nine device files of each.
    let gi = 3 + (15 + 3) * 9;
    let expected = [
        "/dev/nvidiactl".to_owned(),
        "/dev/nvidia-uvm".to_owned(),
        "/dev/nvidia0".to_owned(),
        "/dev/nvidia1".to_owned(),
        format!("/dev/nvidia-caps/nvidia-cap{gi}"),
        format!("/dev/nvidia-caps/nvidia-cap{}", gi + 1),
    ];
    assert_eq!(open(4711), BTreeSet::from(expected));
    test.node.command(Command::Release { pid: 4711, gpu: Some(H100) }).unwrap();
    assert_eq!(open(4711), set(&["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0"]));

    let monitor = Observe {
        gpu: H100,
        pid: 900,
        instance: None,
        name: "/usr/bin/nv-hostengine -n".to_owned(),
        cgroup: Some("/system.slice/nvidia-dcgm.service".to_owned()),
    };
    test.node.command(Command::Observe(monitor)).unwrap();
    assert_eq!(open(900), set(&["/dev/nvidiactl", "/dev/nvidia1"]));
    let told = |file: &str| fs::read_to_string(root.join("proc/900").join(file)).unwrap();
    assert_eq!(told("comm"), "nv-hostengine\n");
    assert_eq!(told("cgroup"), "0::/system.slice/nvidia-dcgm.service\n");
    test.node.command(Command::Release { pid: 900, gpu: None }).unwrap();
    assert!(!root.join("proc/900").exists());
}

#[test]
fn mode_setting_is_a_module() {
    let test = idle();
    let root = test.node.host_root();
    let modules = || fs::read_to_string(root.join("proc/modules")).unwrap();
    assert!(!modules().contains("nvidia_drm"));
    test.node.command(Command::Modeset { on: true }).unwrap();
    assert!(modules().starts_with("nvidia_drm "));
    assert_eq!(fs::read_to_string(root.join("sys/module/nvidia_drm/parameters/modeset")).unwrap(), "Y\n");
    test.node.command(Command::Modeset { on: false }).unwrap();
    assert!(!modules().contains("nvidia_drm") && !root.join("sys/module/nvidia_drm").exists());
}
