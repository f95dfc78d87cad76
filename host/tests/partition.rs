//! A simulated machine before and after its GPUs are divided: who has them open, and what containers find.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::path::Path;
use std::time::Duration;

use gpulet_host::Root;
use gpulet_host::partition::aftercare::{self, ExpectedGpu, ExpectedMig, Finding};
use gpulet_host::partition::preflight::{self, Opened};
use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId};
use gpulet_simulator::command::{Command, Hold};
use gpulet_simulator::engine::Engine;
use gpulet_simulator::host_tree;
use gpulet_simulator::node::Node;
use gpulet_simulator::state::{GpuState, ProcessKind};

/// A process that is none of those that the machine begins with.
const PID: u32 = 31_337;

/// A machine of which the first GPU is divided.
fn machine(directory: &Path) -> Engine {
    let engine = Engine::new(&Node::load("rtx-pro-6000").unwrap(), 1, 0).unwrap();
    host_tree::write(engine.node(), engine.state(), directory).unwrap();
    engine
}

fn divided(engine: &Engine) -> usize {
    let is_divided = |gpu: &GpuState| gpu.mig.as_ref().is_some_and(|mig| mig.mode.0);
    engine.state().gpus.iter().position(is_divided).unwrap()
}

/// What containers should find.
fn expected(engine: &Engine) -> Vec<ExpectedGpu> {
    let of = |gpu: &GpuState| {
        let mig = gpu.mig.as_ref().filter(|mig| mig.mode.0);
        let instances = mig.map(|mig| {
            let computes = mig.instances.iter().flat_map(|gi| gi.compute.iter().map(move |ci| (gi.id, ci)));
            let device = computes.map(|(instance, ci)| ExpectedMig {
                uuid: Some(ci.uuid.clone()),
                instance: GpuInstanceId(instance),
                compute: ComputeInstanceId(ci.id),
            });
            device.collect()
        });
        ExpectedGpu { gpu: gpu.identity.uuid.parse().unwrap(), minor: gpu.identity.minor, mig: instances }
    };
    engine.state().gpus.iter().map(of).collect()
}

#[test]
fn whoever_uses_an_instance_has_it_open() {
    let directory = tempfile::tempdir_in(gpulet_simulator::scratch_dir()).unwrap();
    let mut engine = machine(directory.path());
    let root = Root::new(directory.path());
    let before = preflight::look(&root);
    assert!(before.openers.iter().all(|opener| opener.pid != PID), "{before:?}");
    let index = divided(&engine);
    let gpu = &engine.state().gpus[index];
    let minor = gpu.identity.minor;
    let instance = &gpu.mig.as_ref().unwrap().instances[0];
    let (gi, ci) = (instance.id, instance.compute[0].id);
    let hold = Hold {
        gpu: u32::try_from(index).unwrap(),
        pid: PID,
        kind: ProcessKind::Compute,
        memory_bytes: None,
        instance: Some((gi, ci)),
        name: "/usr/bin/train --all".to_owned(),
        cgroup: None,
    };
    engine.apply(Command::Hold(hold)).unwrap();
    host_tree::refresh(engine.node(), engine.state(), directory.path()).unwrap();
    let found = preflight::look(&root);
    let pci = engine.node().gpus()[index].description.at;
    let opener = found.openers_of(minor, pci).find(|opener| opener.pid == PID).unwrap();
    assert_eq!(opener.to_string(), format!("process {PID} (train) of train.service"));
    let (instance, compute) = (GpuInstanceId(gi), ComputeInstanceId(ci));
    for opened in [
        Opened::Gpu(minor),
        Opened::Instance { gpu: minor, instance },
        Opened::Compute { gpu: minor, instance, compute },
    ] {
        assert!(opener.opened.contains(&opened), "{opened:?} of {found:?}");
    }
    let other = engine.node().gpus().iter().find(|other| other.minor != minor).unwrap();
    assert!(found.openers_of(other.minor, other.description.at).all(|opener| opener.pid != PID));
}

#[test]
fn a_module_that_drives_displays_holds_every_gpu() {
    let directory = tempfile::tempdir_in(gpulet_simulator::scratch_dir()).unwrap();
    let mut engine = machine(directory.path());
    let root = Root::new(directory.path());
    assert!(preflight::look(&root).modules.is_empty());
    engine.apply(Command::Modeset { on: true }).unwrap();
    host_tree::refresh(engine.node(), engine.state(), directory.path()).unwrap();
    let modules = preflight::look(&root).modules;
    assert_eq!((modules.len(), modules[0].name.as_str()), (1, "nvidia_drm"));
    assert!(modules[0].is_certain() && modules[0].modeset, "{modules:?}");
}

#[test]
fn device_files_follow_the_instances() {
    let directory = tempfile::tempdir_in(gpulet_simulator::scratch_dir()).unwrap();
    let engine = machine(directory.path());
    let (root, caps) = (Root::new(directory.path()), directory.path().join("dev/nvidia-caps"));
    let count = || std::fs::read_dir(&caps).unwrap().count();
    let care = || aftercare::care(&root, &expected(&engine), Duration::from_secs(60));
    let first = care();
    assert!(first.wrong().is_none(), "{first:?}");
    let all = count();
    let devices: usize = expected(&engine).iter().flat_map(|gpu| &gpu.mig).map(Vec::len).sum();
    assert!(all > devices, "a file for each of {devices} devices and for its instance, not {all}");
    // One is missing, one is of an instance that is gone: the table has numbers for all that there can be.
    let present: Vec<_> = std::fs::read_dir(&caps).unwrap().map(|entry| entry.unwrap().path()).collect();
    std::fs::remove_file(&present[0]).unwrap();
    let gone = (3..)
        .map(|minor| caps.join(format!("nvidia-cap{minor}")))
        .find(|path| !path.exists() && *path != present[0]);
    let gone = gone.unwrap();
    std::fs::write(&gone, "").unwrap();
    let second = care();
    assert!(second.has_mended() && second.wrong().is_none(), "{second:?}");
    assert_eq!((count(), gone.exists(), present[0].exists()), (all, false, true));
    let third = care();
    assert!(third.findings.iter().all(|finding| matches!(finding, Finding::Right(_))), "{third:?}");
}
