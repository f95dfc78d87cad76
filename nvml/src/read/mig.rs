//! MIG: mode, profiles, placements, and the instances that exist.

use std::collections::BTreeMap;

use gpulet_inventory::mig::{
    ComputeInstance, ComputeInstanceId, GpuInstance, GpuInstanceId, MigMode, MigProfile, MigState, Placement,
};
use gpulet_inventory::reading::{Answer, Cause, Reading};

use super::Asked;
use super::offer::{Offer, kinds, offer, places};
use super::slow::enabled;
use crate::code;
use crate::constants::GPU_INSTANCE_PROFILE_COUNT;
use crate::raw::{handle, symbol};

/// Reads the division of one GPU, and keeps what stays while its configuration does.
pub(crate) struct MigReader {
    mode: Option<MigMode>,
    profiles: Option<Vec<MigProfile>>,
    /// Compute instance profiles, and how many of each fit, by GPU instance profile.
    compute_profiles: BTreeMap<u32, Vec<(u32, u32)>>,
}

impl MigReader {
    /// Nothing known yet.
    pub(crate) fn new() -> Self {
        Self { mode: None, profiles: None, compute_profiles: BTreeMap::new() }
    }

    /// Reads all of it. A GPU that cannot be divided is unsupported.
    pub(crate) fn read(&mut self, asked: &mut Asked<'_>) -> Reading<MigState> {
        let mode = asked.ask(symbol::MIG_MODE.name, 0, |calls, device| {
            let (current, pending) = calls.get_two(&symbol::MIG_MODE, device)?;
            Ok(MigMode { current: enabled(current)?, pending: enabled(pending)? })
        });
        let mode = match mode {
            Reading::Supported(mode) => mode,
            Reading::Unsupported(answer) => return Reading::Unsupported(answer),
            Reading::Failed(answer) => return Reading::Failed(answer),
        };
        if self.mode.is_some_and(|known| known != mode) {
            // Much that was refused in the other mode is answered in this one, and the other way round.
            asked.capabilities.clear();
            *self = Self::new();
        }
        self.mode = Some(mode);
        let profiles = self.profiles(asked);
        let instances = match &profiles {
            Reading::Supported(profiles) if mode.current => self.instances(asked, profiles),
            Reading::Supported(_) => Reading::Supported(Vec::new()),
            Reading::Unsupported(answer) => Reading::Unsupported(*answer),
            Reading::Failed(answer) => Reading::Failed(*answer),
        };
        Reading::Supported(MigState { mode, profiles, instances })
    }

    /// The profiles on offer, which stay while the mode does.
    fn profiles(&mut self, asked: &mut Asked<'_>) -> Reading<Vec<MigProfile>> {
        if let Some(profiles) = &self.profiles {
            return Reading::Supported(profiles.clone());
        }
        let (mut profiles, mut refusal) = (Vec::new(), None);
        for number in 0..GPU_INSTANCE_PROFILE_COUNT {
            match asked.ask(symbol::GI_PROFILE_V.name, number, |calls, device| offer(calls, device, number)) {
                Reading::Supported(offer) => profiles.push(profile(offer)),
                Reading::Unsupported(answer) => refusal = refusal.or(Some(answer)),
                Reading::Failed(answer) => return Reading::Failed(answer),
            }
        }
        // Drivers up to 535 tell the profiles in MIG mode only.
        if let (true, Some(answer)) = (profiles.is_empty(), refusal) {
            return Reading::Unsupported(answer);
        }
        for profile in &mut profiles {
            profile.placements = placements(asked, profile.id);
        }
        if !profiles.iter().any(|profile| matches!(profile.placements, Reading::Failed(_))) {
            self.profiles = Some(profiles.clone());
        }
        Reading::Supported(profiles)
    }

