//! What every machine has: directories, memory, kernel, processes.

use std::path::{Path, PathBuf};

use super::tree::{Tree, names, remove};
use super::{HostTreeError, open_files};
use crate::engine::program;
use crate::node::Node;
use crate::state::NodeState;
use crate::uuid::uuid;

const KERNEL: &str = "6.8.0-60-generic";

const DIRECTORIES: &[&str] = &[
    "dev/shm",
    "etc/cdi",
    "run",
    "tmp",
    "var/lib/kubelet/device-plugins",
    "var/lib/kubelet/pod-resources",
    "var/log",
    "sys/fs/cgroup",
    "sys/class/infiniband",
    "sys/class/net",
    "sys/bus/pci/devices",
    "sys/bus/pci/drivers",
];

/// Adds what does not change. There is no `os-release`: the tree is no system of its own, programs in it are this one's.
pub(super) fn add(tree: &mut Tree, node: &Node) {
    DIRECTORIES.iter().for_each(|directory| tree.directory(directory));
    let id = uuid(&format!("{}/machine", node.name()));
    tree.file("etc/hostname", node.name());
    tree.file("etc/machine-id", id.replace('-', ""));
    tree.file("proc/sys/kernel/osrelease", KERNEL);
    tree.file("proc/sys/kernel/pid_max", 4_194_304);
    tree.file("proc/version", format!("Linux version {KERNEL} (simulated) #1 SMP"));
    let total: u64 = node.description().numa.iter().map(|numa| numa.memory.kib()).sum();
    let lines = [("MemTotal", total), ("MemFree", total / 10 * 9), ("MemAvailable", total / 10 * 9)];
    let lines = lines.map(|(name, kib)| format!("{:<16}{kib:>8} kB\n", format!("{name}:")));
    tree.file("proc/meminfo", lines.concat());
    tree.file("proc/cpuinfo", cpuinfo(node));
}

/// Adds what each start of the machine has of its own.
pub(super) fn add_boot(tree: &mut Tree, node: &Node, state: &NodeState) {
    let text = format!("{}/boot", node.name());
    let text = if state.boots > 1 { format!("{text}/{}", state.boots) } else { text };
    tree.file("proc/sys/kernel/random/boot_id", uuid(&text));
}

fn cpuinfo(node: &Node) -> String {
    let cpu = &node.description().cpu;
    let (model, threads) = (&cpu.model, u64::from(cpu.cores_per_package) * u64::from(cpu.threads_per_core));
    let count = u32::try_from(cpu.count()).unwrap_or(0);
    let block = |number: u32| {
        let at = cpu.thread(number);
        let (package, core, cores) = (at.package, at.core, cpu.cores_per_package);
        format!(
            "processor\t: {number}\nmodel name\t: {model}\nphysical id\t: {package}\nsiblings\t: {threads}\n\
             core id\t\t: {core}\ncpu cores\t: {cores}\n\n"
        )
    };
    (0..count).map(block).collect()
}

/// The process that a simulated kubelet is; its files are its own affair.
pub(crate) const KUBELET_PID: u32 = 1211;

/// Files of a process.
const PROCESS_FILES: [&str; 5] = ["cgroup", "comm", "cmdline", "stat", "status"];

/// Adds the processes that have a GPU open.
pub(super) fn add_processes(tree: &mut Tree, state: &NodeState) {
    for gpu in &state.gpus {
        for process in &gpu.processes {
            add_process(tree, process.pid, &process.name, &process.cgroup, process.start_ticks);
        }
        for there in &gpu.observers {
            add_process(tree, there.pid, &there.name, &there.cgroup, there.start_ticks);
        }
    }
    open_files::add(tree, state);
}

fn add_process(tree: &mut Tree, pid: u32, command: &str, cgroup: &str, start: u64) {
    let directory = PathBuf::from("proc").join(pid.to_string());
    // The kernel keeps 15 bytes of a name.
    let name: String = program(command).chars().take(15).collect();
    tree.file(directory.join("cgroup"), format!("0::{cgroup}"));
    // Fields 4 to 52; of those that are not zero here only the parent, threads and the start are told.
    let (accounts, rest) = ("0 ".repeat(15), " 0".repeat(30));
    tree.file(directory.join("stat"), format!("{pid} ({name}) S 1 {accounts}1 0 {start}{rest}"));
    tree.file(directory.join("comm"), &name);
    tree.file(directory.join("cmdline"), command.replace(char::is_whitespace, "\0") + "\0");
    tree.file(
        directory.join("status"),
        format!("Name:\t{name}\nState:\tS (sleeping)\nTgid:\t{pid}\nPid:\t{pid}\nPPid:\t1\nUid:\t0\t0\t0\t0"),
    );
}

/// Removes the files of processes that hold nothing any more.
pub(super) fn sweep(tree: &Tree, root: &Path) -> Result<(), HostTreeError> {
    for name in names(&root.join("proc"))? {
        let number = name.bytes().all(|b| b.is_ascii_digit());
        let directory = Path::new("proc").join(&name);
        if !number || name == KUBELET_PID.to_string() {
            continue;
        }
        if tree.has(&directory) {
            open_files::sweep(tree, &directory, root)?;
            continue;
        }
        for file in PROCESS_FILES {
            remove(&root.join(&directory).join(file))?;
        }
        remove(&root.join(&directory).join("fd"))?;
        if names(&root.join(&directory))?.is_empty() {
            remove(&root.join(&directory))?;
        }
    }
    Ok(())
}
