//! Who is put where, and what is told of a plan.

mod holding;
mod reports;

use std::sync::Arc;

use gpulet_host::hardware::Model;
use gpulet_inventory::gpu::{Gpu, GpuUuid, MaxClocks, PcieMax};
use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId, MigMode, Placement};
use gpulet_inventory::reading::{Answer, Cause, Reading};
use gpulet_partition::observed::{
    Compute, ComputeProfile, Engines, GpuDivision, Holder, Instance, PodName, Profile,
};

use super::LookedGpu;

fn uuid(number: u32) -> GpuUuid {
    format!("GPU-00000000-0000-0000-0000-{number:012}").parse().unwrap()
}

fn unknown<T>() -> Reading<T> {
    Reading::Unsupported(Answer { call: "nvmlDeviceGetName", cause: Cause::NoSymbol })
}

/// Profiles of 1, 3 and 7 slices by their ids, on eight units of memory.
fn profile(id: u32) -> Profile {
    let (slices, size, starts): (u32, u32, &[u32]) = match id {
        19 => (1, 1, &[0, 1, 2, 3, 4, 5, 6]),
        9 => (3, 4, &[0, 4]),
        _ => (7, 8, &[0]),
    };
    let name = format!("{slices}g.{}gb", size * 10);
    let whole = ComputeProfile {
        id: slices / 2,
        name: name.clone(),
        slices,
        max_instances: 1,
        placements: Some(vec![Placement { start: 0, size: slices }]),
    };
    let part = ComputeProfile {
        id: 0,
        name: format!("1c.{name}"),
        slices: 1,
        max_instances: slices,
        placements: None,
    };
    Profile {
        id,
        name,
        slices,
        memory_bytes: u64::from(size) << 30,
        multiprocessors: slices * 16,
        max_instances: u32::try_from(starts.len()).unwrap(),
        placements: starts.iter().map(|start| Placement { start: *start, size }).collect(),
        engines: Engines::default(),
        compute_profiles: if slices == 1 { vec![whole] } else { vec![whole, part] },
    }
}

fn instance(id: u32, profile_id: u32, start: u32) -> Instance {
    let profile = profile(profile_id);
    let whole = &profile.compute_profiles[0];
    let size = profile.placements[0].size;
    Instance {
        id: GpuInstanceId(id),
        profile: profile_id,
        placement: Placement { start, size },
        computes: vec![Compute {
            id: ComputeInstanceId(0),
            profile: whole.id,
            placement: Placement { start: 0, size: whole.slices },
            holders: Vec::new(),
        }],
        holders: Vec::new(),
    }
}

/// In MIG mode with a 1g at 0 and a 3g at 4.
fn division() -> GpuDivision {
    GpuDivision {
        gpu: uuid(1),
        mode: Some(MigMode { current: true, pending: true }),
        profiles: [0, 9, 19].map(profile).to_vec(),
        instances: vec![instance(7, 19, 0), instance(2, 9, 4)],
        holders: Vec::new(),
    }
}

fn process(pid: u32) -> Holder {
    Holder::Process { pid, program: None, pod: None }
}

fn pod(name: &str) -> PodName {
    PodName { namespace: "ml".to_owned(), name: name.to_owned() }
}

fn looked(division: GpuDivision) -> LookedGpu {
    let gpu = Gpu {
        index: 0,
        uuid: division.gpu.clone(),
        pci: "0000:11:00.0".parse().unwrap(),
        minor: Reading::Supported(3),
        name: Reading::Supported("NVIDIA Test 80GB".to_owned()),
        serial: unknown(),
        vbios: unknown(),
        architecture: unknown(),
        compute_capability: unknown(),
        pcie_max: PcieMax { generation: unknown(), width: unknown() },
        max_clock: MaxClocks { graphics: unknown(), sm: unknown(), memory: unknown(), video: unknown() },
    };
    LookedGpu {
        gpu: Arc::new(gpu),
        division,
        persistence: Some(true),
        model: Model::default(),
        resetless: false,
    }
}
