//! The list of GPUs in a snapshot, put together from what is known of each. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::reading::{Answer, Cause, Reading};
use gpulet_inventory::snapshot::{Condition, DownReason, GpuState, UnlistedGpu};

use crate::code::{self, down_reason};
use crate::events::Xids;
use crate::member::{Seen, Status};
use crate::raw::symbol;

/// What is known of XIDs, by GPU.
type AllXids = BTreeMap<GpuUuid, Xids>;

/// GPUs of an open driver, in its order. One that has not said what it is keeps the identity that its number had
/// before, if no other has that now; one that is not known from before either is told of by [`unlisted`].
pub(crate) fn of_epoch<'a>(
    seen: impl Iterator<Item = &'a Seen> + Clone,
    before: &[GpuState],
    xids: &AllXids,
    now: Instant,
) -> Vec<GpuState> {
    let taken =
        |uuid: &GpuUuid| seen.clone().filter_map(|seen| seen.gpu.as_ref()).any(|gpu| gpu.uuid == *uuid);
    seen.clone()
        .filter_map(|seen| {
            let inherited = || {
                before.iter().map(|state| &state.gpu).find(|gpu| gpu.index == seen.index && !taken(&gpu.uuid))
            };
            let gpu = seen.gpu.as_ref().or_else(inherited)?;
            let last_heard =
                before.iter().find(|state| state.gpu.uuid == gpu.uuid).map(|state| state.sampled);
            let (condition, sample) = match &seen.status {
                Status::Up(sample) => (Condition::Up, Some(Arc::clone(sample))),
                down => (Condition::Down(why_down(down)), None),
            };
            Some(GpuState {
                sampled: if sample.is_some() { seen.asked } else { last_heard.unwrap_or(now) },
                took: seen.took,
                xids: xids_of(xids, &gpu.uuid, Cause::TimedOut),
                gpu: Arc::clone(gpu),
                condition,
                sample,
            })
        })
        .collect()
}

/// GPUs of an open driver that are not among those listed, in its order.
pub(crate) fn unlisted<'a>(seen: impl Iterator<Item = &'a Seen>, listed: &[GpuState]) -> Vec<UnlistedGpu> {
    let is_listed = |seen: &&Seen| listed.iter().any(|state| state.gpu.index == seen.index);
    seen.filter(|seen| !is_listed(seen))
        .map(|seen| UnlistedGpu { index: seen.index, pci: seen.pci, reason: why_down(&seen.status) })
        .collect()
}

/// Why there are no readings. That there are some is said elsewhere.
fn why_down(status: &Status) -> DownReason {
    match status {
        Status::Refused(answer) => down_reason(*answer),
        Status::Stuck { call, since } => DownReason::Unresponsive { call, since: *since },
        Status::NotYet | Status::Up(_) => {
            DownReason::Failed(Answer { call: symbol::HANDLE.name, cause: Cause::TimedOut })
        }
    }
}

/// The XIDs of a GPU. One that has not been listened to has none that could be counted, for this cause.
fn xids_of(xids: &AllXids, gpu: &GpuUuid, cause: Cause) -> Reading<BTreeMap<u32, u64>> {
    let unheard = Reading::Failed(Answer { call: symbol::EVENT_REGISTER.name, cause });
    xids.get(gpu).map_or(unheard, Xids::reading)
}

/// The GPUs known from before, while the driver is not open.
pub(crate) fn of_no_driver(before: &[GpuState], xids: &AllXids) -> Vec<GpuState> {
    let down = |state: &GpuState| GpuState {
        gpu: Arc::clone(&state.gpu),
        condition: Condition::Down(DownReason::DriverDown),
        sample: None,
        sampled: state.sampled,
        took: Duration::ZERO,
        xids: xids_of(xids, &state.gpu.uuid, Cause::NotOpen),
    };
    before.iter().map(down).collect()
}

/// Whether the driver as a whole is gone: every GPU that answers at all refuses, and not because each of them waits
/// for a reset, which opening the driver anew would not bring.
pub(crate) fn is_gone<'a>(seen: impl Iterator<Item = &'a Seen>) -> bool {
    let mut gone = false;
    for seen in seen {
        match &seen.status {
            Status::Up(_) | Status::NotYet => return false,
            Status::Stuck { .. }
            | Status::Refused(Answer { cause: Cause::Code(code::RESET_REQUIRED), .. }) => {}
            Status::Refused(_) => gone = true,
        }
    }
    gone
}

#[cfg(test)]
mod tests {
    use gpulet_inventory::gpu::{Gpu, MaxClocks, PcieMax};
    use gpulet_inventory::pci::PciAddress;
    use gpulet_inventory::reading::Reading;

    use super::*;

    fn refused(code: u32) -> Status {
        Status::Refused(Answer { call: "nvmlDeviceGetUUID", cause: Cause::Code(code) })
    }

    fn stuck() -> Status {
        Status::Stuck { call: "nvmlDeviceGetPowerUsage", since: Duration::from_secs(3) }
    }

