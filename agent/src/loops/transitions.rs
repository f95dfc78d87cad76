//! What changed between two readings of the driver: what is worth a line in the log.

mod log;

use std::collections::BTreeMap;
use std::sync::Arc;

use gpulet_inventory::gpu::{Gpu, GpuUuid};
use gpulet_inventory::snapshot::{
    Condition, DownReason, Driver, DriverDown, DriverInfo, GpuState, NodeGpus, UnlistedGpu,
};

/// Something that became different.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Transition {
    /// The driver answers, or was opened again.
    DriverUp(DriverInfo),
    /// The driver does not answer, or for another reason than before.
    DriverDown(DriverDown),
    /// A GPU is there for the first time, or answers again.
    GpuUp(Arc<Gpu>),
    /// A GPU does not answer, or for another reason than before.
    GpuDown { gpu: Arc<Gpu>, reason: DownReason },
    /// A GPU does not say which it is, or for another reason than before.
    GpuUnnamed(UnlistedGpu),
    /// A GPU is not listed any more.
    GpuGone(Arc<Gpu>),
    /// An XID came, so many times.
    Xid { gpu: Arc<Gpu>, code: u32, times: u64 },
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
    transitions.extend(gone.map(|state| Transition::GpuGone(Arc::clone(&state.gpu))));
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
    let word = after.condition.down_reason();
    let same = before.is_some_and(|before| before.condition.down_reason() == word);
    let gpu = Arc::clone(&after.gpu);
    (!same).then_some(match after.condition {
        Condition::Up => Transition::GpuUp(gpu),
        Condition::Down(reason) => Transition::GpuDown { gpu, reason },
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
        (times > 0).then(|| Transition::Xid { gpu: Arc::clone(&after.gpu), code: *code, times })
    })
}

#[cfg(test)]
mod tests;
