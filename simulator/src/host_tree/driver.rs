//! What the driver adds while it is loaded: files in `/proc`, device files, bindings.

use std::path::{Path, PathBuf};

use super::tree::{Entry, Tree, names, remove};
use super::{HostTreeError, caps, pci};
use crate::node::board::Architecture;
use crate::node::tree::{Function, Kind};
use crate::node::{Gpu, Node};
use crate::state::{DriverState, GpuState, NodeState};

/// Kernel drivers that come and go with the module.
const DRIVERS: [&str; 2] = ["nvidia", "nvidia-nvswitch"];

/// Everything below these is the driver's.
const OWN: [&str; 4] =
    ["proc/driver/nvidia", "proc/driver/nvidia-caps", "sys/module/nvidia", "sys/module/nvidia_drm"];

/// Adds what belongs to the present state.
pub(super) fn add(tree: &mut Tree, node: &Node, state: &NodeState) {
    for (gpu, now) in node.gpus().iter().zip(&state.gpus) {
        let path = pci::directory(&gpu.function);
        tree.file(path.join("current_link_speed"), pci::speed(now.now.pcie_generation));
        tree.file(path.join("current_link_width"), now.now.pcie_width);
        pci::bind(tree, node, &gpu.function, (state.driver.loaded && now.bound).then_some("nvidia"));
    }
    let loaded = state.driver.loaded;
    for switch in node.functions().iter().filter(is_switch) {
        pci::bind(tree, node, switch, loaded.then_some("nvidia-nvswitch"));
    }
    tree.file("proc/devices", devices(loaded));
    tree.file(
        "proc/modules",
        match (loaded, state.driver.modeset) {
            (true, false) => "nvidia_uvm 2195456 0 - Live 0x0\nnvidia 14381056 1 nvidia_uvm, Live 0x0\n",
            (true, true) => {
                "nvidia_drm 135168 2 - Live 0x0\nnvidia_modeset 1802240 1 nvidia_drm, Live 0x0\n\
                 nvidia_uvm 2195456 0 - Live 0x0\nnvidia 14381056 18 nvidia_uvm,nvidia_modeset, Live 0x0\n"
            }
            (false, _) => "\n",
        },
    );
    if loaded && state.driver.modeset {
        tree.file("sys/module/nvidia_drm/refcnt", 2);
        tree.file("sys/module/nvidia_drm/parameters/modeset", "Y");
    }
    if loaded {
        module(tree, node, &state.driver);
        caps_if_any(tree, state);
        for (gpu, now) in node.gpus().iter().zip(&state.gpus).filter(|(_, now)| now.bound) {
            one_gpu(tree, gpu, now, &state.driver);
            memory_node(tree, gpu, now);
        }
        switches(tree, node);
    }
}

fn devices(loaded: bool) -> String {
    let driver = match loaded {
        true => {
            "195 nvidia\n195 nvidiactl\n236 nvidia-nvlink\n237 nvidia-caps\n507 nvidia-uvm\n508 nvidia-nvswitch\n"
        }
        false => "",
    };
    format!(
        "Character devices:\n  1 mem\n  5 /dev/tty\n 10 misc\n136 pts\n{driver}\nBlock devices:\n259 blkext\n"
    )
}

fn module(tree: &mut Tree, node: &Node, driver: &DriverState) {
    let version = &driver.version;
    let machine = if node.description().cpu.is_arm() { "aarch64" } else { "x86_64" };
    // The open module begins with Turing.
    let open = node.gpus().iter().all(|gpu| gpu.board.architecture >= Architecture::Turing);
    let kind = match open {
        true => format!("Open Kernel Module for {machine}"),
        false => format!("{machine} Kernel Module"),
    };
    tree.file(
        "proc/driver/nvidia/version",
        format!(
            "NVRM version: NVIDIA UNIX {kind}  {version}  Release Build  (simulated)\n\
             GCC version:  simulated"
        ),
    );
    tree.file(
        "proc/driver/nvidia/params",
        "ModifyDeviceFiles: 1\nDeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438",
    );
    tree.file("sys/module/nvidia/version", version);
    tree.file("sys/module/nvidia/refcnt", 1);
    for name in ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"] {
        tree.file(format!("dev/{name}"), "");
    }
}

