//! Registration with the NVSwitch fabric.

use std::fmt::Write;

use gpulet_inventory::reading::{Cause, Reading};
use gpulet_inventory::sample::Fabric;

use super::{Asked, or};
use crate::raw::symbol;

/// `NVML_GPU_FABRIC_STATE_COMPLETED`
const COMPLETED: u32 = 3;

/// By the versioned call, or by its predecessor (drivers before 545).
pub(crate) fn read(asked: &mut Asked<'_>) -> Reading<Fabric> {
    let versioned = asked.ask(symbol::FABRIC_V.name, 0, |calls, device| {
        let info = calls.fabric_v2(device)?;
        fabric(u32::from(info.state), info.status, info.cliqueId, &info.clusterUuid)
    });
    or(versioned, || {
        asked.get(&symbol::FABRIC, |info| {
            fabric(u32::from(info.state), info.status, info.cliqueId, &info.clusterUuid)
        })
    })
}

fn fabric(state: u32, status: u32, clique_id: u32, uuid: &[u8; 16]) -> Result<Fabric, Cause> {
    if state > COMPLETED {
        return Err(Cause::Implausible);
    }
    let completed = state == COMPLETED;
    Ok(Fabric {
        state,
        status,
        clique_id: completed.then_some(clique_id),
        cluster_uuid: (completed && uuid.iter().any(|byte| *byte != 0)).then(|| dashed(uuid)),
    })
}

/// In the usual groups.
fn dashed(uuid: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in uuid.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_complete_registration_has_a_clique() {
        let uuid: [u8; 16] = std::array::from_fn(|at| at as u8);
        let complete = fabric(3, 0, 0, &uuid).unwrap();
        assert_eq!(complete.clique_id, Some(0));
        assert_eq!(complete.cluster_uuid.as_deref(), Some("00010203-0405-0607-0809-0a0b0c0d0e0f"));
        let running = fabric(2, 0, 7, &uuid).unwrap();
        assert_eq!((running.clique_id, running.cluster_uuid), (None, None));
        assert_eq!(fabric(3, 0, 0, &[0; 16]).unwrap().cluster_uuid, None);
        assert_eq!(fabric(9, 0, 0, &uuid), Err(Cause::Implausible));
    }
}
