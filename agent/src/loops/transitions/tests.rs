//! Each transition, and that a steady state has none.

use std::time::{Duration, Instant};

use gpulet_inventory::gpu::{MaxClocks, PcieMax};
use gpulet_inventory::reading::{Answer, Cause, Reading};
use gpulet_inventory::snapshot::CallStats;

use super::*;

fn up(epoch: u64) -> Driver {
    Driver::Up(DriverInfo {
        driver_version: "580.1".into(),
        nvml_version: "13.580.1".into(),
        cuda_version: None,
        library: "libnvidia-ml.so.1".into(),
        epoch,
    })
}

fn down(reason: &'static str, message: &str) -> Driver {
    Driver::Down(DriverDown { reason, message: message.into(), remedy: "wait".into() })
}

fn unknown<T>() -> Reading<T> {
    Reading::Unsupported(Answer { call: "nvmlX", cause: Cause::Code(3) })
}

fn gpu(index: u32, condition: Condition, xids: &[(u32, u64)]) -> GpuState {
    let uuid = format!("GPU-00000000-0000-0000-0000-{index:012}").parse().unwrap();
    let gpu = Gpu {
        index,
        uuid,
        pci: "0000:01:00.0".parse().unwrap(),
        minor: unknown(),
        name: unknown(),
        serial: unknown(),
        vbios: unknown(),
        architecture: unknown(),
        compute_capability: unknown(),
        pcie_max: PcieMax { generation: unknown(), width: unknown() },
        max_clock: MaxClocks { graphics: unknown(), sm: unknown(), memory: unknown(), video: unknown() },
    };
    GpuState {
        gpu: Arc::new(gpu),
        condition,
        sample: None,
        sampled: Instant::now(),
        took: Duration::ZERO,
        xids: Reading::Supported(xids.iter().copied().collect()),
    }
}

fn node(driver: Driver, gpus: Vec<GpuState>) -> NodeGpus {
    NodeGpus { driver, gpus, unlisted: Vec::new(), calls: CallStats::default() }
}

const UNRESPONSIVE: Condition =
    Condition::Down(DownReason::Unresponsive { call: "nvmlX", since: Duration::from_secs(3) });
const LONGER: Condition =
    Condition::Down(DownReason::Unresponsive { call: "nvmlX", since: Duration::from_secs(4) });

#[test]
fn a_steady_state_is_silent() {
    let first = node(up(1), vec![gpu(0, Condition::Up, &[(43, 2)]), gpu(1, UNRESPONSIVE, &[])]);
    assert_eq!(between(None, &first).len(), 4, "the driver, two GPUs, one XID");
    assert_eq!(between(Some(&first), &first), []);
    let later = node(up(1), vec![gpu(0, Condition::Up, &[(43, 2)]), gpu(1, LONGER, &[])]);
    assert_eq!(between(Some(&first), &later), [], "that it takes longer is nothing new");
    let (one, two) = (node(down("NotThere", "try 1"), vec![]), node(down("NotThere", "try 2"), vec![]));
    assert_eq!(between(Some(&one), &two), []);
}

#[test]
fn each_change_is_told() {
    let before = node(
        up(1),
        vec![gpu(0, Condition::Up, &[(43, 2)]), gpu(1, UNRESPONSIVE, &[]), gpu(2, Condition::Up, &[])],
    );
    let after = node(up(2), vec![gpu(0, UNRESPONSIVE, &[(43, 5), (79, 1)]), gpu(1, Condition::Up, &[])]);
    let told = between(Some(&before), &after);
    let gpu = |index: usize| Arc::clone(&before.gpus[index].gpu);
    let reason = DownReason::Unresponsive { call: "nvmlX", since: Duration::from_secs(3) };
    assert_eq!(told.len(), 6, "{told:#?}");
    assert!(matches!(&told[0], Transition::DriverUp(info) if info.epoch == 2));
    assert_eq!(told[1], Transition::GpuDown { gpu: gpu(0), reason });
    assert_eq!(told[2], Transition::Xid { gpu: gpu(0), code: 43, times: 3 });
    assert_eq!(told[3], Transition::Xid { gpu: gpu(0), code: 79, times: 1 });
    assert_eq!(told[4], Transition::GpuUp(gpu(1)));
    assert_eq!(told[5], Transition::GpuGone(gpu(2)));
}

#[test]
fn a_gpu_that_does_not_say_which_it_is_is_told_once() {
    let with = |unlisted: Vec<UnlistedGpu>| NodeGpus { unlisted, ..node(up(1), vec![]) };
    let hangs = |seconds| DownReason::Unresponsive { call: "nvmlX", since: Duration::from_secs(seconds) };
    let one = |reason| UnlistedGpu { index: 3, pci: None, reason };
    let none = with(vec![]);
    let first = with(vec![one(hangs(2))]);
    assert_eq!(between(Some(&none), &first), [Transition::GpuUnnamed(one(hangs(2)))]);
    assert_eq!(between(Some(&first), &with(vec![one(hangs(9))])), [], "that it takes longer is nothing new");
    let lost = one(DownReason::Lost(Answer { call: "nvmlX", cause: Cause::Code(15) }));
    assert_eq!(between(Some(&first), &with(vec![lost])), [Transition::GpuUnnamed(lost)]);
    // When it answers it is one of the others.
    let named = node(up(1), vec![gpu(3, Condition::Up, &[])]);
    assert!(matches!(&between(Some(&first), &named)[..], [Transition::GpuUp(gpu)] if gpu.index == 3));
}

#[test]
fn a_driver_that_goes_down_is_one_line() {
    let gone = Condition::Down(DownReason::DriverDown);
    let before = node(up(1), vec![gpu(0, Condition::Up, &[]), gpu(1, Condition::Up, &[])]);
    let after = node(down("DriverNotLoaded", "no module"), vec![gpu(0, gone, &[]), gpu(1, gone, &[])]);
    let told = between(Some(&before), &after);
    assert!(matches!(told[..], [Transition::DriverDown(_)]), "{told:#?}");
    let back = between(Some(&after), &before);
    assert_eq!(back.len(), 3, "the driver and both GPUs: {back:#?}");
}
