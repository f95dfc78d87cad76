use super::*;

fn named(of: Vec<ComputeProfile>) -> Vec<(u32, String, u32)> {
    of.into_iter().map(|own| (own.id, own.name, own.max_instances)).collect()
}

/// As `nvidia-smi mig -lcip` prints them of instances that exist (NVIDIA's MIG user guide).
#[test]
fn what_follows_from_slices_is_what_drivers_tell() {
    let expect = |of: &[(u32, &str, u32)]| -> Vec<(u32, String, u32)> {
        of.iter().map(|(id, name, most)| (*id, (*name).to_owned(), *most)).collect()
    };
    assert_eq!(named(derived("1g.5gb", 1)), expect(&[(0, "1g.5gb", 1)]));
    assert_eq!(named(derived("2g.10gb", 2)), expect(&[(0, "1c.2g.10gb", 2), (1, "2g.10gb", 1)]));
    assert_eq!(
        named(derived("3g.20gb", 3)),
        expect(&[(0, "1c.3g.20gb", 3), (1, "2c.3g.20gb", 1), (2, "3g.20gb", 1)])
    );
    assert_eq!(
        named(derived("4g.20gb", 4)),
        expect(&[(0, "1c.4g.20gb", 4), (1, "2c.4g.20gb", 2), (3, "4g.20gb", 1)])
    );
    assert_eq!(
        named(derived("7g.40gb", 7)),
        expect(&[
            (0, "1c.7g.40gb", 7),
            (1, "2c.7g.40gb", 3),
            (2, "3c.7g.40gb", 2),
            (3, "4c.7g.40gb", 1),
            (4, "7g.40gb", 1)
        ])
    );
    assert!(derived("0g", 0).is_empty());
}

/// Some GPUs offer the whole of a GPU instance twice, with other engines: one who asks for it means the plain one.
#[test]
fn kinds_that_differ_by_engines_are_not_offered() {
    let kind = |number, slices| (Kind { number, id: number, slices, most: 1 }, None);
    let told = [kind(3, 4), kind(4, 7), kind(7, 1), kind(8, 7)];
    assert_eq!(
        named(offered(&told, "7g.141gb", 7)),
        [(3, "4c.7g.141gb".to_owned(), 1), (4, "7g.141gb".to_owned(), 1)]
    );
}

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
    add_holders(&mut division, Ok(processes));
    assert_eq!(pids(&division.holders), [10]);
    let [first, second] = division.instances.as_slice() else { panic!() };
    assert_eq!((pids(&first.holders), pids(&second.holders)), (vec![12], vec![13]));
    assert_eq!(first.computes.iter().map(|own| pids(&own.holders)).collect::<Vec<_>>(), [vec![], vec![11]]);
}

#[test]
fn who_uses_an_instance_that_was_not_listed_may_use_any() {
    let mut division = division();
    add_holders(&mut division, Ok(vec![process(10, Some(9), Some(0))]));
    assert_eq!(pids(&division.holders), [10]);
    assert!(division.instances.iter().all(|instance| pids(&instance.holders) == [10]));
}

#[test]
fn where_processes_are_not_listed_anyone_may_use_any() {
    let mut division = division();
    let call = symbol::COMPUTE_PROCESSES.name;
    add_holders(&mut division, Err(Answer { call, cause: Cause::NoSymbol }));
    assert!(division.instances.iter().all(Instance::is_busy));
    assert!(matches!(division.holders.as_slice(), [Holder::Unknown { why }] if why.contains(call)));
}
