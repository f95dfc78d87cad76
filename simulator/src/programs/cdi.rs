//! A CDI specification of the node's devices, as NVIDIA's container toolkit makes one.

use std::path::Path;

use serde_json::{Value, json};

use crate::division;
use crate::host_tree::capability_nodes;
use crate::state::{GpuState, NodeState};

/// How the toolkit is told to make it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CdiOptions {
    /// First part of the kind.
    pub vendor: String,
    /// Second part of the kind.
    pub class: String,
    /// How devices are named; each has all of the names.
    pub strategies: Vec<Strategy>,
    /// One device with all device files, for programs that manage GPUs.
    pub management: bool,
}

/// How devices are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// `0`, and `0:1` for MIG devices.
    Index,
    /// `gpu0`, `mig0:1`.
    TypeIndex,
    /// The driver's UUID.
    Uuid,
}

/// One device: its number, its UUID, and its device files.
struct Device {
    index: String,
    kind: &'static str,
    uuid: String,
    files: Vec<String>,
}

/// The specification. A device file that is not there is in none of its devices: who makes the specification does not make
/// the file.
pub fn specification(state: &NodeState, host_root: &Path, options: &CdiOptions) -> Value {
    let there = |file: &String| host_root.join(file.trim_start_matches('/')).exists();
    let nodes = |files: Vec<String>| -> Vec<Value> {
        files.into_iter().filter(there).map(|path| json!({ "path": path })).collect()
    };
    let (mut named, mut all) = (Vec::new(), Vec::new());
    for (index, gpu) in state.gpus.iter().filter(|gpu| gpu.is_reachable()).enumerate() {
        for device in devices(index, gpu) {
            all.extend(device.files.iter().cloned());
            for strategy in &options.strategies {
                let name = match strategy {
                    Strategy::Index => device.index.clone(),
                    Strategy::TypeIndex => format!("{}{}", device.kind, device.index),
                    Strategy::Uuid => device.uuid.clone(),
                };
                let edits = json!({ "deviceNodes": nodes(device.files.clone()) });
                named.push(json!({ "name": name, "containerEdits": edits }));
            }
        }
    }
    if options.management {
        all.extend((1..=2).map(|minor| format!("/dev/nvidia-caps/nvidia-cap{minor}")));
        named.clear();
    }
    all.sort();
    all.dedup();
    if !all.is_empty() {
        named.push(json!({ "name": "all", "containerEdits": { "deviceNodes": nodes(all) } }));
    }
    let shared = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"].map(str::to_owned);
    json!({
        "cdiVersion": "0.5.0",
        "kind": format!("{}/{}", options.vendor, options.class),
        "devices": named,
        "containerEdits": { "deviceNodes": nodes(shared.to_vec()) },
    })
}

/// The GPU, or in its place the MIG devices on it.
fn devices(index: usize, gpu: &GpuState) -> Vec<Device> {
    let minor = gpu.identity.minor;
    let own = format!("/dev/nvidia{minor}");
    let Some(mig) = gpu.mig.as_ref().filter(|mig| mig.mode.0) else {
        let uuid = gpu.identity.uuid.clone();
        return vec![Device { index: index.to_string(), kind: "gpu", uuid, files: vec![own] }];
    };
    let computes = mig.instances.iter().flat_map(|gi| gi.compute.iter().map(move |ci| (gi, ci)));
    let device = |(gi, ci)| {
        let (gi, ci): (&crate::state::GpuInstanceState, &crate::state::ComputeInstanceState) = (gi, ci);
        let nodes = capability_nodes(minor, gi.id, Some(ci.id)).map(|node| format!("/{node}"));
        Device {
            index: format!("{index}:{}", division::device_number(mig, gi, ci)),
            kind: "mig",
            uuid: ci.uuid.clone(),
            files: std::iter::once(own.clone()).chain(nodes).collect(),
        }
    };
    computes.map(device).collect()
}