    /// The instances that exist, in the order of their numbers.
    fn instances(&mut self, asked: &mut Asked<'_>, profiles: &[MigProfile]) -> Reading<Vec<GpuInstance>> {
        let mut instances = Vec::new();
        for profile in profiles {
            let handles = match asked.ask(symbol::GPU_INSTANCES.name, profile.id, |calls, device| {
                calls.gpu_instances(device, profile.id, profile.max_instances)
            }) {
                Reading::Supported(handles) => handles,
                Reading::Unsupported(_) => continue,
                Reading::Failed(answer) => return Reading::Failed(answer),
            };
            for handle in handles {
                match self.instance(asked, handle) {
                    Ok(instance) => instances.push(instance),
                    // Destroyed since it was listed.
                    Err(Answer { cause: Cause::Code(code::NOT_FOUND | code::INVALID_ARGUMENT), .. }) => {}
                    Err(answer) => return Reading::Failed(answer),
                }
            }
        }
        instances.sort_by_key(|instance| instance.id);
        Reading::Supported(instances)
    }

    fn instance(&mut self, asked: &Asked<'_>, handle: handle::GpuInstance) -> Result<GpuInstance, Answer> {
        let info = named(symbol::GPU_INSTANCE.name, asked.calls.get(&symbol::GPU_INSTANCE, handle))?;
        let mut compute_instances = Vec::new();
        for (profile, most) in self.compute_profiles(asked, handle, info.profileId)? {
            let call = symbol::COMPUTE_INSTANCES.name;
            for compute in named(call, asked.calls.compute_instances(handle, profile, most))? {
                compute_instances.push(compute_instance(asked, compute)?);
            }
        }
        compute_instances.sort_by_key(|instance| instance.id);
        Ok(GpuInstance {
            id: GpuInstanceId(info.id),
            profile_id: info.profileId,
            placement: Placement { start: info.placement.start, size: info.placement.size },
            compute_instances,
        })
    }

    /// The compute instance profiles of a GPU instance profile, asked once.
    fn compute_profiles(
        &mut self,
        asked: &Asked<'_>,
        instance: handle::GpuInstance,
        profile_id: u32,
    ) -> Result<Vec<(u32, u32)>, Answer> {
        if let Some(known) = self.compute_profiles.get(&profile_id) {
            return Ok(known.clone());
        }
        let kinds = kinds(asked.calls, instance)?;
        let ids: Vec<(u32, u32)> = kinds.into_iter().map(|kind| (kind.id, kind.most)).collect();
        self.compute_profiles.insert(profile_id, ids.clone());
        Ok(ids)
    }
}

fn compute_instance(asked: &Asked<'_>, handle: handle::ComputeInstance) -> Result<ComputeInstance, Answer> {
    let (info, device) = named(symbol::COMPUTE_INSTANCE.name, asked.calls.compute_instance(handle))?;
    Ok(ComputeInstance {
        id: ComputeInstanceId(info.id),
        profile_id: info.profileId,
        uuid: asked.calls.text(&symbol::UUID, device).ok().filter(|uuid| !uuid.is_empty()),
    })
}

fn named<T>(call: &'static str, outcome: Result<T, Cause>) -> Result<T, Answer> {
    outcome.map_err(|cause| Answer { call, cause })
}

fn profile(offer: Offer) -> MigProfile {
    MigProfile {
        id: offer.id,
        name: offer.name,
        slices: offer.slices,
        memory_bytes: offer.memory_bytes,
        multiprocessors: offer.multiprocessors,
        max_instances: offer.most,
        placements: no_placements(),
    }
}

/// Until they are asked for.
fn no_placements() -> Reading<Vec<Placement>> {
    Reading::Failed(Answer { call: symbol::GI_PLACEMENTS.name, cause: Cause::NotOpen })
}

fn placements(asked: &mut Asked<'_>, profile_id: u32) -> Reading<Vec<Placement>> {
    asked.ask(symbol::GI_PLACEMENTS.name, profile_id, |calls, device| places(calls, device, profile_id))
}
