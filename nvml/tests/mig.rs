//! A divided GPU.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use std::collections::BTreeMap;

use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId};
use gpulet_inventory::reading::{Cause, Reading};
use gpulet_nvml::event::EventKind;
use gpulet_simulator::command::{Command, Hold};
use gpulet_simulator::state::{Effect, ProcessKind};
use support::{Rig, all_up, sample, unsupported, value, xid};

const NODE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nodes/mig.yaml");

#[tokio::test]
async fn instances_are_those_of_the_hardware() {
    let rig = Rig::new(NODE);
    let gpus = rig.tick().await;
    assert!(all_up(&gpus, 2));
    let truth = rig.node.state().gpus[0].mig.clone().unwrap();
    let mig = value(&sample(&gpus.gpus[0]).mig);
    assert!(mig.mode.current && mig.mode.pending);
    let instances = value(&mig.instances);
    assert_eq!(instances.len(), 3);
    for instance in &instances {
        let expected = truth.instances.iter().find(|other| other.id == instance.id.0).unwrap();
        assert_eq!(instance.profile_id, truth.profiles[&expected.profile].id);
        assert_eq!((instance.placement.start, instance.placement.size), expected.placement);
        let found: BTreeMap<_, _> =
            instance.compute_instances.iter().map(|ci| (ci.id.0, ci.uuid.clone().unwrap())).collect();
        let wanted: BTreeMap<_, _> = expected.compute.iter().map(|ci| (ci.id, ci.uuid.clone())).collect();
        assert_eq!(found, wanted);
    }
    assert!(instances.iter().any(|instance| instance.compute_instances.len() == 2));
    // The other GPU is whole, and says what it could be divided into.
    let whole = value(&sample(&gpus.gpus[1]).mig);
    assert!(!whole.mode.current && value(&whole.instances).is_empty() && !value(&whole.profiles).is_empty());
    assert_eq!(value(&gpus.gpus[1].gpu.minor), 5, "the minor number need not be the index");
}

#[tokio::test]
async fn a_divided_gpu_has_no_utilisation_but_the_rest() {
    let rig = Rig::new(NODE);
    rig.work();
    let gpus = rig.tick().await;
    let divided = sample(&gpus.gpus[0]);
    assert_eq!(unsupported(&divided.utilization.gpu), ("nvmlDeviceGetUtilizationRates", Cause::Code(3)));
    assert!(divided.power.usage.value().is_some() && divided.memory.value().is_some());
    // nvmlDeviceGetRemappedRows refuses while there are instances; the fields do not.
    assert!(divided.remapped_rows.value().is_some());
    assert!(sample(&gpus.gpus[1]).utilization.gpu.value().is_some());
}

#[tokio::test]
async fn processes_know_their_instance() {
    let rig = Rig::new(NODE);
    let instance = rig.node.state().gpus[0].mig.as_ref().unwrap().instances[0].clone();
    let at = (instance.id, instance.compute[0].id);
    let hold = Hold {
        gpu: 0,
        pid: 77,
        kind: ProcessKind::Compute,
        memory_bytes: Some(1 << 20),
        instance: Some(at),
        name: "notebook".into(),
        cgroup: None,
    };
    rig.command(Command::Hold(hold));
    let gpus = rig.tick().await;
    let processes = value(&sample(&gpus.gpus[0]).processes);
    let process = processes.iter().find(|process| process.pid == 77).unwrap();
    assert_eq!(process.gpu_instance, Some(GpuInstanceId(at.0)));
    assert_eq!(process.compute_instance, Some(ComputeInstanceId(at.1)));
}

#[tokio::test]
async fn an_instance_that_cannot_be_listed_is_a_failure_and_not_an_empty_gpu() {
    let rig = Rig::new(NODE);
    rig.fault(Some(0), "nvmlDeviceGetGpuInstances", Effect::Return(4));
    let gpus = rig.tick().await;
    assert!(all_up(&gpus, 2));
    let mig = value(&sample(&gpus.gpus[0]).mig);
    assert!(matches!(mig.instances, Reading::Failed(answer) if answer.cause == Cause::Code(4)));
}

#[tokio::test]
async fn an_xid_says_which_instance_caused_it() {
    let rig = Rig::new(NODE);
    let mut events = rig.driver.events();
    rig.tick_until(|gpus| all_up(gpus, 2)).await;
    let instance = rig.node.state().gpus[0].mig.as_ref().unwrap().instances[0].clone();
    let at = (instance.id, instance.compute[0].id);
    rig.command(Command::Xid { gpu: 0, code: 43, times: 3, instance: Some(at) });
    let gpus = rig.tick_until(|gpus| xid(&gpus.gpus[0], 43) == Some(3)).await;
    let event = events.recv().await.unwrap();
    assert_eq!((event.gpu.clone(), event.kind), (gpus.gpus[0].gpu.uuid.clone(), EventKind::Xid(43)));
    assert_eq!(event.gpu_instance, Some(GpuInstanceId(at.0)));
    assert_eq!(event.compute_instance, Some(ComputeInstanceId(at.1)));
}
