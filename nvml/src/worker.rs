//! One thread per GPU: a call that never returns costs that GPU and this thread, nothing else.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gpulet_inventory::gpu::Gpu;
use gpulet_inventory::reading::Answer;
use gpulet_inventory::sample::Sample;
use tokio::sync::oneshot;

use crate::Classes;
use crate::raw::calls::Calls;
use crate::raw::handle::Device;
use crate::raw::library::Library;
use crate::reader::Reader;
use crate::stats::Stats;
use crate::tracker::{Running, Tracker};

/// What a round came to.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    /// What the GPU is, and its handle; absent when it could not be taken.
    pub(crate) gpu: Option<(Arc<Gpu>, Device)>,
    /// Its readings, or why there are none.
    pub(crate) outcome: Result<Arc<Sample>, Answer>,
    /// When the round was asked for, as the asker said.
    pub(crate) asked: Instant,
    /// From asking to the end of the round.
    pub(crate) took: Duration,
}

struct Job {
    classes: Classes,
    now: Instant,
    sent: Instant,
    reply: oneshot::Sender<Report>,
}

/// A worker as seen from outside.
#[derive(Debug)]
pub(crate) struct Worker {
    /// Which GPU, by the driver's number.
    pub(crate) index: u32,
    /// Counts the changes of the MIG configuration that the driver told of.
    pub(crate) mig_generation: Arc<AtomicU64>,
    tracker: Arc<Tracker>,
    jobs: mpsc::Sender<Job>,
    thread: JoinHandle<()>,
    pending: Option<Pending>,
}

#[derive(Debug)]
struct Pending {
    reply: oneshot::Receiver<Report>,
    sent: Instant,
}

impl Pending {
    /// The call that has not returned in time: one call longer than `deadline`, or the round longer than two.
    fn overdue(&self, tracker: &Tracker, deadline: Duration) -> Option<Running> {
        let round = self.sent.elapsed() >= deadline * 2;
        tracker.running().filter(|running| round || running.elapsed() >= deadline)
    }
}

/// What a worker is doing, after waiting for it.
#[derive(Debug)]
pub(crate) enum Progress {
    /// The round is over.
    Done(Report),
    /// It goes on, and each call returns in time.
    Slow,
    /// A call has not returned in time, or the round as a whole takes far too long.
    Overdue {
        /// The call.
        call: &'static str,
        /// For how long.
        since: Duration,
    },
    /// The thread is gone without a report; that is a fault of this program.
    Died,
}

impl Worker {
    /// Starts a thread for the GPU of that number. It makes no call before the first round.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(
        library: &Arc<Library>,
        stats: &Arc<Stats>,
        index: u32,
        driver_version: &Arc<str>,
    ) -> io::Result<Self> {
        let tracker = Arc::new(Tracker::default());
        let mig_generation = Arc::new(AtomicU64::new(0));
        let calls = Calls::new(Arc::clone(library), Arc::clone(&tracker), Arc::clone(stats));
        let (jobs, rounds) = mpsc::channel();
        let (version, generation) = (Arc::clone(driver_version), Arc::clone(&mig_generation));
        let thread = thread::Builder::new()
            .name(format!("gpu-{index}"))
            .spawn(move || serve(&calls, index, &version, &generation, &rounds))?;
        Ok(Self { index, mig_generation, tracker, jobs, thread, pending: None })
    }

    /// Asks for a round, unless one is still going on.
    pub(crate) fn ask(&mut self, classes: Classes, now: Instant) {
        if self.pending.is_some() {
            return;
        }
        let (reply, receiver) = oneshot::channel();
        let sent = Instant::now();
        // A thread that died drops the reply, which is noticed when it is waited for.
        let _ = self.jobs.send(Job { classes, now, sent, reply });
        self.pending = Some(Pending { reply: receiver, sent });
    }

    /// Takes the report of a round that ended since it was last waited for.
    pub(crate) fn take_late(&mut self) -> Option<Report> {
        let report = self.pending.as_mut()?.reply.try_recv().ok()?;
        self.pending = None;
        Some(report)
    }

    /// Waits for the round until `end`, but no longer than one call may take.
    pub(crate) async fn wait(&mut self, deadline: Duration, end: Instant) -> Option<Progress> {
        let pending = self.pending.as_mut()?;
        loop {
            let running = self.tracker.running();
            let call_ends = running.map_or(end, |running| running.started + deadline);
            let until = tokio::time::Instant::from_std(call_ends.min(end));
            match tokio::time::timeout_at(until, &mut pending.reply).await {
                Ok(Ok(report)) => {
                    self.pending = None;
                    return Some(Progress::Done(report));
                }
                Ok(Err(_)) => {
                    self.pending = None;
                    return Some(Progress::Died);
                }
                Err(_) => {}
            }
            if let Some(running) = pending.overdue(&self.tracker, deadline) {
                return Some(Progress::Overdue { call: running.call, since: running.elapsed() });
            }
            if Instant::now() >= end {
                return Some(Progress::Slow);
            }
        }
    }

    /// The call that has not returned in time.
    pub(crate) fn overdue(&self, deadline: Duration) -> Option<Running> {
        self.pending.as_ref()?.overdue(&self.tracker, deadline)
    }

    /// The call that is running now.
    pub(crate) fn running(&self) -> Option<Running> {
        self.pending.as_ref().and_then(|_| self.tracker.running())
    }

    /// Whether a round is going on.
    pub(crate) fn is_busy(&self) -> bool {
        self.pending.is_some()
    }

    /// Lets the thread end after its present call. Whoever wants to know when joins it.
    pub(crate) fn dismiss(self) -> (JoinHandle<()>, Arc<Tracker>) {
        (self.thread, self.tracker)
    }
}

/// The thread's life: one round after the other until no one can ask any more.
fn serve(calls: &Calls, index: u32, version: &str, generation: &AtomicU64, rounds: &mpsc::Receiver<Job>) {
    let mut reader = None;
    while let Ok(Job { classes, now, sent, reply }) = rounds.recv() {
        calls.begin();
        let outcome = round(calls, &mut reader, index, version, generation, classes, now);
        let gpu = reader.as_ref().map(|reader| (Arc::clone(reader.gpu()), reader.device()));
        // No one may be waiting any more, when the driver is being let go of.
        let _ = reply.send(Report { gpu, outcome: outcome.map(Arc::new), asked: now, took: sent.elapsed() });
    }
}

fn round(
    calls: &Calls,
    reader: &mut Option<Reader>,
    index: u32,
    version: &str,
    generation: &AtomicU64,
    classes: Classes,
    now: Instant,
) -> Result<Sample, Answer> {
    let opened = match reader.take() {
        Some(opened) => opened,
        None => Reader::open(calls, index, version, now)?,
    };
    reader.insert(opened).sample(calls, classes, generation.load(Ordering::Acquire), now)
}
