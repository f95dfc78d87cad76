//! The written tree is read back the way that discovery reads a real one.

mod place;
mod providers;
mod published;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpulet_inventory::numa::CpuSet;

use super::tree::names;
use super::*;
use crate::command::{Command, Hold};
use crate::engine::Engine;
use crate::state::ProcessKind;

fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in(crate::scratch_dir()).unwrap()
}

struct Written {
    directory: tempfile::TempDir,
    engine: Engine,
}

impl Written {
    fn node(name: &str) -> Self {
        let engine = Engine::new(&Node::load(name).unwrap(), 1, 0).unwrap();
        let directory = in_memory();
        write(engine.node(), engine.state(), directory.path()).unwrap();
        Self { directory, engine }
    }

    fn parsed(yaml: &str) -> Self {
        let node = Node::parse("test", "test.yaml", yaml, Path::new(".")).unwrap();
        let engine = Engine::new(&node, 1, 0).unwrap();
        let directory = in_memory();
        write(engine.node(), engine.state(), directory.path()).unwrap();
        Self { directory, engine }
    }

    fn command(&mut self, command: Command) {
        self.engine.apply(command).unwrap();
        refresh(self.engine.node(), self.engine.state(), self.root()).unwrap();
    }

    fn root(&self) -> &Path {
        self.directory.path()
    }

    fn path(&self, at: &str) -> PathBuf {
        self.root().join(at)
    }

    fn read(&self, at: &str) -> String {
        fs::read_to_string(self.path(at))
            .unwrap_or_else(|error| panic!("{at}: {error}"))
            .trim_end()
            .to_owned()
    }

    fn list(&self, at: &str) -> Vec<String> {
        let mut names = names(&self.path(at)).unwrap();
        names.sort();
        names
    }
}

#[test]
fn processors_and_numa_nodes_are_as_linux_shows_them() {
    let written = Written::node("dgx-h100");
    assert_eq!(written.read("sys/devices/system/cpu/online"), "0-223");
    assert_eq!(written.read("sys/devices/system/node/online"), "0-1");
    assert_eq!(written.read("sys/devices/system/node/node0/cpulist"), "0-55,112-167");
    assert_eq!(written.read("sys/devices/system/node/node1/distance"), "21 10");
    assert_eq!(written.read("sys/devices/system/cpu/cpu168/topology/thread_siblings_list"), "56,168");
    assert_eq!(written.read("sys/devices/system/cpu/cpu168/topology/physical_package_id"), "1");
    assert_eq!(written.read("sys/devices/system/cpu/cpu168/topology/core_id"), "0");
    assert!(written.read("sys/devices/system/node/node0/meminfo").contains("MemTotal:       1073741824 kB"));
    assert_eq!(written.read("sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"), "0");
    assert!(written.path("sys/devices/system/cpu/cpu56/node1/cpulist").is_file());
}

#[test]
fn adapters_are_found_by_class() {
    let written = Written::node("dgx-h100");
    assert_eq!(written.list("sys/class/infiniband").len(), 13);
    assert_eq!(written.read("sys/class/infiniband/mlx5_0/ports/1/rate"), "400 Gb/sec (4X NDR)");
    assert_eq!(written.read("sys/class/infiniband/mlx5_12/ports/1/link_layer"), "Ethernet");
    assert_eq!(written.read("sys/class/net/ens11np0/speed"), "200000");
    assert_eq!(written.read("sys/class/net/ens11np0/device/vendor"), "0x15b3");
}

#[test]
fn functions_of_an_adapter_stand_beside_it() {
    let written = Written::node("hgx-h200");
    let bus = "sys/bus/pci/devices";
    let real = |at: &str| fs::canonicalize(written.path(&format!("{bus}/{at}"))).unwrap();
    assert_eq!(written.read(&format!("{bus}/0000:e3:00.0/sriov_numvfs")), "2");
    assert_eq!(real("0000:e3:00.0/virtfn0"), real("0000:e3:00.2"));
    assert_eq!(real("0000:e3:00.0/virtfn1"), real("0000:e3:00.3"));
    assert_eq!(real("0000:e3:00.3/physfn"), real("0000:e3:00.0"));
    assert_eq!(written.read(&format!("{bus}/0000:e3:00.3/device")), "0x101e");
    assert_eq!(written.read(&format!("{bus}/0000:e3:00.3/current_link_width")), "0");
    assert_eq!(
        written.read(&format!("{bus}/0000:e3:00.3/infiniband/mlx5_11/ports/1/link_layer")),
        "Ethernet"
    );
    assert!(!written.path(&format!("{bus}/0000:e3:00.1/sriov_numvfs")).exists());
}

