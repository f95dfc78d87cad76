//! Nodes with GPUs as drivers report them, to hold partition files against.

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::mig::MigMode;

use super::tables::{FOUR, ONE, ONE_DOUBLE, ONE_ME, SEVEN, THREE, TWO, a30, a100, rtx_pro_6000, uuid};
use crate::file::DeviceId;
use crate::observed::GpuDivision;
use crate::resolve::GpuFacts;

/// One GPU of a node: its model and what the driver tells of it.
#[derive(Debug, Clone)]
pub(crate) struct Gpu {
    pub(crate) device: u32,
    pub(crate) driver: &'static str,
    pub(crate) division: GpuDivision,
}

/// The node's GPUs, numbered in this order, with a UUID and an address each.
pub(crate) fn node(gpus: &[Gpu]) -> Vec<Gpu> {
    let numbered = (0..).zip(gpus.iter().cloned());
    numbered
        .map(|(index, mut gpu): (u32, Gpu)| {
            gpu.division.gpu = uuid(index);
            gpu
        })
        .collect()
}

/// What is known of them.
pub(crate) fn facts(node: &[Gpu]) -> Vec<GpuFacts<'_>> {
    let numbered = (0..).zip(node);
    numbered
        .map(|(index, gpu)| GpuFacts {
            index,
            pci: format!("0000:{:02x}:00.0", 0x10 + index).parse().unwrap(),
            device: Some(DeviceId(gpu.device)),
            subsystem: Some(DeviceId(0x1234_10DE)),
            driver: gpu.driver,
            division: &gpu.division,
        })
        .collect()
}

/// The UUID of the GPU with this index.
pub(crate) fn gpu(index: u32) -> GpuUuid {
    uuid(index)
}

pub(crate) fn a100_40() -> Gpu {
    Gpu { device: 0x20B0_10DE, driver: "580.65.06", division: a100() }
}

/// The same grid with these names for 1g, 1g of double memory, 2g, 3g, 4g and 7g.
fn seven(device: u32, names: [&str; 6]) -> Gpu {
    let [one, double, two, three, four, seven] = names;
    let media = format!("{one}+me");
    let all = [
        (ONE, one),
        (ONE_ME, media.as_str()),
        (ONE_DOUBLE, double),
        (TWO, two),
        (THREE, three),
        (FOUR, four),
        (SEVEN, seven),
    ];
    let mut division = a100();
    for profile in &mut division.profiles {
        let name = all.iter().find(|(id, _)| *id == profile.id).unwrap().1;
        for own in &mut profile.compute_profiles {
            own.name = own.name.replace(&profile.name, name);
        }
        profile.name = name.to_owned();
    }
    Gpu { device, driver: "580.65.06", division }
}

pub(crate) fn h100_80() -> Gpu {
    seven(0x2330_10DE, ["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"])
}

pub(crate) fn gb200() -> Gpu {
    seven(0x2941_10DE, ["1g.23gb", "1g.47gb", "2g.47gb", "3g.93gb", "4g.93gb", "7g.186gb"])
}

pub(crate) fn a30_24() -> Gpu {
    Gpu { device: 0x20B7_10DE, driver: "580.65.06", division: a30() }
}

pub(crate) fn rtx_pro() -> Gpu {
    Gpu { device: 0x2BB5_10DE, driver: "580.65.06", division: rtx_pro_6000() }
}

/// A GPU that cannot be divided.
pub(crate) fn t4() -> Gpu {
    let division = GpuDivision { mode: None, profiles: Vec::new(), ..a100() };
    Gpu { device: 0x1EB8_10DE, driver: "580.65.06", division }
}

/// Out of MIG mode.
pub(crate) fn off(mut gpu: Gpu) -> Gpu {
    gpu.division.mode = Some(MigMode { current: false, pending: false });
    gpu.division.instances.clear();
    gpu
}
