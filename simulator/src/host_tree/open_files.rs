//! `/proc/PID/fd`: which device files the processes on a GPU have open, as links, which is how the kernel tells.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::tree::{Tree, names, remove};
use super::{HostTreeError, caps};
use crate::state::{GpuState, NodeState};

/// The first number; those before are a process's input and output.
const FIRST: usize = 3;

/// Adds the open files of all processes.
pub(super) fn add(tree: &mut Tree, state: &NodeState) {
    let mut open: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    for gpu in &state.gpus {
        let device = format!("/dev/nvidia{}", gpu.identity.minor);
        for process in &gpu.processes {
            let files = open.entry(process.pid).or_default();
            files.extend(["/dev/nvidiactl".to_owned(), "/dev/nvidia-uvm".to_owned(), device.clone()]);
            files.extend(process.instance.iter().flat_map(|(gi, ci)| capabilities(gpu, *gi, Some(*ci))));
        }
        for observer in &gpu.observers {
            let files = open.entry(observer.pid).or_default();
            files.extend(["/dev/nvidiactl".to_owned(), device.clone()]);
            files.extend(observer.instance.iter().flat_map(|(gi, ci)| capabilities(gpu, *gi, *ci)));
        }
    }
    for (pid, files) in open {
        for (number, file) in (FIRST..).zip(files) {
            tree.link_as_is(format!("proc/{pid}/fd/{number}"), file);
        }
    }
}

/// What gives access to an instance.
fn capabilities(gpu: &GpuState, gi: u32, ci: Option<u32>) -> impl Iterator<Item = String> + use<> {
    caps::nodes(gpu.identity.minor, gi, ci).map(|node| format!("/{node}"))
}

/// Removes what a process has open no more.
pub(super) fn sweep(tree: &Tree, process: &Path, root: &Path) -> Result<(), HostTreeError> {
    let directory = process.join("fd");
    for name in names(&root.join(&directory))? {
        let at: PathBuf = directory.join(name);
        if !tree.has(&at) {
            remove(&root.join(&at))?;
        }
    }
    Ok(())
}
