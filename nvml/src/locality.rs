//! The driver's view of where its GPUs sit, put together from what each of them answered. Pure.

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::locality::{DriverLocality, GpuLocality, Level};
use gpulet_inventory::reading::{Cause, Reading};

use crate::member::{Seen, Status};
use crate::read::locality::{GpuAnswers, unasked_level};

/// One GPU of the view.
#[derive(Debug)]
pub(crate) struct Listed<'a> {
    /// Which.
    pub(crate) uuid: &'a GpuUuid,
    /// How it is.
    pub(crate) seen: &'a Seen,
    /// What it answered.
    pub(crate) answers: Option<&'a GpuAnswers>,
}

/// The view of these GPUs, which are in the driver's order. Of each pair the first was asked about the second.
pub(crate) fn of_epoch(gpus: &[Listed<'_>]) -> DriverLocality {
    let one = |gpu: &Listed<'_>| {
        let answers = gpu.answers.cloned().unwrap_or_else(|| GpuAnswers::none(why_absent(gpu.seen)));
        GpuLocality {
            uuid: gpu.uuid.clone(),
            cpu_affinity: answers.cpu_affinity,
            memory_affinity: answers.memory_affinity,
            own_numa_node: answers.own_numa_node,
            c2c_links: answers.c2c_links,
            levels: gpus.iter().map(|other| level(gpu, other)).collect(),
        }
    };
    DriverLocality { gpus: gpus.iter().map(one).collect() }
}

fn level(one: &Listed<'_>, other: &Listed<'_>) -> Reading<Level> {
    if one.seen.index == other.seen.index {
        return Reading::Supported(Level::Same);
    }
    let (first, second) = if one.seen.index < other.seen.index { (one, other) } else { (other, one) };
    let answered = first.answers.and_then(|answers| answers.levels.get(&second.seen.index));
    answered.cloned().unwrap_or_else(|| {
        let blamed = if matches!(first.seen.status, Status::Up(_)) { second } else { first };
        unasked_level(why_absent(blamed.seen))
    })
}

/// Why a GPU has no answers yet.
fn why_absent(seen: &Seen) -> Cause {
    match &seen.status {
        Status::Refused(answer) => answer.cause,
        Status::Stuck { .. } => Cause::Busy,
        Status::Up(_) | Status::NotYet => Cause::TimedOut,
    }
}
