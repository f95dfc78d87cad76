//! Something that a worker does besides sampling: it is done in its turn, once, or not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use gpulet_inventory::gpu::GpuUuid;
use tokio::sync::oneshot;

use crate::change::{ChangeError, Doing};
use crate::tracker::Tracker;

/// How long is waited for a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// For a call of what the worker does before.
    pub(crate) before: Duration,
    /// For one call of the task.
    pub(crate) call: Duration,
    /// For all of it.
    pub(crate) whole: Duration,
}

/// How often it is looked whether a call takes too long.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

const WAITING: u8 = 0;
const GOING_ON: u8 = 1;
const OVER: u8 = 2;

/// How far a task is, known to the worker, its thread and whoever asked.
#[derive(Debug, Default)]
pub(crate) struct Turn(AtomicU8);

impl Turn {
    /// Whether it has been done, or will not be.
    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::Acquire) == OVER
    }

    /// Whether it is being done.
    pub(crate) fn is_going_on(&self) -> bool {
        self.0.load(Ordering::Acquire) == GOING_ON
    }

    /// Its turn has come: it goes on until what is returned is dropped. Absent: whoever asked has given up.
    pub(super) fn begin(&self) -> Option<GoingOn<'_>> {
        self.change(WAITING, GOING_ON).then_some(GoingOn(self))
    }

    /// Whoever asked gives up. Whether it will not be done: it may be going on.
    fn give_up(&self) -> bool {
        self.change(WAITING, OVER)
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// A task that is being done.
#[derive(Debug)]
pub(super) struct GoingOn<'a>(&'a Turn);

impl Drop for GoingOn<'_> {
    fn drop(&mut self) {
        self.0.0.store(OVER, Ordering::Release);
    }
}

/// A task, as seen by whoever asked for it. Dropped, it is not begun any more; one that is going on goes on.
#[derive(Debug)]
pub(crate) struct Task<T> {
    reply: oneshot::Receiver<T>,
    turn: Arc<Turn>,
    tracker: Arc<Tracker>,
    limits: Limits,
    end: Instant,
}

/// Why there is no outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotDone {
    /// It was not begun, and will not be: this call has not returned.
    NotBegun { call: &'static str, since: Duration },
    /// It was begun, and this call has not returned.
    TimedOut { call: &'static str, since: Duration },
    /// The thread is gone.
    Died,
}

impl NotDone {
    /// For whoever wanted it.
    pub(crate) fn told(self, gpu: &GpuUuid, doing: Doing) -> ChangeError {
        let gpu = gpu.clone();
        match self {
            Self::NotBegun { call, since } => ChangeError::Busy { gpu, doing, call, since },
            Self::TimedOut { call, since } => ChangeError::TimedOut { gpu, doing, call, since },
            Self::Died => ChangeError::Died { gpu, doing },
        }
    }
}

impl<T> Task<T> {
    pub(super) fn new(
        reply: oneshot::Receiver<T>,
        turn: Arc<Turn>,
        tracker: Arc<Tracker>,
        limits: Limits,
    ) -> Self {
        Self { reply, turn, tracker, limits, end: Instant::now() + limits.whole }
    }

    /// Waits for the outcome.
    pub(crate) async fn wait(mut self) -> Result<T, NotDone> {
        loop {
            match tokio::time::timeout(LOOK_AGAIN, &mut self.reply).await {
                Ok(Ok(outcome)) => return Ok(outcome),
                Ok(Err(_)) => return Err(NotDone::Died),
                Err(_) => {}
            }
            if let Some(not_done) = self.late() {
                // It may have come to its end just now.
                return self.reply.try_recv().map_err(|_| not_done);
            }
        }
    }

    /// Why it is no longer waited for.
    fn late(&self) -> Option<NotDone> {
        let running = self.tracker.running();
        let going_on = self.turn.is_going_on();
        let patience = if going_on { self.limits.call } else { self.limits.before };
        let in_time = running.is_none_or(|running| running.elapsed() < patience);
        if in_time && Instant::now() < self.end {
            return None;
        }
        let (call, since) =
            running.map_or((super::BETWEEN, self.limits.whole), |running| (running.call, running.elapsed()));
        if self.turn.give_up() {
            return Some(NotDone::NotBegun { call, since });
        }
        // If it has begun only now, its own call is in time.
        going_on.then_some(NotDone::TimedOut { call, since })
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.turn.give_up();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        before: Duration::from_secs(3600),
        call: Duration::from_secs(3600),
        whole: Duration::from_secs(3600),
    };

    fn task(limits: Limits) -> (oneshot::Sender<u32>, Arc<Turn>, Arc<Tracker>, Task<u32>) {
        let (sender, reply) = oneshot::channel();
        let (turn, tracker) = (Arc::new(Turn::default()), Arc::new(Tracker::default()));
        let task = Task::new(reply, Arc::clone(&turn), Arc::clone(&tracker), limits);
        (sender, turn, tracker, task)
    }

    #[test]
    fn one_that_is_dropped_is_not_begun_any_more() {
        let (_sender, turn, _tracker, task) = task(LIMITS);
        assert!(!turn.is_over());
        drop(task);
        assert!(turn.is_over() && turn.begin().is_none());
    }

    #[test]
    fn one_that_goes_on_goes_on_until_it_is_over() {
        let (_sender, turn, _tracker, task) = task(LIMITS);
        let going_on = turn.begin().unwrap();
        drop(task);
        assert!(turn.is_going_on() && !turn.is_over());
        drop(going_on);
        assert!(turn.is_over() && turn.begin().is_none());
    }

    #[tokio::test]
    async fn a_call_before_it_that_takes_too_long_has_it_not_begun() {
        let (_sender, turn, tracker, task) = task(Limits { before: Duration::ZERO, ..LIMITS });
        tracker.enter("nvmlDeviceGetPowerUsage");
        let not_done = task.wait().await.unwrap_err();
        assert!(
            matches!(not_done, NotDone::NotBegun { call: "nvmlDeviceGetPowerUsage", .. }),
            "{not_done:?}"
        );
        assert!(turn.begin().is_none());
    }

    #[tokio::test]
    async fn a_call_of_it_that_takes_too_long_leaves_it_going_on() {
        let (_sender, turn, tracker, task) = task(Limits { call: Duration::ZERO, ..LIMITS });
        let _going_on = turn.begin().unwrap();
        tracker.enter("nvmlGpuInstanceDestroy");
        let not_done = task.wait().await.unwrap_err();
        assert!(matches!(not_done, NotDone::TimedOut { call: "nvmlGpuInstanceDestroy", .. }), "{not_done:?}");
        assert!(turn.is_going_on());
    }

    #[tokio::test]
    async fn many_calls_in_time_are_too_long_together() {
        let (_sender, turn, _tracker, task) = task(Limits { whole: Duration::ZERO, ..LIMITS });
        let _going_on = turn.begin().unwrap();
        let not_done = task.wait().await.unwrap_err();
        assert!(matches!(not_done, NotDone::TimedOut { call: crate::worker::BETWEEN, .. }), "{not_done:?}");
    }

    #[tokio::test]
    async fn an_outcome_and_a_thread_that_died_are_told() {
        let (sender, _turn, _tracker, waiting) = task(LIMITS);
        sender.send(7).unwrap();
        assert_eq!(waiting.wait().await, Ok(7));
        let (sender, _turn, _tracker, waiting) = task(LIMITS);
        drop(sender);
        assert_eq!(waiting.wait().await, Err(NotDone::Died));
    }
}