#[test]
fn memory_of_gpus_is_numa_nodes_while_the_driver_is_there() {
    let mut written = Written::node("gb200-tray");
    let nodes = "sys/devices/system/node";
    for (file, expected) in [
        ("online", "0-33"),
        ("has_cpu", "0-1"),
        ("has_memory", "0-2,10,18,26"),
        ("has_normal_memory", "0-1"),
        ("node0/distance", &["10 40", &["80"; 16].join(" "), &["120"; 16].join(" ")].join(" ")),
        ("node3/cpulist", ""),
    ] {
        assert_eq!(written.read(&format!("{nodes}/{file}")), expected, "{file}");
    }
    let status = "proc/driver/nvidia/gpus/0018:01:00.0/numa_status";
    let text = written.read(status);
    assert!(
        written.read("proc/driver/nvidia/version").contains("Open Kernel Module for aarch64  580.105.08 ")
    );
    assert_eq!(written.read("sys/bus/pci/devices/0018:00:00.0/vendor"), "0x10de", "a root port of Grace");
    assert!(text.starts_with("Node:      18\nStatus:    online\n"), "{text}");
    assert!(written.read(&format!("{nodes}/node18/meminfo")).contains("MemTotal:"));
    written.command(Command::UnloadDriver { force: true });
    assert!(!written.path(status).exists());
}

fn driver_traces(written: &Written) -> Vec<String> {
    let traces = ["proc/driver/nvidia", "sys/module/nvidia", "sys/bus/pci/drivers/nvidia", "dev/nvidia-caps"];
    let mut found: Vec<String> =
        traces.iter().filter(|at| written.path(at).exists()).map(ToString::to_string).collect();
    found.extend(written.list("dev").into_iter().filter(|name| name.starts_with("nvidia")));
    let bound = |at: &String| written.path(&format!("sys/bus/pci/devices/{at}/driver")).exists();
    let gpu = |at: &String| written.read(&format!("sys/bus/pci/devices/{at}/vendor")) == "0x10de";
    found.extend(written.list("sys/bus/pci/devices").into_iter().filter(|at| gpu(at) && bound(at)));
    found
}

#[test]
fn the_drivers_files_come_and_go_with_it() {
    let mut written = Written::node("dgx-h100");
    let loaded = driver_traces(&written);
    // Four places, 8 GPUs and 4 NVSwitches bound, and in /dev: 8 GPUs, nvidiactl, 2 × uvm, caps, 4 + 1 NVSwitch.
    assert_eq!(loaded.len(), 4 + 12 + 8 + 1 + 2 + 1 + 5, "{loaded:?}");
    assert!(written.read("proc/driver/nvidia/version").contains("580.105.08"));
    assert!(written.read("proc/driver/nvidia/gpus/0000:1b:00.0/information").contains("GPU UUID: \t GPU-"));
    let link = fs::read_link(written.path("sys/bus/pci/devices/0000:1b:00.0/driver")).unwrap();
    assert!(link.ends_with("bus/pci/drivers/nvidia"));

    written.command(Command::UnloadDriver { force: true });
    assert_eq!(driver_traces(&written), Vec::<String>::new());
    assert!(!written.read("proc/devices").contains("nvidia"));
    assert!(written.path("sys/bus/pci/devices/0000:1b:00.0/numa_node").exists(), "the hardware stays");

    written.command(Command::LoadDriver { version: Some("550.54.15".to_owned()) });
    assert_eq!(driver_traces(&written), loaded);
    assert!(written.read("proc/driver/nvidia/version").contains("550.54.15"));
}

#[test]
fn a_device_file_that_is_open_stays_the_same_file() {
    use std::os::unix::fs::MetadataExt;
    let mut written = Written::node("l40s-4x");
    let inode = |written: &Written| fs::metadata(written.path("dev/nvidia2")).unwrap().ino();
    let before = inode(&written);
    written.command(Command::Step { by: Duration::from_secs(1) });
    assert_eq!(inode(&written), before);
}

