//! The node's driver.

mod dividing;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as StdMutex};
use std::time::{Duration, Instant};

use gpulet_inventory::locality::DriverLocality;
use gpulet_inventory::snapshot::NodeGpus;
use tokio::sync::{Mutex, broadcast};

use crate::event::DeviceEvent;
use crate::events::Sinks;
use crate::node::Node;
use crate::{Options, QuiesceError, StuckCall};

/// Events that a receiver may be behind before it loses the oldest.
const EVENTS: usize = 1024;

/// How often it is looked whether calls have returned that are waited for.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Which values to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classes {
    /// Utilisation, memory, power, clocks, temperature, PCIe, processes.
    pub fast: bool,
    /// ECC, remapped rows, NVLink, MIG, recovery action, fabric.
    pub slow: bool,
}

/// The node's driver, shared by all clones. It is let go of when the last of them goes.
#[derive(Debug, Clone)]
pub struct Driver {
    node: Arc<Mutex<Node>>,
    /// Held by whoever lets go of the driver, for as long as that takes. Taken before `node`.
    leaving: Arc<Mutex<()>>,
    events: broadcast::Sender<DeviceEvent>,
    /// Of [`Options`].
    deadline: Duration,
    change_deadline: Duration,
    mode_deadline: Duration,
}

impl Driver {
    /// A driver that is not open yet: the first sample opens it.
    pub fn new(options: Options) -> Self {
        let (events, _) = broadcast::channel(EVENTS);
        let sinks = Sinks { events: events.clone(), xids: Arc::new(StdMutex::new(BTreeMap::new())) };
        let Options { deadline, change_deadline, mode_deadline, .. } = options;
        let node = Arc::new(Mutex::new(Node::new(options, sinks)));
        Self { node, leaving: Arc::default(), events, deadline, change_deadline, mode_deadline }
    }

    /// Reads the node's GPUs once.
    ///
    /// Opens the driver when that is due, by `now`. Takes no longer than about one deadline, whatever the driver
    /// does; a GPU that hangs costs only itself. Values of a class that is not asked for are those of the last time.
    pub async fn sample(&self, classes: Classes, now: Instant) -> NodeGpus {
        let mut node = self.node.lock().await;
        if self.leaving.try_lock().is_ok() {
            // Whoever was letting go of it was dropped meanwhile.
            node.stop_leaving();
        }
        node.sample(classes, now).await
    }

    /// Where the GPUs of the last sample sit, as the driver tells it; empty while the driver is not open.
    ///
    /// Each GPU is asked once after the driver is opened, and again only for what could not be had. Waits for a sample
    /// that is being taken, and then at most about one deadline; a GPU that hangs has its own entries fail.
    pub async fn locality(&self) -> DriverLocality {
        self.node.lock().await.locality().await
    }

    /// Lets go of the driver: every handle, file and thread, until [`Driver::resume`]. Samples taken meanwhile say
    /// `Quiesced`.
    ///
    /// Waits for a sample that is being taken, which is over after about one deadline of [`Options`]; then at most
    /// `deadline` for each of calls to return and the library to shut down. Samples taken during that time do not wait
    /// and say `Quiescing`. Dropped before the library is being shut down it changes nothing, and after that it is as
    /// if it had succeeded.
    ///
    /// # Errors
    /// When a call does not return, since the library cannot be shut down under it. Sampling then goes on.
    pub async fn quiesce(&self, deadline: Duration) -> Result<(), QuiesceError> {
        let _leaving = self.leaving.lock().await;
        self.node.lock().await.begin_leaving();
        if let Err(calls) = self.returned(deadline).await {
            self.node.lock().await.stop_leaving();
            return Err(QuiesceError::Stuck { calls });
        }
        self.node.lock().await.shut_down();
        let left = self.returned(deadline).await;
        let mut node = self.node.lock().await;
        node.stop_leaving();
        left.map_err(|calls| {
            // Shutting down goes on without us; it may be opened again.
            node.resume();
            QuiesceError::Stuck { calls }
        })
    }

    /// Waits for all calls to return, without keeping anyone from the node; the error: those that have not.
    async fn returned(&self, deadline: Duration) -> Result<(), Vec<StuckCall>> {
        let end = Instant::now() + deadline;
        loop {
            let running = self.node.lock().await.still_running().await;
            if running.is_empty() {
                return Ok(());
            }
            if Instant::now() >= end {
                return Err(running);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Takes the driver up again after [`Driver::quiesce`]: the next sample opens it. Without that it does nothing.
    pub async fn resume(&self) {
        let _leaving = self.leaving.lock().await;
        let mut node = self.node.lock().await;
        node.stop_leaving();
        node.resume();
    }

    /// How many threads are in calls to the driver that have not returned in time, of all times that it was opened.
    ///
    /// They outlive this and every clone. A process that has any should end without running what is to run at exit
    /// (`_exit`): the driver's library may wait there for the very lock that such a call holds.
    pub async fn stuck_threads(&self) -> usize {
        self.node.lock().await.stuck_threads()
    }

    /// What the driver tells by itself, from now on. XIDs are counted in the samples, too, whether or not anyone
    /// listens here.
    pub fn events(&self) -> broadcast::Receiver<DeviceEvent> {
        self.events.subscribe()
    }
}
