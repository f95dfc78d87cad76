//! One thread per GPU: a call that never returns costs that GPU and this thread, nothing else.

pub(crate) mod task;
mod thread;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use gpulet_inventory::gpu::Gpu;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::reading::Answer;
use gpulet_inventory::sample::Sample;
use tokio::sync::oneshot;

use self::task::{GoingOn, Limits, Task, Turn};
use self::thread::Job;
pub(crate) use self::thread::Thread;
use crate::Classes;
use crate::raw::calls::Calls;
use crate::raw::handle::Device;
use crate::raw::library::Library;
use crate::read::locality::{GpuAnswers, Peer};
use crate::stats::Stats;
use crate::tracker::{Running, Tracker};

/// What a thread is in that is in no call just now.
pub(crate) const BETWEEN: &str = "between two calls";

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

/// A worker as seen from outside.
#[derive(Debug)]
pub(crate) struct Worker {
    /// Which GPU, by the driver's number.
    pub(crate) index: u32,
    /// Counts the changes of the MIG configuration that the driver told of.
    pub(crate) mig_generation: Arc<AtomicU64>,
    /// Where the GPU sits, once it has told.
    pub(crate) place: Arc<OnceLock<PciAddress>>,
    tracker: Arc<Tracker>,
    jobs: mpsc::Sender<Job>,
    thread: JoinHandle<()>,
    round: Option<Pending<Report>>,
    locality: Option<Pending<GpuAnswers>>,
    /// What it was asked for last besides, and how long a call of that may take.
    task: Option<(Arc<Turn>, Duration)>,
}

#[derive(Debug)]
struct Pending<T> {
    reply: oneshot::Receiver<T>,
    sent: Instant,
}

/// What a worker is doing, after waiting for it.
#[derive(Debug)]
pub(crate) enum Progress<T> {
    /// The job is done.
    Done(T),
    /// It goes on, and each call returns in time.
    Slow,
    /// A call has not returned in time, or the job as a whole takes far too long.
    Overdue {
        /// The call.
        call: &'static str,
        /// For how long.
        since: Duration,
    },
    /// The thread is gone without a report; that is a fault of this program.
    Died,
}

impl<T> Pending<T> {
    fn new() -> (oneshot::Sender<T>, Self) {
        let (sender, reply) = oneshot::channel();
        (sender, Self { reply, sent: Instant::now() })
    }

    /// The call that has not returned in time: one call longer than `deadline`, or the job longer than two.
    fn overdue(&self, tracker: &Tracker, deadline: Duration) -> Option<Running> {
        let job = self.sent.elapsed() >= deadline * 2;
        tracker.running().filter(|running| job || running.elapsed() >= deadline)
    }

    /// Waits until `end`, but no longer than one call may take.
    async fn wait(&mut self, tracker: &Tracker, deadline: Duration, end: Instant) -> Progress<T> {
        loop {
            let call_ends = tracker.running().map_or(end, |running| running.started + deadline);
            let until = tokio::time::Instant::from_std(call_ends.min(end));
            match tokio::time::timeout_at(until, &mut self.reply).await {
                Ok(Ok(reply)) => return Progress::Done(reply),
                Ok(Err(_)) => return Progress::Died,
                Err(_) => {}
            }
            if let Some(running) = self.overdue(tracker, deadline) {
                return Progress::Overdue { call: running.call, since: running.elapsed() };
            }
            if Instant::now() >= end {
                return Progress::Slow;
            }
        }
    }
}

/// Waits for a job that was asked for, and forgets it when it is over.
async fn wait<T>(
    job: &mut Option<Pending<T>>,
    tracker: &Tracker,
    deadline: Duration,
    end: Instant,
) -> Option<Progress<T>> {
    let progress = job.as_mut()?.wait(tracker, deadline, end).await;
    if matches!(progress, Progress::Done(_) | Progress::Died) {
        *job = None;
    }
    Some(progress)
}

