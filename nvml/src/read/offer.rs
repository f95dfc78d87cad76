//! What a GPU can be divided into, and a GPU instance: profiles, asked from the driver each time.

use gpulet_inventory::mig::Placement;
use gpulet_inventory::reading::{Answer, Cause};
use gpulet_partition::observed::Engines;

use crate::code;
use crate::constants::{COMPUTE_INSTANCE_PROFILE_COUNT, GPU_INSTANCE_PROFILE_COUNT};
use crate::raw::calls::Calls;
use crate::raw::handle::{Device, GpuInstance};
use crate::raw::plain::text;
use crate::raw::symbol;

/// A GPU instance profile that a GPU offers, its placements aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Which kind (`NVML_GPU_INSTANCE_PROFILE_*`).
    pub(crate) number: u32,
    /// The driver's id on this GPU.
    pub(crate) id: u32,
    /// The driver's name without its `MIG ` prefix; absent before the driver that names them.
    pub(crate) name: Option<String>,
    /// Compute slices.
    pub(crate) slices: u32,
    /// Memory, bytes.
    pub(crate) memory_bytes: u64,
    /// Streaming multiprocessors.
    pub(crate) multiprocessors: u32,
    /// How many fit on an empty GPU.
    pub(crate) most: u32,
    /// Engines that an instance has for itself.
    pub(crate) engines: Engines,
}

/// A compute instance profile of a GPU instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    /// Which kind (`NVML_COMPUTE_INSTANCE_PROFILE_*`), the same on all GPUs.
    pub(crate) number: u32,
    /// The driver's id for it in this GPU instance.
    pub(crate) id: u32,
    /// Compute slices.
    pub(crate) slices: u32,
    /// How many fit in an empty GPU instance.
    pub(crate) most: u32,
}

/// The driver describes a profile in three forms, which are three types with these fields in common.
macro_rules! offer_from {
    ($number:expr, $info:expr, $name:expr) => {
        Offer {
            number: $number,
            id: $info.id,
            name: $name,
            slices: $info.sliceCount,
            memory_bytes: $info.memorySizeMB << 20,
            multiprocessors: $info.multiprocessorCount,
            most: $info.instanceCount,
            engines: Engines {
                decoders: $info.decoderCount,
                encoders: $info.encoderCount,
                jpeg: $info.jpegCount,
                optical_flow: $info.ofaCount,
            },
        }
    };
}

/// The GPU instance profile of that kind, by the newest form that the driver knows. Only the first lacks the name.
pub(crate) fn offer(calls: &Calls, device: Device, number: u32) -> Result<Offer, Cause> {
    let other_version = Cause::Code(code::ARGUMENT_VERSION_MISMATCH);
    let outcome = match calls.gpu_profile_v3(device, number) {
        Ok(info) => return Ok(offer_from!(number, info, name(&info.name))),
        Err(cause) if cause == other_version => {
            calls.gpu_profile_v2(device, number).map(|info| offer_from!(number, info, name(&info.name)))
        }
        Err(cause) => Err(cause),
    };
    let old = |cause: &Cause| {
        *cause == other_version || matches!(cause, Cause::NoSymbol | Cause::Code(code::FUNCTION_NOT_FOUND))
    };
    match outcome {
        Err(cause) if old(&cause) => {
            calls.get_at(&symbol::GI_PROFILE, device, number).map(|info| offer_from!(number, info, None))
        }
        outcome => outcome,
    }
}

/// All GPU instance profiles that the GPU offers now; none by drivers up to 535 while MIG mode is off.
pub(crate) fn offers(calls: &Calls, device: Device) -> Result<Vec<Offer>, Answer> {
    let mut offers = Vec::new();
    for number in 0..GPU_INSTANCE_PROFILE_COUNT {
        match offer(calls, device, number) {
            Ok(offer) => offers.push(offer),
            Err(cause) if code::is_unsupported(cause) => {}
            Err(cause) => return Err(Answer { call: symbol::GI_PROFILE_V.name, cause }),
        }
    }
    Ok(offers)
}

/// Every place where a GPU instance of a profile can lie on an empty GPU.
pub(crate) fn places(calls: &Calls, device: Device, profile_id: u32) -> Result<Vec<Placement>, Cause> {
    let raw = calls.list_at(&symbol::GI_PLACEMENTS, device, profile_id)?;
    Ok(raw.into_iter().map(|place| Placement { start: place.start, size: place.size }).collect())
}

/// All compute instance profiles of a GPU instance. Where two kinds have the same id, the plain one comes first and
/// stands for both.
pub(crate) fn kinds(calls: &Calls, instance: GpuInstance) -> Result<Vec<Kind>, Answer> {
    let mut kinds: Vec<Kind> = Vec::new();
    for number in 0..COMPUTE_INSTANCE_PROFILE_COUNT {
        match calls.compute_profile(instance, number) {
            Ok(info) if kinds.iter().any(|known| known.id == info.id) => {}
            Ok(info) => {
                let (slices, most) = (info.sliceCount, info.instanceCount);
                kinds.push(Kind { number, id: info.id, slices, most });
            }
            Err(cause) if code::is_unsupported(cause) => {}
            Err(cause) => return Err(Answer { call: symbol::CI_PROFILE.name, cause }),
        }
    }
    Ok(kinds)
}

/// Every place where a compute instance of a profile can lie in an empty GPU instance; absent where the driver is too old
/// to tell.
pub(crate) fn compute_places(
    calls: &Calls,
    instance: GpuInstance,
    profile_id: u32,
) -> Result<Option<Vec<Placement>>, Answer> {
    match calls.list_at(&symbol::CI_PLACEMENTS, instance, profile_id) {
        Ok(raw) => {
            Ok(Some(raw.iter().map(|place| Placement { start: place.start, size: place.size }).collect()))
        }
        Err(cause) if code::is_unsupported(cause) => Ok(None),
        Err(cause) => Err(Answer { call: symbol::CI_PLACEMENTS.name, cause }),
    }
}

/// The driver writes `MIG 1g.10gb`.
fn name(buffer: &[std::ffi::c_char]) -> Option<String> {
    let text = text(buffer);
    let name = text.strip_prefix("MIG ").unwrap_or(&text).trim();
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_prefix_is_not_part_of_the_name() {
        let buffer = |text: &str| text.bytes().map(|byte| byte as std::ffi::c_char).collect::<Vec<_>>();
        assert_eq!(name(&buffer("MIG 1g.10gb+me")).as_deref(), Some("1g.10gb+me"));
        assert_eq!(name(&buffer("1g.10gb")).as_deref(), Some("1g.10gb"));
        assert_eq!(name(&[0; 96]), None);
    }
}
