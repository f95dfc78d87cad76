//! What changed between two readings of the driver: what is worth a line in the log.

use std::collections::BTreeMap;

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::snapshot::{Driver, DriverDown, DriverInfo, GpuState, NodeGpus, UnlistedGpu};

/// Something that became different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Transition {
    /// The driver answers, or was opened again.
    DriverUp(DriverInfo),
    /// The driver does not answer, or for another reason than before.
    DriverDown(DriverDown),
    /// A GPU is there for the first time, or answers again.
    GpuUp { index: u32, uuid: GpuUuid },
    /// A GPU does not answer, or for another reason than before.
    GpuDown { index: u32, uuid: GpuUuid, reason: &'static str },
    /// A GPU does not say which it is, or for another reason than before.
    GpuUnnamed(UnlistedGpu),
    /// A GPU is not listed any more.
    GpuGone { index: u32, uuid: GpuUuid },
    /// An XID came, so many times.
    Xid { index: u32, uuid: GpuUuid, code: u32, times: u64 },
}

/// What became different from `before` to `after`. At the first reading everything did.
pub(crate) fn between(before: Option<&NodeGpus>, after: &NodeGpus) -> Vec<Transition> {
    let mut transitions: Vec<Transition> =
        driver(before.map(|node| &node.driver), &after.driver).into_iter().collect();
    // While the driver is down its GPUs are too, and one line says it all.
    let driver_is_down = after.driver.down_reason().is_some();
    let earlier: BTreeMap<&GpuUuid, &GpuState> =
        before.into_iter().flat_map(|node| &node.gpus).map(|state| (&state.gpu.uuid, state)).collect();
    for state in &after.gpus {
        let earlier = earlier.get(&state.gpu.uuid).copied();
        if !driver_is_down {
            transitions.extend(condition(earlier, state));
        }
        transitions.extend(xids(earlier, state));
    }
    transitions.extend(unnamed(before, after).map(Transition::GpuUnnamed));
    let listed = |uuid: &GpuUuid| after.gpus.iter().any(|state| &state.gpu.uuid == uuid);
    let gone = earlier.values().filter(|state| !listed(&state.gpu.uuid));
    transitions.extend(
        gone.map(|state| Transition::GpuGone { index: state.gpu.index, uuid: state.gpu.uuid.clone() }),
    );
    transitions
}

fn driver(before: Option<&Driver>, after: &Driver) -> Option<Transition> {
    match (before, after) {
        (Some(Driver::Up(old)), Driver::Up(new)) if old == new => None,
        (Some(Driver::Down(old)), Driver::Down(new)) if old.reason == new.reason => None,
        (_, Driver::Up(info)) => Some(Transition::DriverUp(info.clone())),
        (_, Driver::Down(down)) => Some(Transition::DriverDown(down.clone())),
    }
}

fn condition(before: Option<&GpuState>, after: &GpuState) -> Option<Transition> {
    let reason = after.condition.down_reason();
    let same = before.is_some_and(|before| before.condition.down_reason() == reason);
    let (index, uuid) = (after.gpu.index, after.gpu.uuid.clone());
    (!same).then_some(match reason {
        None => Transition::GpuUp { index, uuid },
        Some(reason) => Transition::GpuDown { index, uuid, reason },
    })
}

/// GPUs that do not say which they are, and did not for that reason before.
fn unnamed<'a>(before: Option<&'a NodeGpus>, after: &'a NodeGpus) -> impl Iterator<Item = UnlistedGpu> + 'a {
    let same = |one: &UnlistedGpu, other: &UnlistedGpu| {
        one.index == other.index && one.reason.reason() == other.reason.reason()
    };
    let earlier = before.map_or(&[][..], |node| &node.unlisted);
    after.unlisted.iter().filter(move |gpu| !earlier.iter().any(|one| same(one, gpu))).copied()
}

fn xids<'a>(before: Option<&'a GpuState>, after: &'a GpuState) -> impl Iterator<Item = Transition> + 'a {
    let earlier = before.and_then(|before| before.xids.value());
    after.xids.value().into_iter().flatten().filter_map(move |(code, count)| {
        let earlier = earlier.and_then(|xids| xids.get(code)).copied().unwrap_or(0);
        let times = count.saturating_sub(earlier);
        let (index, uuid) = (after.gpu.index, after.gpu.uuid.clone());
        (times > 0).then_some(Transition::Xid { index, uuid, code: *code, times })
    })
}

impl Transition {
    /// Logs it: what is well at `info`, what a person may have to act on at `warn`.
    pub(crate) fn log(&self) {
        match self {
            Self::DriverUp(info) => tracing::info!(
                driver_version = info.driver_version,
                library = info.library,
                epoch = info.epoch,
                "the driver is open"
            ),
            Self::DriverDown(down) => tracing::warn!(
                reason = down.reason,
                detail = down.message,
                remedy = down.remedy,
                "the driver is down"
            ),
            Self::GpuUp { index, uuid } => tracing::info!(gpu = index, %uuid, "the GPU answers"),
            Self::GpuDown { index, uuid, reason } => {
                tracing::warn!(gpu = index, %uuid, reason, "the GPU does not answer");
            }
            Self::GpuUnnamed(UnlistedGpu { index, pci, reason }) => tracing::warn!(
                gpu = index,
                pci = pci.map(tracing::field::display),
                reason = reason.reason(),
                call = reason.call(),
                "the GPU does not say which it is"
            ),
            Self::GpuGone { index, uuid } => {
                tracing::warn!(gpu = index, %uuid, "the GPU is not listed any more")
            }
            Self::Xid { index, uuid, code, times } => {
                tracing::warn!(gpu = index, %uuid, xid = code, times, "the GPU reported an error");
            }
        }
    }
}

#[cfg(test)]
mod tests;
