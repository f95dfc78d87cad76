//! The driver as a whole.

use std::ffi::{c_char, c_int, c_uint};

use nvml_wrapper_sys::bindings::nvmlSystemDriverBranchInfo_v1_t;

use super::call::{Gpu, Node};
use super::code::{self, Answer, Code, NOT_FOUND, NOT_SUPPORTED};
use super::out::{Out, Text, chars, version_word};
use super::{faults, session};

pub(super) fn init(symbol: &'static str) -> Code {
    code::of(session::init(symbol))
}

/// The flags (no GPUs needed, no attachment) ask for less than this driver gives anyway.
pub(super) fn init_with_flags(symbol: &'static str, _flags: c_uint) -> Code {
    init(symbol)
}

pub(super) fn shutdown(symbol: &'static str) -> Code {
    code::of(faults::obey_while_served(symbol).and_then(|_| session::shutdown()))
}

pub(super) fn error_string(code: Code) -> *const c_char {
    code::text(code).as_ptr().cast()
}

pub(super) fn driver_version(node: &Node, version: Text, length: c_uint) -> Answer {
    version.set(length, &node.state.driver.version)
}

pub(super) fn nvml_version(node: &Node, version: Text, length: c_uint) -> Answer {
    version.set(length, &node.state.driver.nvml_version)
}

pub(super) fn cuda_version(node: &Node, version: Out<c_int>) -> Answer {
    version.set(node.state.driver.cuda_version)
}

pub(super) fn driver_branch(
    node: &Node,
    info: Out<nvmlSystemDriverBranchInfo_v1_t>,
    length: c_uint,
) -> Answer {
    info.check_version(1)?;
    let branch = format!("r{}_00", node.driver_branch());
    if (length as usize) <= branch.len() {
        return Err(code::INSUFFICIENT_SIZE);
    }
    info.set(nvmlSystemDriverBranchInfo_v1_t {
        version: version_word::<nvmlSystemDriverBranchInfo_v1_t>(1),
        branch: chars(&branch),
    })
}

pub(super) fn process_name(node: &Node, pid: c_uint, name: Text, length: c_uint) -> Answer {
    if length == 0 {
        return Err(code::INVALID_ARGUMENT);
    }
    let mut processes = node.state.gpus.iter().flat_map(|gpu| &gpu.processes);
    let process = processes.find(|process| process.pid == pid).ok_or(NOT_FOUND)?;
    // The driver cuts a long name rather than refuse it.
    let room = (length as usize).saturating_sub(1);
    let end =
        (0..=room.min(process.name.len())).rev().find(|end| process.name.is_char_boundary(*end)).unwrap_or(0);
    name.set(length, process.name.get(..end).unwrap_or_default())
}

/// Exists on Windows only.
pub(super) fn driver_model(_gpu: &Gpu<'_>, _current: Out<c_uint>, _pending: Out<c_uint>) -> Answer {
    Err(NOT_SUPPORTED)
}

pub(super) fn excluded_devices(_node: &Node, count: Out<c_uint>) -> Answer {
    count.set(0)
}
