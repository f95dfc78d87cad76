//! Where the built programs are, and waiting for what they do.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// The daemon, as `cargo test --workspace` built it.
pub fn gpulet() -> Command {
    Command::new(built("gpulet"))
}

/// The simulator's program, as `cargo test --workspace` built it.
pub fn gpulet_sim() -> Command {
    Command::new(built("gpulet-sim"))
}

/// The Python that has the packages of `tests/requirements.txt`: `GPULET_TEST_PYTHON`, which `.ci/run` sets.
pub fn others_python() -> PathBuf {
    let python = std::env::var_os("GPULET_TEST_PYTHON");
    PathBuf::from(
        python.expect("GPULET_TEST_PYTHON must name a Python with the packages of tests/requirements.txt"),
    )
}

fn built(name: &str) -> PathBuf {
    there(deps().parent().expect("tests run from target/PROFILE/deps").join(name))
}

/// The simulated driver's library. `cargo test` leaves it among what tests are made of.
pub(crate) fn library() -> PathBuf {
    there(deps().join("libgpulet_simulator.so"))
}

fn deps() -> PathBuf {
    std::env::current_exe().unwrap().parent().expect("tests run from target/PROFILE/deps").to_owned()
}

fn there(built: PathBuf) -> PathBuf {
    assert!(built.exists(), "{} is not built: run `cargo test --workspace`", built.display());
    built
}

/// Waits until `condition` gives something, looking again every few milliseconds, and panics with `what` when it has
/// not after half a minute: far longer than anything here takes on a busy machine.
pub fn wait_until<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    wait_within(Duration::from_secs(30), what, condition)
}

/// The same with more `patience`, for programs that take longer to start.
pub fn wait_within<T>(patience: Duration, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let patience = Instant::now() + patience;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < patience, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
