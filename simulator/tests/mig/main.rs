//! MIG as the driver lets a client change it. Through the raw symbols, since the wrapper has none for most of it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unsafe_code
)]

#[path = "../common/mod.rs"]
mod common;
mod driver;
mod files;
mod instances;
mod modes;
mod programs;
mod strikes;

use common::TestNode;
use driver::Driver;
use gpulet_simulator::command::{Command, Hold};
use gpulet_simulator::state::{GpuState, ProcessKind};

/// Few processors and eight GPUs: made in no time.
const EVERY_BOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nodes/every-board.yaml");
// Indices on that node.
const A100: u32 = 0;
const H100: u32 = 1;
const L40S: u32 = 3;
const RTX: u32 = 4;
const H100_MIG: u32 = 6;

// What the driver answers.
const OK: u32 = 0;
const INVALID_ARGUMENT: u32 = 2;
const NOT_SUPPORTED: u32 = 3;
const NO_PERMISSION: u32 = 4;
const NOT_FOUND: u32 = 6;
const GPU_IS_LOST: u32 = 15;
const RESET_REQUIRED: u32 = 16;
const IN_USE: u32 = 19;
const INSUFFICIENT_RESOURCES: u32 = 23;

/// A node on which nothing runs.
fn idle() -> TestNode {
    let test = TestNode::start(EVERY_BOARD);
    test.node.command(Command::Load { gpu: None, load: gpulet_simulator::command::Load::Idle }).unwrap();
    test
}

/// A node and its driver, with one GPU in MIG mode and empty.
fn empty(gpu: u32) -> (TestNode, Driver) {
    let test = idle();
    let driver = Driver::open(&test);
    assert_eq!(driver.set_mode(gpu, 1), (OK, OK));
    (test, driver)
}

fn state(test: &TestNode, gpu: u32) -> GpuState {
    test.node.state().gpus[gpu as usize].clone()
}

/// Ids and places of the GPU instances.
fn places(test: &TestNode, gpu: u32) -> Vec<(u32, (u32, u32))> {
    let mig = state(test, gpu).mig.unwrap();
    mig.instances.iter().map(|instance| (instance.id, instance.placement)).collect()
}

fn hold(test: &TestNode, gpu: u32, pid: u32, instance: Option<(u32, u32)>) {
    let hold = Hold {
        gpu,
        pid,
        kind: ProcessKind::Compute,
        memory_bytes: None,
        instance,
        name: "python3 train.py".to_owned(),
        cgroup: None,
    };
    test.node.command(Command::Hold(hold)).unwrap();
}
