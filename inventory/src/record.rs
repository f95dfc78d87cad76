//! What the driver said, kept to be looked at elsewhere and later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::gpu::Gpu;
use crate::locality::DriverLocality;
use crate::reading::Reading;
use crate::sample::Sample;
use crate::snapshot::{CallStats, Condition, Driver, GpuState, NodeGpus, UnlistedGpu};

/// Everything that the driver said at one instant.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeRecord {
    /// The driver and its GPUs.
    pub gpus: NodeGpus,
    /// Where it says that they sit.
    pub locality: DriverLocality,
}

/// The same, to be written and read: instants are ages at the time of the record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredRecord {
    driver: Driver,
    gpus: Vec<StoredGpu>,
    unlisted: Vec<UnlistedGpu>,
    calls: CallStats,
    locality: DriverLocality,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StoredGpu {
    gpu: Arc<Gpu>,
    condition: Condition,
    sample: Option<Arc<Sample>>,
    age: Duration,
    took: Duration,
    xids: Reading<BTreeMap<u32, u64>>,
}

impl NodeRecord {
    /// As something to be written, recorded at `now`.
    pub fn store(self, now: Instant) -> StoredRecord {
        let NodeGpus { driver, gpus, unlisted, calls } = self.gpus;
        let store = |GpuState { gpu, condition, sample, sampled, took, xids }| StoredGpu {
            gpu,
            condition,
            sample,
            age: now.saturating_duration_since(sampled),
            took,
            xids,
        };
        let gpus = gpus.into_iter().map(store).collect();
        StoredRecord { driver, gpus, unlisted, calls, locality: self.locality }
    }
}

impl StoredRecord {
    /// As if it had been said at `now`. An age that goes back beyond what this machine's clock can tell counts as none.
    pub fn at(self, now: Instant) -> NodeRecord {
        let state = |StoredGpu { gpu, condition, sample, age, took, xids }| GpuState {
            gpu,
            condition,
            sample,
            sampled: now.checked_sub(age).unwrap_or(now),
            took,
            xids,
        };
        let Self { driver, gpus, unlisted, calls, locality } = self;
        let gpus = NodeGpus { driver, gpus: gpus.into_iter().map(state).collect(), unlisted, calls };
        NodeRecord { gpus, locality }
    }
}
