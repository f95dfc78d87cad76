//! Profiles as drivers report them of real GPUs (source: NVIDIA's MIG user guide, prints of `nvidia-smi mig -lgipp`).

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId, MigMode, Placement};

use crate::desired::WantedInstance;
use crate::observed::{Compute, ComputeProfile, Engines, GpuDivision, Holder, Instance, PodName, Profile};

/// Of an A100 or newer: eight units of memory, seven slices.
pub(crate) const ONE: u32 = 19;
pub(crate) const ONE_ME: u32 = 20;
pub(crate) const ONE_DOUBLE: u32 = 15;
pub(crate) const TWO: u32 = 14;
pub(crate) const THREE: u32 = 9;
pub(crate) const FOUR: u32 = 5;
pub(crate) const SEVEN: u32 = 0;

/// Id, name, slices, places, size, how many, engines, multiprocessors.
type Row = (u32, &'static str, u32, &'static [u32], u32, u32, [u32; 4], u32);

const SEVEN_SLICES: [Row; 7] = [
    (ONE, "1g.5gb", 1, &[0, 1, 2, 3, 4, 5, 6], 1, 7, [0, 0, 0, 0], 14),
    (ONE_ME, "1g.5gb+me", 1, &[0, 1, 2, 3, 4, 5, 6], 1, 1, [1, 0, 1, 1], 14),
    (ONE_DOUBLE, "1g.10gb", 1, &[0, 2, 4, 6], 2, 4, [1, 0, 0, 0], 14),
    (TWO, "2g.10gb", 2, &[0, 2, 4], 2, 3, [1, 0, 0, 0], 28),
    (THREE, "3g.20gb", 3, &[0, 4], 4, 2, [2, 0, 0, 0], 42),
    (FOUR, "4g.20gb", 4, &[0], 4, 1, [2, 0, 0, 0], 56),
    (SEVEN, "7g.40gb", 7, &[0], 8, 1, [5, 0, 1, 1], 98),
];

const A30: [Row; 5] = [
    (14, "1g.6gb", 1, &[0, 1, 2, 3], 1, 4, [0, 0, 0, 0], 14),
    (21, "1g.6gb+me", 1, &[0, 1, 2, 3], 1, 1, [1, 0, 1, 1], 14),
    (5, "2g.12gb", 2, &[0, 2], 2, 2, [2, 0, 0, 0], 28),
    (6, "2g.12gb+me", 2, &[0, 2], 2, 1, [2, 0, 1, 1], 28),
    (0, "4g.24gb", 4, &[0], 4, 1, [4, 0, 1, 1], 56),
];

/// Twelve units, four slices.
const RTX_PRO_6000: [Row; 11] = [
    (14, "1g.24gb", 1, &[0, 3, 6, 9], 3, 4, [1, 1, 1, 0], 46),
    (21, "1g.24gb+me", 1, &[0, 3, 6, 9], 3, 1, [1, 1, 1, 1], 46),
    (47, "1g.24gb+gfx", 1, &[0, 3, 6, 9], 3, 4, [1, 1, 1, 0], 46),
    (65, "1g.24gb+me.all", 1, &[0, 3, 6, 9], 3, 1, [4, 4, 4, 1], 46),
    (67, "1g.24gb-me", 1, &[0, 3, 6, 9], 3, 4, [0, 0, 0, 0], 46),
    (5, "2g.48gb", 2, &[0, 6], 6, 2, [2, 2, 2, 0], 94),
    (35, "2g.48gb+gfx", 2, &[0, 6], 6, 2, [2, 2, 2, 0], 94),
    (64, "2g.48gb+me.all", 2, &[0, 6], 6, 1, [4, 4, 4, 1], 94),
    (66, "2g.48gb-me", 2, &[0, 6], 6, 2, [0, 0, 0, 0], 94),
    (0, "4g.96gb", 4, &[0], 12, 1, [4, 4, 4, 1], 188),
    (32, "4g.96gb+gfx", 4, &[0], 12, 1, [4, 4, 4, 1], 188),
];

pub(crate) fn uuid(number: u32) -> GpuUuid {
    format!("GPU-00000000-0000-0000-0000-{number:012}").parse().unwrap()
}

/// Some of the profiles of a GPU with seven slices; empty, in MIG mode.
pub(crate) fn seven_slices(ids: &[u32]) -> GpuDivision {
    gpu(SEVEN_SLICES.iter().filter(|row| ids.contains(&row.0)))
}

pub(crate) fn a100() -> GpuDivision {
    gpu(SEVEN_SLICES.iter())
}

