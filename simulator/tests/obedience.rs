//! Faults on every symbol of the library, called as C programs call them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unsafe_code
)]

mod common;

use std::ffi::{CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr::null_mut;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use common::TestNode;
use gpulet_simulator::command::Command;
use gpulet_simulator::state::Effect;
use gpulet_simulator::{LEGACY_SYMBOLS, SYMBOLS};

const EVERY_BOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nodes/every-board.yaml");
/// A GPU in MIG mode there.
const DIVIDED: usize = 6;
/// A code that nothing returns by itself.
const FAULT: u32 = 777;
const UNINITIALIZED: u32 = 1;

/// As many arguments as any call has; a handle may be the first. Those that a call does not have it does not see.
type Call = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> u32;

#[derive(Clone, Copy)]
struct Library(usize);

impl Library {
    fn open(test: &TestNode) -> Self {
        let path = CString::new(test.node.library().as_os_str().as_bytes()).unwrap();
        // SAFETY: the path is a C string; the library's initialisers do nothing.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null());
        Self(library.addr())
    }

    fn call(self, symbol: &str, arguments: [usize; 3]) -> u32 {
        let name = CString::new(symbol).unwrap();
        // SAFETY: the library stays loaded and the name is a C string.
        let found = unsafe { libc::dlsym(std::ptr::with_exposed_provenance_mut(self.0), name.as_ptr()) };
        assert!(!found.is_null(), "{symbol} is exported");
        // SAFETY: every symbol of the table takes integers and pointers and gives a code.
        let call = unsafe { std::mem::transmute::<*mut c_void, Call>(found) };
        let [first, second, third] = arguments;
        // SAFETY: pointers are null, which each call checks, or to the test's own variables.
        unsafe { call(first, second, third, 0, 0, 0) }
    }

    /// A handle that a call gives through its last pointer.
    fn handle(self, symbol: &str, first: usize, second: usize) -> usize {
        let mut handle = null_mut::<c_void>();
        assert_eq!(self.call(symbol, [first, second, (&raw mut handle).expose_provenance()]), 0, "{symbol}");
        handle.expose_provenance()
    }
}

fn set(test: &TestNode, symbol: &str, effect: Effect) {
    test.node.command(Command::SetFault { gpu: None, symbol: Some(symbol.to_owned()), effect }).unwrap();
}

fn clear(test: &TestNode) {
    test.node.command(Command::ClearFault { id: None }).unwrap();
}

#[test]
fn every_symbol_obeys() {
    let test = TestNode::start(EVERY_BOARD);
    let library = Library::open(&test);
    assert_eq!(library.call("nvmlInit_v2", [0; 3]), 0);
    let mut gpu = null_mut::<c_void>();
    let place = (&raw mut gpu).expose_provenance();
    assert_eq!(library.call("nvmlDeviceGetHandleByIndex_v2", [DIVIDED, place, 0]), 0);
    let gpu = gpu.expose_provenance();
    let instance = test.node.state().gpus[DIVIDED].mig.as_ref().unwrap().instances[0].clone();
    let gi = library.handle("nvmlDeviceGetGpuInstanceById", gpu, instance.id as usize);
    let compute = instance.compute[0].id as usize;
    let ci = library.handle("nvmlGpuInstanceGetComputeInstanceById", gi, compute);

    for symbol in SYMBOLS.iter().chain(LEGACY_SYMBOLS) {
        let first = match *symbol {
            name if name.starts_with("nvmlGpuInstance") => gi,
            name if name.starts_with("nvmlComputeInstance") => ci,
            _ => gpu,
        };
        set(&test, symbol, Effect::Return(FAULT));
        assert_eq!(library.call(symbol, [first, 0, 0]), FAULT, "{symbol}");
        clear(&test);
    }
    assert_eq!(library.call("nvmlShutdown", [0; 3]), 0, "no reference was given out or taken back meanwhile");
    assert_eq!(library.call("nvmlShutdown", [0; 3]), UNINITIALIZED);
    assert_eq!(test.nvml().device_count().unwrap(), 8);
}

#[test]
fn a_shutdown_is_held_up_until_the_fault_is_cleared() {
    let test = TestNode::start(EVERY_BOARD);
    let library = Library::open(&test);
    assert_eq!(library.call("nvmlInit_v2", [0; 3]), 0);
    set(&test, "nvmlShutdown", Effect::Block);
    let (done, shut) = mpsc::channel();
    let caller = thread::spawn(move || done.send(library.call("nvmlShutdown", [0; 3])).unwrap());
    assert!(shut.recv_timeout(Duration::from_millis(300)).is_err(), "it must not return by itself");
    assert_eq!(test.node.driver_users(), [std::process::id()]);
    clear(&test);
    assert_eq!(shut.recv_timeout(Duration::from_secs(20)), Ok(0));
    caller.join().unwrap();
    assert!(test.node.driver_users().is_empty());
}

#[test]
fn a_shutdown_that_is_held_up_ends_well_when_the_server_ends() {
    let test = TestNode::start(EVERY_BOARD);
    let library = Library::open(&test);
    assert_eq!(library.call("nvmlInit_v2", [0; 3]), 0);
    set(&test, "nvmlShutdown", Effect::Block);
    let caller = thread::spawn(move || library.call("nvmlShutdown", [0; 3]));
    drop(test);
    assert_eq!(caller.join().unwrap(), 0);
}
