//! Event sets: XIDs with their instances, changes, waiting without polling.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unsafe_code
)]

mod common;

use std::ptr::null_mut;
use std::thread;
use std::time::{Duration, Instant};

use common::TestNode;
use gpulet_simulator::command::Command;
use nvml_wrapper::Nvml;
use nvml_wrapper_sys::bindings::*;

const EVERY_BOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nodes/every-board.yaml");
const XID: u64 = 8;

struct Set<'n> {
    nvml: &'n Nvml,
    set: nvmlEventSet_t,
}

// SAFETY: the handle is a number to this driver, and the driver takes it from any thread.
unsafe impl Send for Set<'_> {}

impl<'n> Set<'n> {
    fn on(nvml: &'n Nvml, gpus: &[u32]) -> Self {
        let mut set = null_mut();
        let lib = nvml.lib();
        // SAFETY: pointers are to locals, handles are the driver's own.
        unsafe {
            assert_eq!(lib.nvmlEventSetCreate.as_ref().unwrap()(&raw mut set), 0);
            for gpu in gpus {
                let device = nvml.device_by_index(*gpu).unwrap().handle();
                assert_eq!(lib.nvmlDeviceRegisterEvents.as_ref().unwrap()(device, XID, set), 0);
            }
        }
        Self { nvml, set }
    }

    fn wait(&self, timeout: Duration) -> Result<nvmlEventData_t, nvmlReturn_t> {
        // SAFETY: a plain C struct, for which zeros are valid.
        let mut data: nvmlEventData_t = unsafe { std::mem::zeroed() };
        let wait = self.nvml.lib().nvmlEventSetWait_v2.as_ref().unwrap();
        // SAFETY: the pointer is to a local.
        match unsafe { wait(self.set, &raw mut data, timeout.as_millis() as u32) } {
            0 => Ok(data),
            code => Err(code),
        }
    }
}

#[test]
fn xids_come_in_order_with_their_instances() {
    let test = TestNode::start(EVERY_BOARD);
    let nvml = test.nvml();
    let xid =
        |gpu, code, instance| test.node.command(Command::Xid { gpu, code, times: 1, instance }).unwrap();
    xid(1, 13, None);
    let set = Set::on(&nvml, &[1, 6]);
    assert_eq!(set.wait(Duration::ZERO).err(), Some(10), "what was before is not told");
    xid(1, 31, None);
    xid(0, 31, None);
    let gi = test.node.state().gpus[6].mig.as_ref().unwrap().instances[0].clone();
    xid(6, 43, Some((gi.id, gi.compute[0].id)));
    let first = set.wait(Duration::from_secs(5)).unwrap();
    assert_eq!((first.eventType, first.eventData, first.gpuInstanceId), (XID, 31, u32::MAX));
    // SAFETY: the handle is compared only.
    let own = unsafe { nvml.device_by_index(1).unwrap().handle() };
    assert_eq!(first.device, own);
    let second = set.wait(Duration::from_secs(5)).unwrap();
    assert_eq!(
        (second.eventData, second.gpuInstanceId, second.computeInstanceId),
        (43, gi.id, gi.compute[0].id)
    );
    assert_eq!(set.wait(Duration::ZERO).err(), Some(10), "GPU 0 is not in the set");
}

#[test]
fn a_waiting_thread_is_woken_by_the_event() {
    let test = TestNode::start(EVERY_BOARD);
    let nvml = test.nvml();
    let set = Set::on(&nvml, &[1]);
    thread::scope(|scope| {
        let waiter = scope.spawn(move || {
            let set = set;
            set.wait(Duration::from_secs(60)).unwrap().eventData
        });
        test.node.command(Command::Xid { gpu: 1, code: 94, times: 1, instance: None }).unwrap();
        assert_eq!(waiter.join().unwrap(), 94);
    });
}

#[test]
fn a_lost_gpu_is_told_by_its_xid_and_then_by_the_set() {
    let test = TestNode::start(EVERY_BOARD);
    let nvml = test.nvml();
    let set = Set::on(&nvml, &[1, 2]);
    test.node.command(Command::Lose { gpu: 2 }).unwrap();
    assert_eq!(set.wait(Duration::from_secs(5)).unwrap().eventData, 79);
    let began = Instant::now();
    assert_eq!(set.wait(Duration::from_secs(60)).err(), Some(15));
    assert!(began.elapsed() < Duration::from_secs(30));
    test.node.command(Command::Xid { gpu: 1, code: 31, times: 1, instance: None }).unwrap();
    assert_eq!(set.wait(Duration::from_secs(5)).unwrap().eventData, 31, "the others' events still come");
}

#[test]
fn unloading_the_driver_ends_a_wait() {
    let test = TestNode::start(EVERY_BOARD);
    let nvml = test.nvml();
    let set = Set::on(&nvml, &[1]);
    thread::scope(|scope| {
        let waiter = scope.spawn(move || {
            let set = set;
            set.wait(Duration::from_secs(60)).err()
        });
        test.node.command(Command::UnloadDriver { force: true }).unwrap();
        assert_eq!(waiter.join().unwrap(), Some(9));
    });
}