pub(crate) fn a30() -> GpuDivision {
    gpu(A30.iter())
}

pub(crate) fn rtx_pro_6000() -> GpuDivision {
    gpu(RTX_PRO_6000.iter())
}

fn gpu(rows: impl Iterator<Item = &'static Row>) -> GpuDivision {
    let on = MigMode { current: true, pending: true };
    let profiles = rows.map(profile).collect();
    GpuDivision { gpu: uuid(1), mode: Some(on), profiles, instances: Vec::new(), holders: Vec::new() }
}

fn profile(row: &Row) -> Profile {
    let (
        id,
        name,
        slices,
        starts,
        size,
        max_instances,
        [decoders, encoders, jpeg, optical_flow],
        multiprocessors,
    ) = *row;
    Profile {
        id,
        name: name.to_owned(),
        slices,
        memory_bytes: u64::from(size) << 30,
        multiprocessors,
        max_instances,
        placements: starts.iter().map(|start| Placement { start: *start, size }).collect(),
        engines: Engines { decoders, encoders, jpeg, optical_flow },
        compute_profiles: compute_profiles(name, slices),
    }
}

/// Ids are 0, 1, 2, 3, 4 for 1, 2, 3, 4, 7 slices.
fn compute_profiles(name: &str, slices: u32) -> Vec<ComputeProfile> {
    let places: &[(u32, u32, &[u32])] = match slices {
        1 => &[(0, 1, &[0])],
        2 => &[(0, 1, &[0, 1]), (1, 2, &[0])],
        3 => &[(0, 1, &[0, 1, 2]), (1, 2, &[0]), (2, 3, &[0])],
        4 => &[(0, 1, &[0, 1, 2, 3]), (1, 2, &[0, 2]), (3, 4, &[0])],
        _ => {
            &[(0, 1, &[0, 1, 2, 3, 4, 5, 6]), (1, 2, &[0, 2, 4]), (2, 3, &[0, 4]), (3, 4, &[0]), (4, 7, &[0])]
        }
    };
    let tell = |(id, size, starts): &(u32, u32, &[u32])| ComputeProfile {
        id: *id,
        name: if *size == slices { name.to_owned() } else { format!("{size}c.{name}") },
        slices: *size,
        max_instances: u32::try_from(starts.len()).unwrap(),
        placements: Some(starts.iter().map(|start| Placement { start: *start, size: *size }).collect()),
    };
    places.iter().map(tell).collect()
}

/// The compute profile that takes a whole GPU instance, and its slices.
pub(crate) fn whole(division: &GpuDivision, profile: u32) -> (u32, u32) {
    let own = division.profile(profile).unwrap().compute_profiles.last().unwrap();
    (own.id, own.slices)
}

/// Instances that are wanted, each with one compute instance that takes all of it.
pub(crate) fn wanted(division: &GpuDivision, profiles: &[u32]) -> Vec<WantedInstance> {
    let one = |id: &u32| WantedInstance { profile: *id, computes: vec![whole(division, *id).0] };
    profiles.iter().map(one).collect()
}

/// An instance that is there, with one compute instance that takes all of it.
pub(crate) fn instance(division: &GpuDivision, id: u32, profile: u32, start: u32) -> Instance {
    let places = &division.profile(profile).unwrap().placements;
    let placement = *places.iter().find(|placement| placement.start == start).unwrap();
    let (whole, size) = whole(division, profile);
    Instance {
        id: GpuInstanceId(id),
        profile,
        placement,
        computes: vec![Compute {
            id: ComputeInstanceId(0),
            profile: whole,
            placement: Placement { start: 0, size },
            holders: Vec::new(),
        }],
        holders: Vec::new(),
    }
}

/// The same GPU with instances of these profiles at these units.
pub(crate) fn divided(mut division: GpuDivision, layout: &[(u32, u32)]) -> GpuDivision {
    let numbered = (1..).zip(layout);
    division.instances =
        numbered.map(|(id, (profile, start))| instance(&division, id, *profile, *start)).collect();
    division
}

/// A process of a Pod.
pub(crate) fn holder(pid: u32) -> Holder {
    let pod = PodName { namespace: "ml".to_owned(), name: format!("train-{pid}") };
    Holder::Process { pid, program: Some("python".to_owned()), pod: Some(pod) }
}

/// Lets processes use these instances, by position.
pub(crate) fn used(mut division: GpuDivision, positions: &[usize]) -> GpuDivision {
    for at in positions {
        let pid = 100 + u32::try_from(*at).unwrap();
        division.instances[*at].computes[0].holders = vec![holder(pid)];
    }
    division
}
