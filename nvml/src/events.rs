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
use gpulet_inventory::reading::{Answer, Cause, Reading};
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

/// What is known of XIDs, by GPU.
pub(crate) type XidCounts = Mutex<BTreeMap<GpuUuid, Xids>>;

/// What is known of one GPU's XIDs. A GPU is here from when it was first tried to listen to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Xids {
    /// By code, since this process started.
    pub(crate) counts: BTreeMap<u32, u64>,
    /// Why the driver does not tell of them now. A GPU that is lost has no more of them to tell of, and keeps those
    /// that it had.
    pub(crate) refused: Option<Answer>,
}

impl Xids {
    /// As a reading of the GPU: counts that could be short are none.
    pub(crate) fn reading(&self) -> Reading<BTreeMap<u32, u64>> {
        match self.refused {
            None => Reading::Supported(self.counts.clone()),
            Some(answer) if code::is_unsupported(answer.cause) => Reading::Unsupported(answer),
            Some(answer) => Reading::Failed(answer),
        }
    }
}

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
        let thread = thread::Builder::new().name("gpu-events".into()).spawn(move || {
            // Made there, since a set stays on its thread.
            Listener::new(calls, sinks, turn).run(&receiver)
        })?;
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
    /// What is waited on; absent where the driver gives none.
    set: Result<EventSet, Answer>,
    gpus: Vec<Listen>,
    /// Those of `gpus` that the set does not have: lost, or refused.
    missing: Vec<usize>,
    retried: Instant,
}

impl Listener {
    fn new(calls: Calls, sinks: Sinks, turn: Duration) -> Self {
        let set = EventSet::new(&calls);
        Self { calls, sinks, turn, set, gpus: Vec::new(), missing: Vec::new(), retried: Instant::now() }
    }

    fn run(mut self, requests: &mpsc::Receiver<Request>) {
        while self.take_requests(requests) {
            let Ok(set) = &self.set else { continue };
            self.calls.begin();
            match set.wait(&self.calls, self.turn) {
                Ok(raw) => self.tell(raw),
                Err(Cause::Code(code::TIMEOUT)) => self.retry(),
                Err(cause) => {
                    if cause == Cause::Code(code::GPU_IS_LOST) && self.renew() {
                        continue;
                    }
                    debug!(call = symbol::EVENT_WAIT.name, %cause, "waiting for events failed");
                    match requests.recv_timeout(PAUSE) {
                        Ok(request) => self.serve(request),
                        Err(mpsc::RecvTimeoutError::Timeout) => {}
                        Err(mpsc::RecvTimeoutError::Disconnected) => return,
                    }
                }
            }
        }
    }

    fn new_set(&self) -> Result<EventSet, Answer> {
        self.calls.begin();
        EventSet::new(&self.calls)
    }

    /// One lost GPU in a set makes every wait on it fail: a set that lacks it takes its place. It listens before the
    /// old one is emptied, since an event that is told twice is better than one that is not told.
    ///
    /// Whether the new one lacks a GPU that the old one had, and so may do better.
    fn renew(&mut self) -> bool {
        let before: Vec<usize> = std::mem::replace(&mut self.missing, (0..self.gpus.len()).collect());
        let fresh = self.new_set();
        let old = std::mem::replace(&mut self.set, fresh);
        self.register_missing();
        self.calls.begin();
        while let Ok(Ok(raw)) = old.as_ref().map(|old| old.wait(&self.calls, Duration::ZERO)) {
            self.tell(raw);
        }
        self.missing.iter().any(|at| !before.contains(at))
    }

    /// Does what was asked for since; waits for the first GPU, and for the next request where there is nothing else to
    /// wait for. Whether to go on.
    fn take_requests(&mut self, requests: &mpsc::Receiver<Request>) -> bool {
        while self.gpus.is_empty() || self.set.is_err() {
            match requests.recv() {
                Ok(request) => self.serve(request),
                Err(mpsc::RecvError) => return false,
            }
        }
        loop {
            match requests.try_recv() {
                Ok(request) => self.serve(request),
                Err(mpsc::TryRecvError::Empty) => return true,
                Err(mpsc::TryRecvError::Disconnected) => return false,
            }
        }
    }

    fn serve(&mut self, request: Request) {
        // Whoever asked may wait no longer.
        match request {
            Request::Listen { gpus, done } => {
                self.missing.extend(self.gpus.len()..self.gpus.len() + gpus.len());
                self.gpus.extend(gpus);
                self.register_missing();
                let _ = done.send(());
            }
            Request::Count { reply } => {
                self.calls.begin();
                if let Ok(gpus) = self.calls.system(&symbol::COUNT) {
                    let _ = reply.send(gpus);
                }
                self.retry();
            }
        }
    }

