//! The thread that waits for what the driver tells by itself.
//!
//! It waits in short turns, so that it can be asked to end, and is told which GPUs to listen to once their workers
//! know them: a GPU that hangs while it is taken does not keep the others' events away.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId};
use gpulet_inventory::reading::Cause;
use tokio::sync::broadcast;
use tracing::{debug, warn};

use crate::constants::event;
use crate::event::{DeviceEvent, EventKind};
use crate::lock::lock;
use crate::raw::calls::Calls;
use crate::raw::event_set::{EventSet, RawEvent};
use crate::raw::handle::Device;
use crate::raw::library::Library;
use crate::raw::symbol;
use crate::stats::Stats;
use crate::tracker::Tracker;
use crate::{code, plausible};

/// How long one turn of waiting takes, milliseconds: the time in which the thread notices that it should end.
const TURN_MS: u32 = 200;
/// After a failure, before waiting again.
const PAUSE: Duration = Duration::from_secs(1);

/// XIDs by GPU and code since this process started.
pub(crate) type XidCounts = Mutex<BTreeMap<GpuUuid, BTreeMap<u32, u64>>>;

/// A GPU to listen to.
#[derive(Debug)]
pub(crate) struct Listen {
    pub(crate) device: Device,
    pub(crate) uuid: GpuUuid,
    /// Counts changes of its MIG configuration, for its worker.
    pub(crate) mig_generation: Arc<AtomicU64>,
}

/// The thread as seen from outside.
#[derive(Debug)]
pub(crate) struct EventThread {
    requests: mpsc::Sender<Listen>,
    tracker: Arc<Tracker>,
    thread: JoinHandle<()>,
}

/// Where events go.
#[derive(Debug, Clone)]
pub(crate) struct Sinks {
    pub(crate) events: broadcast::Sender<DeviceEvent>,
    pub(crate) xids: Arc<XidCounts>,
}

impl EventThread {
    /// Starts it, listening to nothing yet.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(library: &Arc<Library>, stats: &Arc<Stats>, sinks: Sinks) -> io::Result<Self> {
        let tracker = Arc::new(Tracker::default());
        let calls = Calls::new(Arc::clone(library), Arc::clone(&tracker), Arc::clone(stats));
        let (requests, receiver) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("gpu-events".into())
            .spawn(move || Listener { calls, sinks, gpus: Vec::new() }.run(&receiver))?;
        Ok(Self { requests, tracker, thread })
    }

    /// Listens to a GPU from now on.
    pub(crate) fn listen(&self, gpu: Listen) {
        // A thread that has ended listens to nothing; that was logged when it did.
        let _ = self.requests.send(gpu);
    }

    /// The call that it is in.
    pub(crate) fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    /// Lets the thread end after its present turn. Whoever wants to know when joins it.
    pub(crate) fn dismiss(self) -> (JoinHandle<()>, Arc<Tracker>) {
        (self.thread, self.tracker)
    }
}

struct Listener {
    calls: Calls,
    sinks: Sinks,
    gpus: Vec<Listen>,
}

impl Listener {
    fn run(mut self, requests: &mpsc::Receiver<Listen>) {
        let set = match EventSet::new(&self.calls) {
            Ok(set) => set,
            Err(cause) => {
                warn!(call = symbol::EVENT_SET_CREATE.name, %cause, "no events from the driver: XIDs are not counted");
                return;
            }
        };
        while self.take_requests(&set, requests) {
            self.calls.begin();
            let pause = match set.wait(&self.calls, TURN_MS) {
                Ok(raw) => {
                    self.tell(raw);
                    continue;
                }
                Err(Cause::Code(code::TIMEOUT)) => continue,
                Err(cause) => {
                    debug!(call = symbol::EVENT_WAIT.name, %cause, "waiting for events failed");
                    PAUSE
                }
            };
            match requests.recv_timeout(pause) {
                Ok(gpu) => self.register(&set, gpu),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Registers GPUs that were asked for since; waits for the first. Whether to go on.
    fn take_requests(&mut self, set: &EventSet, requests: &mpsc::Receiver<Listen>) -> bool {
        if self.gpus.is_empty() {
            match requests.recv() {
                Ok(gpu) => self.register(set, gpu),
                Err(mpsc::RecvError) => return false,
            }
        }
        loop {
            match requests.try_recv() {
                Ok(gpu) => self.register(set, gpu),
                Err(mpsc::TryRecvError::Empty) => return true,
                Err(mpsc::TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn register(&mut self, set: &EventSet, gpu: Listen) {
        self.calls.begin();
        let known = self.calls.get(&symbol::EVENT_TYPES, gpu.device);
        // A driver that does not say which kinds it knows knows XIDs.
        let kinds = known.map_or(event::XID, |known| known & event::WANTED);
        if let Err(cause) = set.register(&self.calls, gpu.device, kinds) {
            warn!(gpu = %gpu.uuid, call = symbol::EVENT_REGISTER.name, %cause, "no events from this GPU");
        }
        self.gpus.push(gpu);
    }

    fn tell(&self, raw: RawEvent) {
        let Some(gpu) = self.gpus.iter().find(|gpu| gpu.device == raw.device) else {
            warn!(kind = raw.kind, data = raw.data, "an event of a GPU that is not listened to");
            return;
        };
        let event = device_event(&gpu.uuid, &raw);
        match event.kind {
            EventKind::Xid(xid) => {
                *lock(&self.sinks.xids).entry(gpu.uuid.clone()).or_default().entry(xid).or_default() += 1;
            }
            EventKind::MigConfigChange => {
                gpu.mig_generation.fetch_add(1, Ordering::Release);
            }
            _ => {}
        }
        // No one may be listening.
        let _ = self.sinks.events.send(event);
    }
}

fn device_event(gpu: &GpuUuid, raw: &RawEvent) -> DeviceEvent {
    let kind = match raw.kind {
        // Codes are small; one that is not is unknown, which is what 999 says.
        event::XID => EventKind::Xid(u32::try_from(raw.data).unwrap_or(999)),
        event::MIG_CONFIG_CHANGE => EventKind::MigConfigChange,
        event::RECOVERY_ACTION => EventKind::RecoveryAction,
        event::UNAVAILABLE => EventKind::Unavailable,
        event::NON_FATAL_POISON => EventKind::Poison { fatal: false },
        event::FATAL_POISON => EventKind::Poison { fatal: true },
        kind => EventKind::Other { kind, data: raw.data },
    };
    DeviceEvent {
        gpu: gpu.clone(),
        kind,
        gpu_instance: plausible::id(raw.gpu_instance).map(GpuInstanceId),
        compute_instance: plausible::id(raw.compute_instance).map(ComputeInstanceId),
    }
}