    fn gpu(index: u32, number: u32) -> Arc<Gpu> {
        let none = Answer { call: "", cause: Cause::NoSymbol };
        Arc::new(Gpu {
            index,
            uuid: format!("GPU-{number:08x}-0000-0000-0000-000000000000").parse().unwrap(),
            pci: PciAddress { domain: 0, bus: 1, device: 0, function: 0 },
            minor: Reading::Unsupported(none),
            name: Reading::Unsupported(none),
            serial: Reading::Unsupported(none),
            vbios: Reading::Unsupported(none),
            architecture: Reading::Unsupported(none),
            compute_capability: Reading::Unsupported(none),
            pcie_max: PcieMax { generation: Reading::Unsupported(none), width: Reading::Unsupported(none) },
            max_clock: MaxClocks {
                graphics: Reading::Unsupported(none),
                sm: Reading::Unsupported(none),
                memory: Reading::Unsupported(none),
                video: Reading::Unsupported(none),
            },
        })
    }

    fn seen(index: u32, gpu: Option<Arc<Gpu>>, status: Status, now: Instant) -> Seen {
        Seen { index, pci: None, gpu, status, asked: now, took: Duration::from_millis(1) }
    }

    fn names(states: &[GpuState]) -> Vec<(u32, Option<&'static str>)> {
        states.iter().map(|state| (state.gpu.index, state.condition.down_reason())).collect()
    }

    #[test]
    fn the_driver_is_gone_when_all_that_answer_refuse() {
        let now = Instant::now();
        let gone = |statuses: Vec<Status>| {
            let seen: Vec<_> = statuses.into_iter().map(|status| seen(0, None, status, now)).collect();
            is_gone(seen.iter())
        };
        assert!(gone(vec![refused(code::UNINITIALIZED), refused(code::UNINITIALIZED)]));
        assert!(gone(vec![refused(code::DRIVER_NOT_LOADED), refused(code::GPU_IS_LOST)]));
        assert!(gone(vec![refused(999), stuck()]), "one that hangs does not speak for the driver");
        assert!(gone(vec![refused(code::UNINITIALIZED), refused(code::RESET_REQUIRED)]));
        assert!(!gone(vec![refused(code::UNINITIALIZED), Status::NotYet]));
        assert!(!gone(vec![refused(code::RESET_REQUIRED), refused(code::RESET_REQUIRED)]));
        assert!(!gone(vec![stuck(), stuck()]));
        assert!(!gone(vec![]));
    }

    #[test]
    fn a_gpu_that_cannot_be_taken_keeps_the_name_that_its_number_had() {
        let now = Instant::now();
        let first =
            [seen(0, Some(gpu(0, 10)), refused(999), now), seen(1, Some(gpu(1, 11)), refused(999), now)];
        let before = of_epoch(first.iter(), &[], &AllXids::new(), now);
        let second =
            [seen(0, Some(gpu(0, 10)), refused(999), now), seen(1, None, refused(code::GPU_IS_LOST), now)];
        let after = of_epoch(second.iter(), &before, &AllXids::new(), now);
        assert_eq!(names(&after), [(0, Some("Failed")), (1, Some("Lost"))]);
        assert_eq!(after[1].gpu.uuid, before[1].gpu.uuid);
    }

    #[test]
    fn a_name_that_another_has_now_is_not_given_twice() {
        let now = Instant::now();
        let first =
            [seen(0, Some(gpu(0, 10)), refused(999), now), seen(1, Some(gpu(1, 11)), refused(999), now)];
        let before = of_epoch(first.iter(), &[], &AllXids::new(), now);
        // The driver numbers anew: what was 1 is 0 now, and the other one cannot be taken.
        let second = [seen(0, Some(gpu(0, 11)), refused(999), now), seen(1, None, refused(15), now)];
        let after = of_epoch(second.iter(), &before, &AllXids::new(), now);
        assert_eq!(names(&after), [(0, Some("Failed"))]);
        let unlisted = unlisted(second.iter(), &after);
        assert_eq!(
            unlisted.iter().map(|gpu| (gpu.index, gpu.reason.reason())).collect::<Vec<_>>(),
            [(1, "Lost")]
        );
    }

    #[test]
    fn gpus_of_a_driver_that_is_gone_stay_and_so_do_their_xids() {
        let now = Instant::now();
        let first = [seen(0, Some(gpu(0, 10)), stuck(), now)];
        let heard = Xids { counts: BTreeMap::from([(79, 1)]), refused: None };
        let xids = AllXids::from([(gpu(0, 10).uuid.clone(), heard)]);
        let before = of_epoch(first.iter(), &[], &xids, now);
        let after = of_no_driver(&before, &xids);
        assert_eq!(names(&after), [(0, Some("DriverDown"))]);
        assert_eq!(after[0].xids, Reading::Supported(BTreeMap::from([(79, 1)])));
        assert_eq!(after[0].sampled, now);
    }
}
