//! What holds for a GPU as a whole: MIG mode, and persistence mode.

use gpulet_inventory::reading::Answer;

use super::lookup::Changing;
use super::{ChangeError, Changed, PutOff};
use crate::code;
use crate::plausible::number;
use crate::raw::handle::Device;
use crate::raw::{field, symbol};
use crate::read::division;
use crate::read::fields::RESETLESS_MIG;
use crate::read::slow::enabled;

/// Turns MIG mode on or off. One that is as wanted, now and after a reset, sees no changing call.
pub(super) fn set_mig_mode(changing: Changing<'_>, device: Device, on: bool) -> Result<Changed, ChangeError> {
    let call = symbol::SET_MIG_MODE.name;
    let mode = division::mode(changing.calls, device).map_err(|answer| changing.answered(answer))?;
    if mode.is_some_and(|mode| mode.current == on && mode.pending == on) {
        return Ok(Changed::default());
    }
    let activation = changing.calls.set_mig_mode(device, on).map_err(|cause| changing.told(call, cause))?;
    let Some(cause) = activation else { return Ok(Changed::default()) };
    let answer = Answer { call, cause };
    // A GPU that needs no reset for it has nothing to wait for: the driver leaves it as it is, and reports success.
    let mode = division::mode(changing.calls, device).ok().flatten();
    if mode.is_some_and(|mode| mode.pending != on) {
        return Err(changing.answered(answer));
    }
    Ok(Changed { put_off: Some(PutOff { gpu: changing.gpu.clone(), answer }) })
}

/// Whether persistence mode is on; absent where the GPU has none.
pub(crate) fn persistence(changing: Changing<'_>, device: Device) -> Result<Option<bool>, ChangeError> {
    match changing.calls.get(&symbol::PERSISTENCE_MODE, device).and_then(enabled) {
        Ok(on) => Ok(Some(on)),
        Err(cause) if code::is_unsupported(cause) => Ok(None),
        Err(cause) => Err(changing.told(symbol::PERSISTENCE_MODE.name, cause)),
    }
}

/// Turns persistence mode on or off. One that is as wanted sees no changing call.
pub(super) fn set_persistence(
    changing: Changing<'_>,
    device: Device,
    on: bool,
) -> Result<Changed, ChangeError> {
    if persistence(changing, device)? == Some(on) {
        return Ok(Changed::default());
    }
    let outcome = changing.calls.set_persistence_mode(device, on);
    outcome.map_err(|cause| changing.told(symbol::SET_PERSISTENCE_MODE.name, cause))?;
    Ok(Changed::default())
}

/// Whether MIG mode changes without a reset; absent where this driver does not tell.
pub(crate) fn is_resetless(changing: Changing<'_>, device: Device) -> Result<Option<bool>, ChangeError> {
    let mut entries = [field::request(RESETLESS_MIG.id, 0)];
    let whole = changing.calls.fields(device, &mut entries);
    let [entry] = entries;
    let value = whole.and_then(|()| field::number(&entry, RESETLESS_MIG.as_u32));
    match value.and_then(|value| number(u32::try_from(value).unwrap_or(1))) {
        Ok(value) => Ok(Some(value != 0)),
        Err(cause) if code::is_unsupported(cause) || cause == gpulet_inventory::reading::Cause::Blank => {
            Ok(None)
        }
        Err(cause) => Err(changing.told(RESETLESS_MIG.name, cause)),
    }
}