/// Takes the reply of a job that ended since it was last waited for.
fn take_late<T>(job: &mut Option<Pending<T>>) -> Option<T> {
    let reply = job.as_mut()?.reply.try_recv().ok()?;
    *job = None;
    Some(reply)
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
        outdated: &Arc<AtomicBool>,
    ) -> io::Result<Self> {
        let tracker = Arc::new(Tracker::default());
        let inside = Thread {
            calls: Calls::new(Arc::clone(library), Arc::clone(&tracker), Arc::clone(stats)),
            index,
            driver_version: Arc::clone(driver_version),
            mig_generation: Arc::default(),
            place: Arc::default(),
            outdated: Arc::clone(outdated),
            reader: None,
        };
        let (mig_generation, place) = (Arc::clone(&inside.mig_generation), Arc::clone(&inside.place));
        let (jobs, receiver) = mpsc::channel();
        let thread = Builder::new().name(format!("gpu-{index}")).spawn(move || inside.run(&receiver))?;
        let (round, locality, task) = (None, None, None);
        Ok(Self { index, mig_generation, place, tracker, jobs, thread, round, locality, task })
    }

    /// Has the thread do something besides sampling, in its turn. There is one such task at a time: ask
    /// [`Worker::in_task`] before.
    pub(crate) fn begin<T: Send + 'static>(
        &mut self,
        limits: Limits,
        work: impl FnOnce(&mut Thread) -> T + Send + 'static,
    ) -> Task<T> {
        let (sender, reply) = oneshot::channel();
        let turn = Arc::new(Turn::default());
        let work = Box::new(move |thread: &mut Thread, going_on: GoingOn<'_>| {
            let outcome = work(thread);
            // Who has the outcome can ask for the next thing.
            drop(going_on);
            // Whoever asked may have been dropped.
            let _ = sender.send(outcome);
        });
        // A thread that died drops the work, which is noticed when it is waited for.
        let _ = self.jobs.send(Job::Task { turn: Arc::clone(&turn), work });
        self.task = Some((Arc::clone(&turn), limits.call));
        Task::new(reply, turn, Arc::clone(&self.tracker), limits)
    }

    /// Whether a task is waiting for its turn or going on. It is not sampled meanwhile.
    pub(crate) fn in_task(&self) -> bool {
        self.task.as_ref().is_some_and(|(turn, _)| !turn.is_over())
    }

    /// The call of a task that has not returned in time.
    pub(crate) fn overdue_task(&self) -> Option<Running> {
        let (turn, call) = self.task.as_ref()?;
        if turn.is_going_on() { self.tracker.overdue(*call) } else { None }
    }

    /// Asks for a round, unless one is still going on, or a task.
    pub(crate) fn ask(&mut self, classes: Classes, now: Instant) {
        if self.round.is_some() || self.in_task() {
            return;
        }
        let (reply, pending) = Pending::new();
        // A thread that died drops the reply, which is noticed when it is waited for.
        let _ = self.jobs.send(Job::Round { classes, now, sent: pending.sent, reply });
        self.round = Some(pending);
    }

    /// Takes the report of a round that ended since it was last waited for.
    pub(crate) fn take_late(&mut self) -> Option<Report> {
        take_late(&mut self.round)
    }

    /// Waits for the round until `end`, but no longer than one call may take.
    pub(crate) async fn wait(&mut self, deadline: Duration, end: Instant) -> Option<Progress<Report>> {
        wait(&mut self.round, &self.tracker, deadline, end).await
    }

    /// Asks where the GPU sits, unless the worker has something to do already.
    pub(crate) fn ask_locality(&mut self, known: GpuAnswers, peers: Vec<Peer>, now: Instant) {
        if self.is_busy() {
            return;
        }
        let (reply, pending) = Pending::new();
        let _ = self.jobs.send(Job::Locality { known, peers, now, reply });
        self.locality = Some(pending);
    }

    /// Takes answers that came since they were last waited for.
    pub(crate) fn take_late_locality(&mut self) -> Option<GpuAnswers> {
        take_late(&mut self.locality)
    }

    /// Waits for what [`Worker::ask_locality`] asked for, as long as for a round.
    pub(crate) async fn wait_locality(
        &mut self,
        deadline: Duration,
        end: Instant,
    ) -> Option<Progress<GpuAnswers>> {
        wait(&mut self.locality, &self.tracker, deadline, end).await
    }

    /// The call that has not returned in time.
    pub(crate) fn overdue(&self, deadline: Duration) -> Option<Running> {
        if self.task.as_ref().is_some_and(|(turn, _)| turn.is_going_on()) {
            return self.overdue_task();
        }
        let round = self.round.as_ref().and_then(|round| round.overdue(&self.tracker, deadline));
        round.or_else(|| self.locality.as_ref().and_then(|asked| asked.overdue(&self.tracker, deadline)))
    }

    /// The call that is running now.
    pub(crate) fn running(&self) -> Option<Running> {
        if self.is_busy() { self.tracker.running() } else { None }
    }

    /// Whether it has something to do.
    pub(crate) fn is_busy(&self) -> bool {
        self.round.is_some() || self.locality.is_some() || self.in_task()
    }

    /// Lets the thread end after its present call. Whoever wants to know when joins it.
    pub(crate) fn dismiss(self) -> (JoinHandle<()>, Arc<Tracker>) {
        (self.thread, self.tracker)
    }
}
