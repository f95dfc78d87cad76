//! The division of a GPU, read whole and fresh: nothing that was learned before is used.

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId, MigMode, Placement};
use gpulet_inventory::reading::{Answer, Cause};
use gpulet_partition::names;
use gpulet_partition::observed::{Compute, ComputeProfile, GpuDivision, Instance, Profile};

use super::holders;
use super::offer::{self, Kind, Offer};
use super::slow::enabled;
use crate::code;
use crate::raw::calls::Calls;
use crate::raw::handle::{ComputeInstance, Device, GpuInstance};
use crate::raw::symbol;

/// Kinds of compute instance that are the same as others but for their engines: they exist, and are never chosen.
const DOUBLES: [u32; 2] = [7, 8];

/// Reads all of it.
pub(crate) fn read(calls: &Calls, device: Device, gpu: &GpuUuid) -> Result<GpuDivision, Answer> {
    let mut division = GpuDivision {
        gpu: gpu.clone(),
        mode: mode(calls, device)?,
        profiles: Vec::new(),
        instances: Vec::new(),
        holders: Vec::new(),
    };
    if let Some(mode) = division.mode {
        let offers = offer::offers(calls, device)?;
        let found = if mode.current { found(calls, device, &offers)? } else { Vec::new() };
        division.profiles = profiles(calls, device, offers, &found)?;
        division.instances = found.into_iter().map(|found| found.instance).collect();
    }
    // After the instances: whoever came to one since is seen.
    holders::add(&mut division, holders::read(calls, device)?);
    Ok(division)
}

/// MIG mode; absent where the GPU or the driver has none.
pub(crate) fn mode(calls: &Calls, device: Device) -> Result<Option<MigMode>, Answer> {
    let failed = |cause| Answer { call: symbol::MIG_MODE.name, cause };
    match calls.get_two(&symbol::MIG_MODE, device) {
        Ok((current, pending)) => {
            let (current, pending) = (enabled(current).map_err(failed)?, enabled(pending).map_err(failed)?);
            Ok(Some(MigMode { current, pending }))
        }
        Err(cause) if code::is_unsupported(cause) => Ok(None),
        Err(cause) => Err(failed(cause)),
    }
}

/// A GPU instance, and what it told of its compute instance profiles.
struct Found {
    instance: Instance,
    offered: Vec<(Kind, Option<Vec<Placement>>)>,
}

/// The instances that exist, in the order of their numbers.
fn found(calls: &Calls, device: Device, offers: &[Offer]) -> Result<Vec<Found>, Answer> {
    let mut all = Vec::new();
    for handle in gpu_instances(calls, device, offers)? {
        match instance(calls, handle) {
            Ok(found) => all.push(found),
            // Destroyed since it was listed.
            Err(Answer { cause: Cause::Code(code::NOT_FOUND | code::INVALID_ARGUMENT), .. }) => {}
            Err(answer) => return Err(answer),
        }
    }
    all.sort_by_key(|found: &Found| found.instance.id);
    Ok(all)
}

/// The handles of all GPU instances, of whatever profile.
fn gpu_instances(calls: &Calls, device: Device, offers: &[Offer]) -> Result<Vec<GpuInstance>, Answer> {
    let mut all = Vec::new();
    for offer in offers {
        match calls.gpu_instances(device, offer.id, offer.most) {
            Ok(handles) => all.extend(handles),
            Err(Cause::Code(code::NOT_SUPPORTED)) => {}
            Err(cause) => return Err(Answer { call: symbol::GPU_INSTANCES.name, cause }),
        }
    }
    Ok(all)
}

fn instance(calls: &Calls, handle: GpuInstance) -> Result<Found, Answer> {
    let info = calls
        .get(&symbol::GPU_INSTANCE, handle)
        .map_err(|cause| Answer { call: symbol::GPU_INSTANCE.name, cause })?;
    let (mut offered, mut computes) = (Vec::new(), Vec::new());
    for kind in offer::kinds(calls, handle)? {
        for compute in compute_instances(calls, handle, kind)? {
            computes.push(compute_instance(calls, compute, kind)?);
        }
        offered.push((kind, offer::compute_places(calls, handle, kind.id)?));
    }
    computes.sort_by_key(|compute: &Compute| compute.id);
    let instance = Instance {
        id: GpuInstanceId(info.id),
        profile: info.profileId,
        placement: Placement { start: info.placement.start, size: info.placement.size },
        computes,
        holders: Vec::new(),
    };
    Ok(Found { instance, offered })
}

