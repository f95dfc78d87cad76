//! MIG capabilities: who may open an instance is decided by a device file, whose number stands in `/proc`.

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

/// Adds the capabilities of all GPUs in MIG mode.
pub(super) fn add(tree: &mut Tree, state: &NodeState) {
    let root = "proc/driver/nvidia/capabilities";
    capability(tree, &format!("{root}/mig/config"), CONFIG);
    capability(tree, &format!("{root}/mig/monitor"), MONITOR);
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
                capability(tree, &format!("{directory}/ci{}/access", ci.id), number + 1 + ci.id);
            }
        }
    }
}

fn capability(tree: &mut Tree, at: &str, minor: u32) {
    tree.file(at, format!("DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1"));
    tree.file(format!("dev/nvidia-caps/nvidia-cap{minor}"), "");
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
                let _ = writeln!(table, "gpu{gpu}/gi{gi}/ci{ci}/access {}", number + 1 + ci);
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
