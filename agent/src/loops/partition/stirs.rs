//! Whether there may be something that the last look did not see: what is sampled anyway, held against what it was.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use gpulet_inventory::mig::{GpuInstance, MigMode};
use gpulet_inventory::snapshot::{GpuState, NodeGpus, Snapshot};

/// What was there when it was looked at last.
#[derive(Debug, Default)]
pub(super) struct Stirs {
    gpus: Option<Vec<Gpu>>,
    was_down: bool,
    was_up: bool,
    holders: BTreeSet<String>,
}

/// A GPU, as far as it matters how it is divided.
#[derive(Debug, PartialEq)]
struct Gpu {
    uuid: String,
    is_up: bool,
    mode: Option<MigMode>,
    instances: Vec<GpuInstance>,
}

impl Stirs {
    /// Whether the driver was gone and is back.
    pub(super) fn is_reloaded(&mut self, gpus: &NodeGpus) -> bool {
        let is_down = gpus.driver.down_reason().is_some();
        let is_back = self.was_down && self.was_up && !is_down;
        self.was_down = is_down;
        self.was_up |= !is_down;
        is_back
    }

    /// Whether the GPUs are others, or divided otherwise.
    pub(super) fn gpus_differ(&mut self, gpus: &NodeGpus) -> bool {
        let now: Vec<Gpu> = gpus.gpus.iter().map(gpu).collect();
        let differ = self.gpus.as_ref().is_some_and(|before| *before != now);
        self.gpus = Some(now);
        differ
    }

    /// Whether others use them.
    pub(super) fn holders_differ(&mut self, snapshot: &Snapshot) -> bool {
        let samples = snapshot.gpus.value.gpus.iter().filter_map(|state| state.sample.as_ref());
        let processes = samples.filter_map(|sample| sample.processes.value()).flatten();
        let now = processes.map(|process| format!("{}", process.pid)).collect();
        std::mem::replace(&mut self.holders, now) != self.holders
    }
}

fn gpu(state: &GpuState) -> Gpu {
    let mig = state.sample.as_ref().and_then(|sample| sample.mig.value());
    Gpu {
        uuid: state.gpu.uuid.to_string(),
        is_up: state.condition.down_reason().is_none(),
        mode: mig.map(|mig| mig.mode),
        instances: mig.and_then(|mig| mig.instances.value()).cloned().unwrap_or_default(),
    }
}

/// By what a file is known to be the same. That of a ConfigMap is a link which is put in place of another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    file: (u64, u64),
    modified: Option<SystemTime>,
    bytes: u64,
}

impl Stamp {
    /// Absent where there is no file.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        Some(Self {
            file: (metadata.dev(), metadata.ino()),
            modified: metadata.modified().ok(),
            bytes: metadata.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_replaced_or_written_is_another() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("a"), directory.path().join("b"));
        assert_eq!(Stamp::of(&path), None);
        fs::write(&path, "1").unwrap();
        let first = Stamp::of(&path);
        assert_eq!(Stamp::of(&path), first);
        fs::write(&other, "2").unwrap();
        fs::rename(&other, &path).unwrap();
        let second = Stamp::of(&path);
        assert!(first.is_some() && second != first);
        fs::write(&path, "22").unwrap();
        assert_ne!(Stamp::of(&path), second);
    }

    #[test]
    fn instances_stir_and_loads_do_not() {
        let node = gpulet_benches::snapshot(2, 2);
        let mut stirs = Stirs::default();
        assert!(!stirs.gpus_differ(&node.gpus.value), "what is seen first is no news");
        let mut gpus = NodeGpus::clone(&node.gpus.value);
        let sample = std::sync::Arc::make_mut(gpus.gpus[0].sample.as_mut().unwrap());
        sample.utilization.gpu = gpulet_inventory::reading::Reading::Supported(3);
        assert!(!stirs.gpus_differ(&gpus));
        gpus.gpus.pop();
        assert!(stirs.gpus_differ(&gpus));
    }
}