/// Capabilities exist where a GPU can be divided.
fn caps_if_any(tree: &mut Tree, state: &NodeState) {
    if state.gpus.iter().any(|gpu| gpu.mig.is_some()) {
        caps::add(tree, state);
    }
}

fn one_gpu(tree: &mut Tree, gpu: &Gpu, now: &GpuState, driver: &DriverState) {
    let (at, minor) = (gpu.description.at, gpu.minor);
    tree.file(format!("dev/nvidia{minor}"), "");
    tree.file(
        format!("proc/driver/nvidia/gpus/{at}/information"),
        format!(
            "Model: \t\t {}\nIRQ:   \t\t {}\nGPU UUID: \t {}\nVideo BIOS: \t {}\nBus Type: \t PCIe\n\
             DMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\nBus Location: \t {at}\nDevice Minor: \t {minor}\n\
             GPU Firmware: \t {}\nGPU Excluded:\t No",
            now.board.name,
            64 + minor,
            now.identity.uuid,
            now.board.vbios,
            driver.version,
        ),
    );
}

/// Where a GPU's memory is the kernel's too.
fn memory_node(tree: &mut Tree, gpu: &Gpu, now: &GpuState) {
    let Some(numa) = now.identity.memory_numa_node else { return };
    let size = gpu.board.memory.total.0;
    // Any address above that of all other memory, one region for each GPU.
    let address = u64::from(numa) << 40;
    tree.file(
        format!("proc/driver/nvidia/gpus/{}/numa_status", gpu.description.at),
        format!("Node:      {numa}\nStatus:    online\nAddress:   {address:x}\nSize:      {size:x}"),
    );
}

fn is_switch(function: &&Function) -> bool {
    matches!(function.kind, Kind::NvSwitch(_))
}

fn switches(tree: &mut Tree, node: &Node) {
    for index in 0..node.functions().iter().filter(is_switch).count() {
        tree.file(format!("dev/nvidia-nvswitch{index}"), "");
        tree.file("dev/nvidia-nvswitchctl", "");
    }
}

/// Removes what the driver has left behind.
pub(super) fn sweep(tree: &Tree, node: &Node, root: &Path) -> Result<(), HostTreeError> {
    for directory in OWN {
        sweep_below(tree, Path::new(directory), root)?;
    }
    for driver in DRIVERS {
        sweep_below(tree, &Path::new("sys/bus/pci/drivers").join(driver), root)?;
    }
    for name in names(&root.join("dev"))?.into_iter().filter(|name| name.starts_with("nvidia")) {
        drop_unplanned(tree, &Path::new("dev").join(name), root)?;
    }
    let bound = node.functions().iter().filter(|f| is_switch(f) || matches!(f.kind, Kind::Gpu(_)));
    for function in bound {
        drop_unplanned(tree, &pci::directory(function).join("driver"), root)?;
    }
    Ok(())
}

fn drop_unplanned(tree: &Tree, at: &Path, root: &Path) -> Result<(), HostTreeError> {
    if tree.has(at) { Ok(()) } else { remove(&root.join(at)) }
}

fn sweep_below(tree: &Tree, directory: &Path, root: &Path) -> Result<(), HostTreeError> {
    if !tree.has(directory) {
        return remove(&root.join(directory));
    }
    for name in names(&root.join(directory))? {
        let at: PathBuf = directory.join(name);
        match tree.get(&at) {
            Some(Entry::File(_) | Entry::Link(_)) => {}
            _ => sweep_below(tree, &at, root)?,
        }
    }
    Ok(())
}
