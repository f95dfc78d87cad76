//! A node with GPUs of three kinds: one that can be divided, the same out of MIG mode, and one that cannot be.

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::mig::{MigMode, Placement};
use gpulet_inventory::pci::PciAddress;
use gpulet_partition::file::DeviceId;
use gpulet_partition::names;
use gpulet_partition::observed::{ComputeProfile, Engines, GpuDivision, Profile};
use gpulet_partition::resolve::GpuFacts;

/// Id, name, slices, first units, units, how many, of an A100 with 40 GB.
const PROFILES: [(u32, &str, u32, &[u32], u32, u32); 7] = [
    (19, "1g.5gb", 1, &[0, 1, 2, 3, 4, 5, 6], 1, 7),
    (20, "1g.5gb+me", 1, &[0, 1, 2, 3, 4, 5, 6], 1, 1),
    (15, "1g.10gb", 1, &[0, 2, 4, 6], 2, 4),
    (14, "2g.10gb", 2, &[0, 2, 4], 2, 3),
    (9, "3g.20gb", 3, &[0, 4], 4, 2),
    (5, "4g.20gb", 4, &[0], 4, 1),
    (0, "7g.40gb", 7, &[0], 8, 1),
];

/// The node's GPUs.
pub fn divisions() -> Vec<GpuDivision> {
    let on = MigMode { current: true, pending: true };
    let off = MigMode { current: false, pending: false };
    let modes = [Some(on), Some(off), None];
    (0..).zip(modes).filter_map(|(number, mode)| division(number, mode)).collect()
}

fn division(number: u32, mode: Option<MigMode>) -> Option<GpuDivision> {
    let gpu: GpuUuid = format!("GPU-00000000-0000-0000-0000-{number:012}").parse().ok()?;
    let profiles = mode.map(|_| PROFILES.iter().map(profile).collect()).unwrap_or_default();
    Some(GpuDivision { gpu, mode, profiles, instances: Vec::new(), holders: Vec::new() })
}

fn profile((id, name, slices, starts, size, most): &(u32, &str, u32, &[u32], u32, u32)) -> Profile {
    // Numbers of the kinds of one, two, three, four and seven slices.
    let kinds = (0..).zip([1, 2, 3, 4, 7]).filter(|(_, own)| own <= slices);
    let compute = |(id, own): (u32, u32)| ComputeProfile {
        id,
        name: names::compute(own, name, *slices),
        slices: own,
        max_instances: slices / own,
        placements: None,
    };
    Profile {
        id: *id,
        name: (*name).to_owned(),
        slices: *slices,
        memory_bytes: u64::from(*size) << 30,
        multiprocessors: 14 * slices,
        max_instances: *most,
        placements: starts.iter().map(|start| Placement { start: *start, size: *size }).collect(),
        engines: Engines::default(),
        compute_profiles: kinds.map(compute).collect(),
    }
}

/// What is known of these GPUs.
pub fn facts(divisions: &[GpuDivision]) -> Vec<GpuFacts<'_>> {
    let tell = |(index, division): (u8, _)| GpuFacts {
        index: u32::from(index),
        pci: PciAddress { domain: 0, bus: index + 1, device: 0, function: 0 },
        device: Some(DeviceId(0x20B0_10DE)),
        subsystem: Some(DeviceId(0x134F_10DE)),
        driver: "580.65.06",
        division,
    };
    (0..).zip(divisions).map(tell).collect()
}