#[test]
fn processes_and_links_follow_the_state() {
    let mut written = Written::node("l40s-4x");
    let hold = Hold {
        gpu: 3,
        pid: 4242,
        kind: ProcessKind::Compute,
        memory_bytes: Some(1 << 30),
        instance: None,
        name: "/usr/bin/a b".into(),
        cgroup: None,
    };
    written.command(Command::Hold(hold));
    assert_eq!(written.read("proc/4242/comm"), "a");
    assert_eq!(written.read("proc/4242/cmdline"), "/usr/bin/a\0b\0");
    assert_eq!(written.read("proc/4242/cgroup"), "0::/system.slice/a.service");
    let stat = written.read("proc/4242/stat");
    let fields: Vec<&str> = stat.split(' ').collect();
    assert_eq!((fields.len(), fields[1], fields[19], fields[21]), (52, "(a)", "1", "6010"));
    assert_eq!(written.read("sys/bus/pci/devices/0000:a1:00.0/current_link_speed"), "2.5 GT/s PCIe");
    written.command(Command::Release { pid: 4242, gpu: None });
    assert!(!written.path("proc/4242").exists());

    written.command(Command::Load { gpu: Some(3), load: crate::command::Load::Steady { percent: 50 } });
    written.command(Command::Step { by: Duration::from_secs(1) });
    assert_eq!(written.read("sys/bus/pci/devices/0000:a1:00.0/current_link_speed"), "16.0 GT/s PCIe");
    assert_eq!(written.read("sys/bus/pci/devices/0000:a1:00.0/max_link_speed"), "16.0 GT/s PCIe");
}

#[test]
fn a_machine_without_a_driver_has_none_of_its_files() {
    let written = Written::node("cpu-only");
    assert_eq!(driver_traces(&written), Vec::<String>::new());
    assert_eq!(written.read("sys/devices/system/cpu/online"), "0-31");
    assert_eq!(written.list("sys/class/infiniband"), Vec::<String>::new());
    assert!(written.path("var/lib/kubelet/pod-resources").is_dir());
}

#[test]
fn mig_instances_have_their_capabilities() {
    let mut written = Written::parsed(
        "about: one divided GPU\ndriver: 580.105.08\n\
         cpu: {model: x, packages: 1, cores-per-package: 2, threads-per-core: 1}\n\
         numa: [{id: 0, cpus: 0-1, memory: 8GiB, distances: [10]}]\n\
         pci:\n- root: 0000:00\n  devices:\n  - bridge:\n      at: 00:01.0\n      devices:\n      \
         - gpu: {at: 01:00.0, board: h100-sxm-80gb, mig: {instances: [{profile: 3g.40gb, start: 4, compute: [1, 2]}]}}\n",
    );
    assert_eq!(written.read("sys/bus/pci/devices/0000:01:00.0/numa_node"), "-1");
    let cpus: CpuSet = written.read("sys/bus/pci/devices/0000:01:00.0/local_cpulist").parse().unwrap();
    assert_eq!(cpus.len(), 2);
    let gi = "proc/driver/nvidia/capabilities/gpu0/mig/gi2";
    let minor = |at: &str| {
        let text = written.read(at);
        text.lines().next().unwrap().strip_prefix("DeviceFileMinor: ").unwrap().parse::<u32>().unwrap()
    };
    for (at, expected) in [("access", 21), ("ci0/access", 22), ("ci1/access", 23)] {
        assert_eq!(minor(&format!("{gi}/{at}")), expected);
        assert!(written.path(&format!("dev/nvidia-caps/nvidia-cap{expected}")).exists());
        let line = format!("gpu0/gi2/{at} {expected}");
        assert!(
            written.read("proc/driver/nvidia-caps/mig-minors").lines().any(|found| found == line),
            "{line}"
        );
    }
    written.command(Command::UnloadDriver { force: false });
    written.command(Command::LoadDriver { version: None });
    assert!(!written.path(gi).exists(), "instances do not outlive the driver");
    assert!(!written.path("dev/nvidia-caps/nvidia-cap21").exists());
    assert!(written.path("dev/nvidia-caps/nvidia-cap1").exists());
}

#[test]
fn what_cannot_be_written_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let engine = Engine::new(&Node::load("cpu-only").unwrap(), 1, 0).unwrap();
    let error = write(engine.node(), engine.state(), &file).unwrap_err();
    assert!(error.to_string().contains("file"), "{error}");
    assert_eq!(error.reason(), "HostTree");
}