/// The compute instances of one kind in a GPU instance.
pub(crate) fn compute_instances(
    calls: &Calls,
    instance: GpuInstance,
    kind: Kind,
) -> Result<Vec<ComputeInstance>, Answer> {
    calls
        .compute_instances(instance, kind.id, kind.most)
        .map_err(|cause| Answer { call: symbol::COMPUTE_INSTANCES.name, cause })
}

/// A compute instance of that kind.
pub(crate) fn compute_instance(
    calls: &Calls,
    handle: ComputeInstance,
    kind: Kind,
) -> Result<Compute, Answer> {
    let (info, _) = calls
        .compute_instance(handle)
        .map_err(|cause| Answer { call: symbol::COMPUTE_INSTANCE.name, cause })?;
    Ok(Compute {
        id: ComputeInstanceId(info.id),
        profile: kind.number,
        placement: Placement { start: info.placement.start, size: info.placement.size },
        holders: Vec::new(),
    })
}

fn profiles(
    calls: &Calls,
    device: Device,
    offers: Vec<Offer>,
    found: &[Found],
) -> Result<Vec<Profile>, Answer> {
    let total_bytes = total_bytes(calls, device, &offers)?;
    let profile = |offer: Offer| {
        let placements = offer::places(calls, device, offer.id)
            .map_err(|cause| Answer { call: symbol::GI_PLACEMENTS.name, cause })?;
        let (word, mib) = (offer.name.as_deref(), offer.memory_bytes >> 20);
        let name = names::profile(word, offer.number, offer.slices, mib, total_bytes);
        // The driver's own word, where there is an instance to ask.
        let told = found.iter().find(|found| found.instance.profile == offer.id);
        let compute_profiles = match told {
            Some(found) => offered(&found.offered, &name, offer.slices),
            None => derived(&name, offer.slices),
        };
        Ok(Profile {
            id: offer.id,
            name,
            slices: offer.slices,
            memory_bytes: offer.memory_bytes,
            multiprocessors: offer.multiprocessors,
            max_instances: offer.most,
            placements,
            engines: offer.engines,
            compute_profiles,
        })
    };
    offers.into_iter().map(profile).collect()
}

/// The whole memory of the GPU, where it is needed to name a profile: those of older drivers have no name.
fn total_bytes(calls: &Calls, device: Device, offers: &[Offer]) -> Result<u64, Answer> {
    if offers.iter().all(|offer| offer.name.is_some()) {
        return Ok(0);
    }
    let memory = calls.get(&symbol::MEMORY, device);
    memory.map(|memory| memory.total).map_err(|cause| Answer { call: symbol::MEMORY.name, cause })
}

/// Compute instance profiles as the driver tells them.
fn offered(told: &[(Kind, Option<Vec<Placement>>)], name: &str, slices: u32) -> Vec<ComputeProfile> {
    let plain = told.iter().filter(|(kind, _)| !DOUBLES.contains(&kind.number));
    plain
        .map(|(kind, placements)| ComputeProfile {
            id: kind.number,
            name: names::compute(kind.slices, name, slices),
            slices: kind.slices,
            max_instances: kind.most,
            placements: placements.clone(),
        })
        .collect()
}

/// Compute slices of each plain kind, by the number of the kind.
const SLICES: [u32; 7] = [1, 2, 3, 4, 7, 8, 6];

/// Compute instance profiles as they follow from the slices of the GPU instance, for the driver tells them of instances
/// that exist only: all of it, or at most half of it rounded up.
fn derived(name: &str, slices: u32) -> Vec<ComputeProfile> {
    let fits = |own: u32| own == slices || own < slices && 2 * own <= slices + 1;
    (0..)
        .zip(SLICES)
        .filter(|(_, own)| fits(*own))
        .map(|(number, own)| ComputeProfile {
            id: number,
            name: names::compute(own, name, slices),
            slices: own,
            max_instances: slices / own,
            placements: None,
        })
        .collect()
}

#[cfg(test)]
#[path = "division_tests.rs"]
mod tests;
