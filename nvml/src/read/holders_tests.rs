use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId, MigMode, Placement};
use gpulet_inventory::reading::Cause;
use gpulet_partition::observed::{Compute, Instance};

use super::*;
use crate::raw::symbol;

fn division() -> GpuDivision {
    let compute = |id, start| Compute {
        id: ComputeInstanceId(id),
        profile: 0,
        placement: Placement { start, size: 1 },
        holders: Vec::new(),
    };
    let instance = |id, start, computes| Instance {
        id: GpuInstanceId(id),
        profile: 9,
        placement: Placement { start, size: 4 },
        computes,
        holders: Vec::new(),
    };
    GpuDivision {
        gpu: "GPU-00000000-0000-0000-0000-000000000001".parse().unwrap(),
        mode: Some(MigMode { current: true, pending: true }),
        profiles: Vec::new(),
        instances: vec![instance(1, 0, vec![compute(0, 0), compute(1, 1)]), instance(2, 4, Vec::new())],
        holders: Vec::new(),
    }
}

fn process(pid: u32, instance: Option<u32>, compute: Option<u32>) -> GpuProcess {
    GpuProcess {
        pid,
        kind: gpulet_inventory::process::ProcessKind::Compute,
        memory_bytes: None,
        gpu_instance: instance.map(GpuInstanceId),
        compute_instance: compute.map(ComputeInstanceId),
    }
}

fn pids(holders: &[Holder]) -> Vec<u32> {
    holders
        .iter()
        .map(|holder| match holder {
            Holder::Process { pid, .. } => *pid,
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn everyone_is_where_he_is() {
    let mut division = division();
    let processes = vec![
        process(10, None, None),
        process(11, Some(1), Some(1)),
        process(11, Some(1), Some(1)),
        process(12, Some(1), None),
        process(13, Some(2), Some(0)),
    ];
    add(&mut division, Ok(processes));
    assert_eq!(pids(&division.holders), [10]);
    let [first, second] = division.instances.as_slice() else { panic!() };
    assert_eq!((pids(&first.holders), pids(&second.holders)), (vec![12], vec![13]));
    assert_eq!(first.computes.iter().map(|own| pids(&own.holders)).collect::<Vec<_>>(), [vec![], vec![11]]);
}

#[test]
fn who_uses_an_instance_that_was_not_listed_may_use_any() {
    let mut division = division();
    add(&mut division, Ok(vec![process(10, Some(9), Some(0))]));
    assert_eq!(pids(&division.holders), [10]);
    assert!(division.instances.iter().all(|instance| pids(&instance.holders) == [10]));
}

#[test]
fn where_processes_are_not_listed_anyone_may_use_any() {
    let mut division = division();
    let call = symbol::COMPUTE_PROCESSES.name;
    add(&mut division, Err(Answer { call, cause: Cause::NoSymbol }));
    assert!(division.instances.iter().all(Instance::is_busy));
    assert!(matches!(division.holders.as_slice(), [Holder::Unknown { why }] if why.contains(call)));
}
