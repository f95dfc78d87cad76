//! MIG capabilities: who may open an instance is decided by a device file, whose number stands in `/proc`.
//!
//! The kernel module makes what is in `/proc`. The device files are made by others (`nvidia-modprobe`, which whoever begins to use
//! MIG runs, or `nvidia-ctk`), so instances that are created while the node runs have none until somebody makes them, and
//! those of instances that were destroyed stay.

use std::fmt::Write as _;

use super::tree::Tree;
use crate::state::NodeState;

/// Device numbers of the driver's capabilities: configuration, monitoring, then 15 GPU instances of each of 32
/// GPUs with 8 compute instances each.
const CONFIG: u32 = 1;
const MONITOR: u32 = 2;
const FIRST: u32 = 3;
const GPUS: u32 = 32;
const GPU_INSTANCES: u32 = 15;
const COMPUTE_INSTANCES: u32 = 8;

fn gpu_instance_minor(gpu: u32, gi: u32) -> u32 {
    FIRST + (gpu * GPU_INSTANCES + gi) * (COMPUTE_INSTANCES + 1)
}

fn compute_instance_minor(gpu: u32, gi: u32, ci: u32) -> u32 {
    gpu_instance_minor(gpu, gi) + 1 + ci
}

/// Adds the capabilities of all GPUs in MIG mode.
pub(super) fn add(tree: &mut Tree, state: &NodeState) {
    let root = "proc/driver/nvidia/capabilities";
    for (name, minor) in [("config", CONFIG), ("monitor", MONITOR)] {
        capability(tree, &format!("{root}/mig/{name}"), minor);
        tree.file(node(minor), "");
    }
    tree.file("proc/driver/nvidia-caps/mig-minors", minors());
    for gpu in state.gpus.iter().filter(|gpu| gpu.bound) {
        let Some(mig) = gpu.mig.as_ref().filter(|mig| mig.mode.0) else { continue };
        let minor = gpu.identity.minor;
        let directory = format!("{root}/gpu{minor}/mig");
        tree.directory(&directory);
        for gi in &mig.instances {
            let directory = format!("{directory}/gi{}", gi.id);
            let number = gpu_instance_minor(minor, gi.id);
            capability(tree, &format!("{directory}/access"), number);
            for ci in &gi.compute {
                let number = compute_instance_minor(minor, gi.id, ci.id);
                capability(tree, &format!("{directory}/ci{}/access", ci.id), number);
            }
        }
    }
}

fn capability(tree: &mut Tree, at: &str, minor: u32) {
    tree.file(at, format!("DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1"));
}

/// Where the device files are.
pub(super) const NODES: &str = "dev/nvidia-caps";

fn node(minor: u32) -> String {
    format!("{NODES}/nvidia-cap{minor}")
}

/// The device files that give access to a GPU instance, and to a compute instance in it; relative to the root.
pub(crate) fn nodes(gpu: u32, gi: u32, ci: Option<u32>) -> impl Iterator<Item = String> + use<> {
    let part = ci.map(|ci| compute_instance_minor(gpu, gi, ci));
    std::iter::once(gpu_instance_minor(gpu, gi)).chain(part).map(node)
}

/// Adds the device files of instances that are there when the node begins: somebody has made use of them before.
pub(super) fn add_nodes(tree: &mut Tree, state: &NodeState) {
    for gpu in state.gpus.iter().filter(|gpu| state.driver.loaded && gpu.bound) {
        for gi in gpu.mig.iter().flat_map(|mig| &mig.instances) {
            let computes = gi.compute.iter().flat_map(|ci| nodes(gpu.identity.minor, gi.id, Some(ci.id)));
            nodes(gpu.identity.minor, gi.id, None).chain(computes).for_each(|node| tree.file(node, ""));
        }
    }
}

/// The table of all numbers.
fn minors() -> String {
    let mut table = format!("config {CONFIG}\nmonitor {MONITOR}\n");
    for gpu in 0..GPUS {
        for gi in 0..GPU_INSTANCES {
            let number = gpu_instance_minor(gpu, gi);
            // Writing to a string cannot fail.
            let _ = writeln!(table, "gpu{gpu}/gi{gi}/access {number}");
            for ci in 0..COMPUTE_INSTANCES {
                let _ =
                    writeln!(table, "gpu{gpu}/gi{gi}/ci{ci}/access {}", compute_instance_minor(gpu, gi, ci));
            }
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_table() {
        let table = minors();
        for line in
            ["config 1", "monitor 2", "gpu0/gi0/access 3", "gpu0/gi0/ci0/access 4", "gpu1/gi0/access 138"]
        {
            assert!(table.lines().any(|found| found == line), "{line}");
        }
    }
}
