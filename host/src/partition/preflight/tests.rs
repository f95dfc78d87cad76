use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use gpulet_inventory::holders::{HostUnit, PodGroup};
use nix::unistd::{Uid, setfsuid};

use super::walk::{Numbers, Walk, is_kernels};
use super::*;
use crate::partition::made_up::{MadeUp, is_root};
use crate::reader::Reader;

const PCI: &str = "0000:41:00.0";
const UID: &str = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0";

fn pci() -> PciAddress {
    PCI.parse().unwrap()
}

/// Starts a process that has this file open as its seventh.
fn with_open(file: &str) -> Child {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec 7<'{file}'; echo ready; read line")]);
    let mut child =
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

/// Which GPUs the process has open, on this machine, if memory devices (number 1) were GPUs. It may have inherited others.
fn memory_devices_of(pid: u32) -> BTreeSet<Opened> {
    let root = Root::new("/").unrecorded();
    let mut numbers = Numbers::read(&Reader::new(&root));
    numbers.gpus = 1;
    let is_kernels = is_kernels(&root);
    assert!(is_kernels, "/proc is no proc");
    Walk { root: &root, numbers, is_kernels }.all().0.remove(&pid).unwrap_or_default()
}

#[test]
fn a_real_process_is_found_by_the_device_that_it_has_open() {
    // /dev/full is 1:7.
    let mut child = with_open("/dev/full");
    assert!(memory_devices_of(child.id()).contains(&Opened::Gpu(7)));
    assert!(!memory_devices_of(std::process::id()).contains(&Opened::Gpu(7)));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(memory_devices_of(child.id()).is_empty());
}

#[test]
fn a_device_of_another_name_is_the_same_device_and_a_file_of_that_name_is_none() {
    let tree = MadeUp::new();
    tree.file("dev/nvidia0", "");
    let mut child = with_open(tree.at("dev/nvidia0").to_str().unwrap());
    let opened = memory_devices_of(child.id());
    assert!(!opened.contains(&Opened::Gpu(0)), "a plain file is no device, whatever it is called");
    child.kill().unwrap();
    child.wait().unwrap();
    if !is_root() {
        return;
    }
    tree.device("dev/other", 1, 7);
    let mut child = with_open(tree.at("dev/other").to_str().unwrap());
    fs::remove_file(tree.at("dev/other")).unwrap();
    assert!(memory_devices_of(child.id()).contains(&Opened::Gpu(7)), "it was removed meanwhile");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn processes_that_may_not_be_looked_at_are_counted() {
    if !is_root() {
        return;
    }
    let walk = || Walk::new(&Root::new("/").unrecorded()).all();
    // For this thread alone: it is nobody, as far as files go.
    let as_nobody = std::thread::spawn(move || {
        setfsuid(Uid::from_raw(65_534));
        walk()
    });
    let (as_nobody, as_root) = (as_nobody.join().unwrap().1, walk().1);
    assert!(as_nobody > as_root, "this process at least is root's: {as_nobody} and {as_root}");
}

/// A process of a made-up tree.
fn process(tree: &MadeUp, pid: u32, command: &str, cgroup: &str, files: &[&str]) {
    tree.file(&format!("proc/{pid}/cmdline"), &format!("{command}\0--flag\0"));
    tree.file(&format!("proc/{pid}/cgroup"), &format!("0::{cgroup}\n"));
    let fields = (3..=52).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
    tree.file(&format!("proc/{pid}/stat"), &format!("{pid} (x) {fields}\n"));
    tree.link(&format!("proc/{pid}/fd/0"), "/dev/null");
    for (at, file) in (3..).zip(files) {
        tree.link(&format!("proc/{pid}/fd/{at}"), file);
    }
}

fn capability(tree: &MadeUp, path: &str, minor: u32) {
    let path = format!("proc/driver/nvidia/capabilities/{path}");
    tree.file(&path, &format!("DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"));
}

fn node() -> MadeUp {
    let tree = MadeUp::new();
    tree.file("proc/devices", "Character devices:\n195 nvidia\n237 nvidia-caps\n\nBlock devices:\n");
    tree.link("sys/class/drm/card1", format!("../../devices/pci0000:40/0000:40:01.0/{PCI}/drm/card1"));
    capability(&tree, "mig/monitor", 2);
    capability(&tree, "gpu1/mig/gi2/access", 21);
    capability(&tree, "gpu1/mig/gi2/ci0/access", 22);
    tree
}

#[test]
fn everyone_is_told_by_name_and_by_what_lets_go_of_it() {
    let tree = node();
    tree.link("proc/self", "900");
    process(&tree, 900, "/usr/local/bin/gpulet", "/system.slice/gpulet.service", &["/dev/nvidia1"]);
    let persistenced = "/system.slice/nvidia-persistenced.service";
    process(
        &tree,
        100,
        "/usr/bin/nvidia-persistenced",
        persistenced,
        &["/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia1"],
    );
    let pod = format!("/kubepods/burstable/pod{UID}/{}", "9a".repeat(32));
    process(&tree, 200, "python3", &pod, &["/dev/nvidia-caps/nvidia-cap21", "/dev/nvidia-caps/nvidia-cap22"]);
    process(
        &tree,
        300,
        "/usr/bin/nv-hostengine",
        "/system.slice/nvidia-dcgm.service",
        &["/dev/nvidia-caps/nvidia-cap2"],
    );
    process(
        &tree,
        400,
        "/usr/lib/xorg/Xorg",
        "/user.slice",
        &["/dev/dri/card1 (deleted)", "/dev/nvidia-modeset"],
    );
    process(
        &tree,
        500,
        "/usr/sbin/cron",
        "/system.slice/cron.service",
        &["/var/log/nvidia0", "/dev/nvidiax"],
    );
    let preflight = look(&tree.root());
    let told = |pid: u32| preflight.openers.iter().find(|opener| opener.pid == pid).unwrap();
    assert_eq!(
        preflight.openers.iter().map(|opener| opener.pid).collect::<Vec<_>>(),
        [100, 200, 300, 400, 900]
    );
    assert_eq!(told(100).to_string(), "process 100 (nvidia-persistenced) of nvidia-persistenced.service");
    assert!(told(100).remedy().contains("persistence mode"));
    assert_eq!(told(200).to_string(), format!("process 200 (python3) of Pod {UID}"));
    assert!(told(200).remedy().contains("Pod"));
    let (instance, compute) = (GpuInstanceId(2), ComputeInstanceId(0));
    let opened = BTreeSet::from([
        Opened::Instance { gpu: 1, instance },
        Opened::Compute { gpu: 1, instance, compute },
    ]);
    assert_eq!(told(200).opened, opened);
    assert_eq!(told(300).remedy(), "systemctl stop nvidia-dcgm.service");
    assert_eq!(told(300).opened, BTreeSet::from([Opened::Other]));
    assert_eq!(told(400).opened, BTreeSet::from([Opened::Graphics(pci()), Opened::Other]));
    assert_eq!(told(400).remedy(), "end process 400");
    assert_eq!((told(900).is_self, told(900).remedy()), (true, "gpulet quiesce".to_owned()));
    let owner = |pid| told(pid).origin.as_ref().map(|origin| origin.owner.clone());
    assert_eq!(owner(300), Some(CgroupOwner::Host(HostUnit::new("nvidia-dcgm.service"))));
    assert!(
        matches!(owner(200), Some(CgroupOwner::Pods(pods)) if matches!(&pods[..], [PodGroup { uid, .. }] if uid == UID))
    );
    let of = |gpu, pci: &str| {
        let pci = pci.parse().unwrap();
        preflight.openers_of(gpu, pci).map(|opener| opener.pid).collect::<Vec<_>>()
    };
    assert_eq!(of(1, PCI), [100, 200, 400, 900]);
    assert_eq!(of(0, "0000:01:00.0"), [100], "the others have nothing of that one");
}

#[test]
fn a_tree_without_processes_or_driver_has_nobody() {
    let tree = MadeUp::new();
    assert_eq!(look(&tree.root()), Preflight::default());
    tree.directory("proc/100").file("proc/modules", "nvidia 1 2");
    assert_eq!(look(&tree.root()), Preflight::default());
}

#[test]
fn a_module_that_drives_displays_is_told() {
    for (line, modeset, expected) in [
        ("nvidia_drm 77824 0 - Live 0x0", "N", None),
        ("nvidia_drm 77824 4 - Live 0x0", "N", Some((4, false))),
        ("nvidia_drm 77824 0 - Live 0x0", "Y", Some((0, true))),
        ("nvidia_drm 77824 3 other,more, Live 0x0", "Y", Some((1, true))),
        ("nvidia_modeset 1 3 nvidia_drm, Live 0x0", "Y", None),
        ("nvidia_drm 77824", "Y", None),
    ] {
        let tree = MadeUp::new();
        tree.file("proc/modules", &format!("snd 1 0 - Live 0x0\n{line}\n"));
        tree.file("sys/module/nvidia_drm/parameters/modeset", &format!("{modeset}\n"));
        let modules = look(&tree.root()).modules;
        let told = modules.first().map(|module| (module.references, module.modeset));
        assert_eq!((told, modules.len()), (expected, usize::from(expected.is_some())), "{line}");
        if let Some(module) = modules.first() {
            assert_eq!(module.is_certain(), module.references > 0);
            assert!(module.why().contains("modprobe -r nvidia_drm"), "{}", module.why());
        }
    }
}
