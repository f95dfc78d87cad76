//! A simulated node and our driver on it.
#![allow(dead_code)] // each test file uses what it needs

pub(crate) mod dividing;

use std::path::Path;
use std::time::{Duration, Instant};

use gpulet_inventory::reading::{Answer, Cause, Reading};
use gpulet_inventory::sample::Sample;
use gpulet_inventory::snapshot::{Condition, DownReason, GpuState, NodeGpus};
use gpulet_nvml::{Classes, Driver, Options};
use gpulet_simulator::command::{Applied, Command, Load};
use gpulet_simulator::state::Effect;
use gpulet_simulator::{ClockMode, SimulatedNode};

pub(crate) const ALL: Classes = Classes { fast: true, slow: true };

/// The driver goes before the node that it is on, and both before their directory.
pub(crate) struct Rig {
    pub(crate) driver: Driver,
    pub(crate) node: SimulatedNode,
    pub(crate) options: Options,
    _dir: tempfile::TempDir,
}

impl Rig {
    /// Calls may take long here: the machine that runs the tests may be busy.
    pub(crate) fn new(node: &str) -> Self {
        Self::with_deadline(node, Duration::from_secs(20))
    }

    pub(crate) fn with_deadline(node: &str, deadline: Duration) -> Self {
        Self::with(node, |options| options.deadline = deadline)
    }

    pub(crate) fn with(node: &str, change: impl FnOnce(&mut Options)) -> Self {
        let dir = directory();
        let node = SimulatedNode::start(node, dir.path(), ClockMode::Stepped).unwrap();
        let mut options =
            Options { library: Some(node.library()), host_root: node.host_root(), ..Options::default() };
        change(&mut options);
        Self { driver: Driver::new(options.clone()), node, options, _dir: dir }
    }

    pub(crate) async fn tick(&self) -> NodeGpus {
        self.tick_at(Instant::now()).await
    }

    pub(crate) async fn tick_at(&self, now: Instant) -> NodeGpus {
        self.driver.sample(ALL, now).await
    }

    pub(crate) fn command(&self, command: Command) -> Applied {
        self.node.command(command).unwrap()
    }

    /// Puts a fault in force and gives the number by which it is cleared.
    pub(crate) fn fault(&self, gpu: Option<u32>, symbol: &str, effect: Effect) -> u64 {
        match self.command(Command::SetFault { gpu, symbol: Some(symbol.into()), effect }) {
            Applied::Fault { id } => id,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn clear(&self, id: u64) {
        self.command(Command::ClearFault { id: Some(id) });
    }

    /// Lets the GPUs work for a minute, so that nothing is zero that need not be.
    pub(crate) fn work(&self) {
        self.command(Command::Load { gpu: None, load: Load::Training });
        self.node.step(Duration::from_secs(60)).unwrap();
    }

    /// Unloads the driver as a person would: nothing may use it any more.
    pub(crate) fn unload(&self) {
        self.command(Command::Load { gpu: None, load: Load::Idle });
        self.command(Command::UnloadDriver { force: false });
    }

    /// Another version of the driver than the node came with.
    pub(crate) fn change_driver(&self, version: &str) {
        self.unload();
        self.command(Command::LoadDriver { version: Some(version.into()) });
    }

    /// Ticks until it is as wanted, which must come within a minute.
    pub(crate) async fn tick_until(&self, wanted: impl Fn(&NodeGpus) -> bool) -> NodeGpus {
        let start = Instant::now();
        loop {
            let gpus = self.tick().await;
            if wanted(&gpus) {
                return gpus;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "never became so: {gpus:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

pub(crate) fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(gpulet_simulator::scratch_dir()).unwrap()
}

pub(crate) fn sample(state: &GpuState) -> &Sample {
    state.sample.as_deref().unwrap_or_else(|| panic!("no sample: {:?}", state.condition))
}

pub(crate) fn value<T: Clone + std::fmt::Debug>(reading: &Reading<T>) -> T {
    reading.value().unwrap_or_else(|| panic!("no value: {reading:?}")).clone()
}

/// The call and code of an unsupported reading.
pub(crate) fn unsupported<T: std::fmt::Debug>(reading: &Reading<T>) -> (&'static str, Cause) {
    match reading {
        Reading::Unsupported(Answer { call, cause }) => (call, *cause),
        other => panic!("not unsupported: {other:?}"),
    }
}

pub(crate) fn all_up(gpus: &NodeGpus, count: usize) -> bool {
    gpus.gpus.len() == count && gpus.gpus.iter().all(|gpu| gpu.condition == Condition::Up)
}

pub(crate) fn is_unresponsive(state: &GpuState, symbol: &str) -> bool {
    matches!(state.condition, Condition::Down(DownReason::Unresponsive { call, .. }) if call == symbol)
}

pub(crate) fn failures(gpus: &NodeGpus, call: &str, reason: &str) -> u64 {
    gpus.calls.failed.get(call).and_then(|reasons| reasons.get(reason)).copied().unwrap_or(0)
}

/// How often a call was made that the driver or a GPU does not have.
pub(crate) fn unsupported_calls(gpus: &NodeGpus, call: &str, reason: &str) -> u64 {
    gpus.calls.unsupported.get(call).and_then(|reasons| reasons.get(reason)).copied().unwrap_or(0)
}

/// Files below `dir` that this process has open.
pub(crate) fn open_files_below(dir: &Path) -> Vec<std::path::PathBuf> {
    let dir = dir.canonicalize().unwrap();
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|file| file.starts_with(&dir))
        .collect()
}

/// How often an XID was counted.
pub(crate) fn xid(state: &GpuState, code: u32) -> Option<u64> {
    state.xids.value()?.get(&code).copied()
}
