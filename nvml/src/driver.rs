//! The node's driver.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulet_inventory::snapshot::{CallStats, DriverDown, NodeGpus};
use tokio::sync::broadcast;

use crate::event::DeviceEvent;
use crate::{Options, QuiesceError};

/// Which values to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classes {
    /// Utilisation, memory, power, clocks, temperature, PCIe, processes.
    pub fast: bool,
    /// ECC, remapped rows, NVLink, MIG, recovery action, fabric.
    pub slow: bool,
}

/// The node's driver, shared by all clones.
#[derive(Debug, Clone)]
pub struct Driver {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: Options,
    events: broadcast::Sender<DeviceEvent>,
}

impl Driver {
    /// A driver that is not open yet: the first sample opens it.
    pub fn new(options: Options) -> Self {
        Self { shared: Arc::new(Shared { options, events: broadcast::channel(1024).0 }) }
    }

    /// Reads the node's GPUs once.
    ///
    /// Opens the driver when that is due. Takes no longer than about one deadline, whatever the driver does; values
    /// of a class that is not asked for are those of the last time.
    pub async fn sample(&self, classes: Classes, _now: Instant) -> NodeGpus {
        let _ = (classes, &self.shared.options);
        let down = DriverDown { reason: "NotOpen", message: String::new(), remedy: String::new() };
        NodeGpus {
            driver: gpulet_inventory::snapshot::Driver::Down(down),
            gpus: Vec::new(),
            calls: CallStats::default(),
        }
    }

    /// Lets go of the driver: every handle, file and thread, until [`Driver::resume`].
    ///
    /// # Errors
    /// When a call has not returned within `deadline`; the driver then stays open.
    pub async fn quiesce(&self, _deadline: Duration) -> Result<(), QuiesceError> {
        Ok(())
    }

    /// Takes the driver up again after [`Driver::quiesce`]: the next sample opens it.
    pub async fn resume(&self) {}

    /// What the driver tells by itself, from now on. XIDs are counted in the samples too.
    pub fn events(&self) -> broadcast::Receiver<DeviceEvent> {
        self.shared.events.subscribe()
    }
}