    /// A GPU that was lost may be back, and a driver that had no set may have one.
    fn retry(&mut self) {
        if self.missing.is_empty() || self.retried.elapsed() < RETRY {
            return;
        }
        if self.set.as_ref().is_err_and(|answer| answer.cause != Cause::NoSymbol) {
            self.set = self.new_set();
        }
        self.register_missing();
    }

    fn register_missing(&mut self) {
        self.retried = Instant::now();
        let Self { calls, gpus, set, sinks, .. } = self;
        self.missing.retain(|at| {
            let Some(gpu) = gpus.get(*at) else { return false };
            let outcome = set.as_ref().map_err(|answer| *answer).and_then(|set| register(calls, set, gpu));
            let registered = outcome.is_ok();
            note(&mut lock(&sinks.xids), &gpu.uuid, outcome.and_then(|xids| xids));
            !registered
        });
    }

    fn tell(&self, raw: RawEvent) {
        let Some(gpu) = self.gpus.iter().find(|gpu| gpu.device == raw.device) else {
            warn!(kind = raw.kind, data = raw.data, "an event of a GPU that is not listened to");
            return;
        };
        let event = device_event(&gpu.uuid, &raw);
        match event.kind {
            EventKind::Xid(xid) => {
                let mut xids = lock(&self.sinks.xids);
                *xids.entry(gpu.uuid.clone()).or_default().counts.entry(xid).or_default() += 1;
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

/// Adds the GPU's events to the set. Inside: whether XIDs are among them.
fn register(calls: &Calls, set: &EventSet, gpu: &Listen) -> Result<Result<(), Answer>, Answer> {
    calls.begin();
    let known = calls.get(&symbol::EVENT_TYPES, gpu.device);
    // A driver that does not say which kinds it knows knows XIDs.
    let kinds = known.map_or(event::XID, |known| known & event::WANTED);
    if kinds != 0 {
        set.register(calls, gpu.device, kinds)
            .map_err(|cause| Answer { call: symbol::EVENT_REGISTER.name, cause })?;
    }
    let no_xids = Answer { call: symbol::EVENT_TYPES.name, cause: Cause::Blank };
    Ok(if kinds & event::XID == 0 { Err(no_xids) } else { Ok(()) })
}

/// Notes whether the driver tells of the GPU's XIDs.
fn note(xids: &mut BTreeMap<GpuUuid, Xids>, gpu: &GpuUuid, outcome: Result<(), Answer>) {
    let known = xids.get(gpu).is_some_and(|xids| xids.refused.is_none());
    let xids = xids.entry(gpu.clone()).or_default();
    match outcome {
        Ok(()) => xids.refused = None,
        Err(Answer { call, cause }) if known && is_fatal_cause(cause) => {
            debug!(%gpu, call, %cause, "no events from this GPU for now");
        }
        Err(answer) => {
            if xids.refused != Some(answer) {
                let Answer { call, cause } = answer;
                warn!(%gpu, call, %cause, "the driver does not tell of this GPU's Xids: they are not counted");
            }
            xids.refused = Some(answer);
        }
    }
}

/// Whether the GPU answers nothing at all for now.
fn is_fatal_cause(cause: Cause) -> bool {
    matches!(cause, Cause::Code(code) if code::is_fatal(code))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u32) -> Answer {
        Answer { call: symbol::EVENT_REGISTER.name, cause: Cause::Code(code) }
    }

    #[test]
    fn a_gpu_that_is_lost_keeps_its_counts_and_one_that_is_refused_has_none() {
        let gpu: GpuUuid = "GPU-00000000-0000-0000-0000-000000000001".parse().unwrap();
        let mut all = BTreeMap::new();
        let mut reading = |outcome| {
            note(&mut all, &gpu, outcome);
            all.entry(gpu.clone()).or_default().counts.insert(79, 1);
            all[&gpu].reading()
        };
        let counted = Reading::Supported(BTreeMap::from([(79, 1)]));
        let (lost, refused) = (answer(code::GPU_IS_LOST), answer(code::NOT_SUPPORTED));
        assert_eq!(reading(Err(lost)), Reading::Failed(lost), "it was never listened to");
        assert_eq!(reading(Ok(())), counted);
        assert_eq!(reading(Err(lost)), counted);
        assert_eq!(reading(Err(refused)), Reading::Unsupported(refused));
        assert_eq!(reading(Err(lost)), Reading::Failed(lost));
        assert_eq!(reading(Ok(())), counted);
    }
}
