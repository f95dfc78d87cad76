//! The plan from any layout to any layout: the pair that takes longest of all on a GPU with seven slices and all its profiles,
//! and eight such GPUs, each with something in use that makes the search look further.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    missing_docs,
    unused_crate_dependencies
)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId, MigMode, Placement};
use gpulet_partition::desired::{Wanted, WantedInstance};
use gpulet_partition::observed::{
    Compute, ComputeProfile, Engines, GpuDivision, Holder, Instance, PodName, Profile,
};
use gpulet_partition::plan::{plan, plan_gpu};

/// Id, slices, first units, units, how many, engines.
type Row = (u32, u32, &'static [u32], u32, u32, [u32; 4]);

/// An A100's.
const PROFILES: [Row; 7] = [
    (19, 1, &[0, 1, 2, 3, 4, 5, 6], 1, 7, [0, 0, 0, 0]),
    (20, 1, &[0, 1, 2, 3, 4, 5, 6], 1, 1, [1, 0, 1, 1]),
    (15, 1, &[0, 2, 4, 6], 2, 4, [1, 0, 0, 0]),
    (14, 2, &[0, 2, 4], 2, 3, [1, 0, 0, 0]),
    (9, 3, &[0, 4], 4, 2, [2, 0, 0, 0]),
    (5, 4, &[0], 4, 1, [2, 0, 0, 0]),
    (0, 7, &[0], 8, 1, [5, 0, 1, 1]),
];

fn gpu(number: u32) -> GpuDivision {
    let profiles = PROFILES.map(|(id, slices, starts, size, max_instances, engines)| Profile {
        id,
        name: format!("profile {id}"),
        slices,
        memory_bytes: u64::from(size) << 32,
        multiprocessors: 14 * slices,
        max_instances,
        placements: starts.iter().map(|start| Placement { start: *start, size }).collect(),
        engines: Engines {
            decoders: engines[0],
            encoders: engines[1],
            jpeg: engines[2],
            optical_flow: engines[3],
        },
        compute_profiles: (1..=slices).map(|own| compute_profile(own, slices)).collect(),
    });
    GpuDivision {
        gpu: uuid(number),
        mode: Some(MigMode { current: true, pending: true }),
        profiles: profiles.into(),
        instances: Vec::new(),
        holders: Vec::new(),
    }
}

fn uuid(number: u32) -> GpuUuid {
    format!("GPU-00000000-0000-0000-0000-{number:012}").parse().unwrap()
}

fn compute_profile(slices: u32, of: u32) -> ComputeProfile {
    let placements = (0..=of - slices).map(|start| Placement { start, size: slices });
    ComputeProfile {
        id: slices,
        name: format!("{slices}c"),
        slices,
        max_instances: of / slices,
        placements: Some(placements.collect()),
    }
}

/// Every layout, grown instance by instance: the planner itself tells whether what is added fits beside what is there.
fn layouts() -> Vec<Vec<Instance>> {
    let empty = gpu(1);
    let spots: Vec<Instance> = empty.profiles.iter().flat_map(spots).collect();
    let mut layouts = vec![(Vec::new(), 0)];
    let mut next = 0;
    while next < layouts.len() {
        let (layout, from): (Vec<Instance>, usize) = layouts[next].clone();
        for (at, spot) in spots.iter().enumerate().skip(from) {
            let grown: Vec<Instance> = layout.iter().chain([spot]).cloned().collect();
            if apart(&layout, spot) && plan_gpu(&empty, &wanted(&grown)).is_ok() {
                layouts.push((grown, at + 1));
            }
        }
        next += 1;
    }
    layouts.into_iter().map(|(layout, _)| layout).collect()
}

fn spots(profile: &Profile) -> impl Iterator<Item = Instance> + use<'_> {
    let whole = Placement { start: 0, size: profile.slices };
    let compute =
        Compute { id: ComputeInstanceId(0), profile: profile.slices, placement: whole, holders: Vec::new() };
    profile.placements.iter().map(move |placement| Instance {
        id: GpuInstanceId(profile.id << 8 | placement.start),
        profile: profile.id,
        placement: *placement,
        computes: vec![compute.clone()],
        holders: Vec::new(),
    })
}

fn apart(layout: &[Instance], spot: &Instance) -> bool {
    let ends = |placement: Placement| placement.start + placement.size;
    layout
        .iter()
        .map(|there| there.placement)
        .all(|there| ends(there) <= spot.placement.start || ends(spot.placement) <= there.start)
}

fn wanted(layout: &[Instance]) -> Wanted {
    let one = |instance: &Instance| {
        let computes = instance.computes.iter().map(|compute| compute.profile).collect();
        WantedInstance { profile: instance.profile, computes }
    };
    Wanted::On(layout.iter().map(one).collect())
}

fn holder() -> Holder {
    let pod = PodName { namespace: "ml".to_owned(), name: "train".to_owned() };
    Holder::Process { pid: 4711, program: Some("python".to_owned()), pod: Some(pod) }
}

/// The pair that takes longest, by the shortest of three tries each.
fn hardest() -> (GpuDivision, Wanted) {
    let layouts = layouts();
    assert_eq!(layouts.len(), 2319, "as many as there are");
    let goals: BTreeMap<Vec<u32>, Wanted> =
        layouts.iter().map(|layout| (counts(layout), wanted(layout))).collect();
    assert_eq!(goals.len(), 128, "as many as there are");
    let mut hardest = (Duration::ZERO, gpu(1), Wanted::Off);
    for layout in &layouts {
        let mut division = gpu(1);
        division.instances.clone_from(layout);
        // One in use, so that what is found at first may not be the end of it.
        if let Some(instance) = division.instances.first_mut() {
            instance.holders = vec![holder()];
        }
        for goal in goals.values() {
            let time = || {
                let start = Instant::now();
                let _ = black_box(plan_gpu(&division, goal));
                start.elapsed()
            };
            let took = time().min(time()).min(time());
            if took > hardest.0 {
                hardest = (took, division.clone(), goal.clone());
            }
        }
    }
    (hardest.1, hardest.2)
}

fn counts(layout: &[Instance]) -> Vec<u32> {
    let mut profiles: Vec<u32> = layout.iter().map(|instance| instance.profile).collect();
    profiles.sort_unstable();
    profiles
}

fn plans(criterion: &mut Criterion) {
    let (division, goal) = hardest();
    criterion.bench_function("plan/one GPU, the hardest pair", |bencher| {
        bencher.iter(|| black_box(plan_gpu(black_box(&division), &goal)));
    });

    let node: Vec<GpuDivision> =
        (1..=8).map(|number| GpuDivision { gpu: uuid(number), ..division.clone() }).collect();
    let goals = (1..=8).map(|number| (uuid(number), goal.clone())).collect();
    criterion.bench_function("plan/eight GPUs, the hardest pair each", |bencher| {
        bencher.iter(|| black_box(plan(&goals, black_box(&node))));
    });
}

criterion_group!(benches, plans);
criterion_main!(benches);
