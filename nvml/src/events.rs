//! The thread that waits for what the driver tells by itself.
//!
//! It waits in short turns, so that it can be asked to end, and is told which GPUs to listen to once their workers
//! know them: a GPU that hangs while it is taken does not keep the others' events away.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::mig::{ComputeInstanceId, GpuInstanceId};
use gpulet_inventory::reading::Cause;
use tokio::sync::{broadcast, oneshot};
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

/// How long one turn of waiting takes at most: the time in which the thread notices that it should end.
const LONGEST_TURN: Duration = Duration::from_millis(200);
/// After a failure, before waiting again.
const PAUSE: Duration = Duration::from_secs(1);
/// How often a GPU is tried again that could not be listened to.
const RETRY: Duration = Duration::from_secs(10);

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

/// What the thread is asked for.
#[derive(Debug)]
enum Request {
    /// To listen to these GPUs from now on, and to tell when that is so.
    Listen { gpus: Vec<Listen>, done: oneshot::Sender<()> },
    /// To count the GPUs that the driver has.
    Count { reply: oneshot::Sender<u32> },
}

/// The thread as seen from outside.
#[derive(Debug)]
pub(crate) struct EventThread {
    requests: mpsc::Sender<Request>,
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
    /// Starts it, listening to nothing yet. It ends well within `deadline` when it is asked to.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(
        library: &Arc<Library>,
        stats: &Arc<Stats>,
        sinks: Sinks,
        deadline: Duration,
    ) -> io::Result<Self> {
        let tracker = Arc::new(Tracker::default());
        let calls = Calls::new(Arc::clone(library), Arc::clone(&tracker), Arc::clone(stats));
        let (requests, receiver) = mpsc::channel();
        let turn = LONGEST_TURN.min(deadline / 4);
        let listener =
            Listener { calls, sinks, turn, gpus: Vec::new(), missing: Vec::new(), retried: Instant::now() };
        let thread =
            thread::Builder::new().name("gpu-events".into()).spawn(move || listener.run(&receiver))?;
        Ok(Self { requests, tracker, thread })
    }

    /// Listens to these GPUs. What comes back resolves when it does, or when the thread has ended.
    pub(crate) fn listen(&self, gpus: Vec<Listen>) -> oneshot::Receiver<()> {
        let (done, listening) = oneshot::channel();
        // A thread that has ended listens to nothing; that was logged when it did.
        let _ = self.requests.send(Request::Listen { gpus, done });
        listening
    }

    /// Counts the driver's GPUs. Nothing comes back where that fails or the thread has ended.
    pub(crate) fn count(&self) -> oneshot::Receiver<u32> {
        let (reply, counted) = oneshot::channel();
        let _ = self.requests.send(Request::Count { reply });
        counted
    }

    /// The call that it is in.
    pub(crate) fn tracker(&self) -> &Tracker {
        &self.tracker
    }

    /// Lets the thread end after its present turn. Whoever wants to know when joins it.
    pub(crate) fn dismiss(self) -> JoinHandle<()> {
        self.thread
    }
}

struct Listener {
    calls: Calls,
    sinks: Sinks,
    turn: Duration,
    gpus: Vec<Listen>,
    /// Those of `gpus` that the set does not have: lost, or refused.
    missing: Vec<usize>,
    retried: Instant,
}

impl Listener {
    fn run(mut self, requests: &mpsc::Receiver<Request>) {
        let Some(mut set) = self.new_set() else { return };
        let mut renewed = false;
        while self.take_requests(&set, requests) {
            self.calls.begin();
            match set.wait(&self.calls, self.turn) {
                Ok(raw) => self.tell(raw),
                Err(Cause::Code(code::TIMEOUT)) => {
                    renewed = false;
                    self.retry_missing(&set);
                }
                Err(Cause::Code(code::GPU_IS_LOST)) if !renewed => {
                    let Some(fresh) = self.renew(&set) else { return };
                    set = fresh;
                    renewed = true;
                }
                Err(cause) => {
                    debug!(call = symbol::EVENT_WAIT.name, %cause, "waiting for events failed");
                    match requests.recv_timeout(PAUSE) {
                        Ok(request) => self.serve(&set, request),
                        Err(mpsc::RecvTimeoutError::Timeout) => {}
                        Err(mpsc::RecvTimeoutError::Disconnected) => return,
                    }
                }
            }
        }
    }

    fn new_set(&self) -> Option<EventSet> {
        self.calls.begin();
        let told = |cause: &Cause| {
            warn!(call = symbol::EVENT_SET_CREATE.name, %cause, "no events from the driver: XIDs are not counted");
        };
        EventSet::new(&self.calls).inspect_err(told).ok()
    }

    /// One lost GPU in a set makes every wait on it fail: a set that lacks it takes its place. It listens before the
    /// old one is emptied, since an event that is told twice is better than one that is not told.
    fn renew(&mut self, old: &EventSet) -> Option<EventSet> {
        let fresh = self.new_set()?;
        self.missing = (0..self.gpus.len()).collect();
        self.register_missing(&fresh);
        self.calls.begin();
        while let Ok(raw) = old.wait(&self.calls, Duration::ZERO) {
            self.tell(raw);
        }
        Some(fresh)
    }

    /// Does what was asked for since; waits for the first GPU. Whether to go on.
    fn take_requests(&mut self, set: &EventSet, requests: &mpsc::Receiver<Request>) -> bool {
        while self.gpus.is_empty() {
            match requests.recv() {
                Ok(request) => self.serve(set, request),
                Err(mpsc::RecvError) => return false,
            }
        }
        loop {
            match requests.try_recv() {
                Ok(request) => self.serve(set, request),
                Err(mpsc::TryRecvError::Empty) => return true,
                Err(mpsc::TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn serve(&mut self, set: &EventSet, request: Request) {
        // Whoever asked may wait no longer.
        match request {
            Request::Listen { gpus, done } => {
                self.missing.extend(self.gpus.len()..self.gpus.len() + gpus.len());
                self.gpus.extend(gpus);
                self.register_missing(set);
                let _ = done.send(());
            }
            Request::Count { reply } => {
                self.calls.begin();
                if let Ok(gpus) = self.calls.system(&symbol::COUNT) {
                    let _ = reply.send(gpus);
                }
            }
        }
    }

    /// A GPU that was lost may be back.
    fn retry_missing(&mut self, set: &EventSet) {
        if !self.missing.is_empty() && self.retried.elapsed() >= RETRY {
            self.register_missing(set);
        }
    }

    fn register_missing(&mut self, set: &EventSet) {
        self.retried = Instant::now();
        let (calls, gpus) = (&self.calls, &self.gpus);
        self.missing.retain(|at| gpus.get(*at).is_some_and(|gpu| !register(calls, set, gpu)));
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

/// Whether the set has the GPU's events now.
fn register(calls: &Calls, set: &EventSet, gpu: &Listen) -> bool {
    calls.begin();
    let known = calls.get(&symbol::EVENT_TYPES, gpu.device);
    // A driver that does not say which kinds it knows knows XIDs.
    let kinds = known.map_or(event::XID, |known| known & event::WANTED);
    let registered = set.register(calls, gpu.device, kinds);
    if let Err(cause) = registered {
        debug!(gpu = %gpu.uuid, call = symbol::EVENT_REGISTER.name, %cause, "no events from this GPU for now");
    }
    registered.is_ok()
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
