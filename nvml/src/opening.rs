//! Opening the driver, on a thread of its own: loading and initialising the library can hang like any other call.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::Options;
use crate::library::{self, OpenError, Opened};
use crate::stats::Stats;
use crate::tracker::{Running, Tracker};

/// The thread that opens the driver, as seen from outside.
#[derive(Debug)]
pub(crate) struct Opening {
    reply: oneshot::Receiver<Result<Opened, OpenError>>,
    tracker: Arc<Tracker>,
    started: Instant,
    // Detached when this is dropped; its end is seen through `reply`.
    _thread: JoinHandle<()>,
}

impl Opening {
    /// Starts it.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(options: &Options, stats: &Arc<Stats>) -> Result<Self, OpenError> {
        let tracker = Arc::new(Tracker::default());
        let (sender, reply) = oneshot::channel();
        let (options, stats, watched) = (options.clone(), Arc::clone(stats), Arc::clone(&tracker));
        let thread = thread::Builder::new()
            .name("gpu-open".into())
            .spawn(move || {
                // If no one waits any more, the library is shut down here, by the thread that opened it.
                let _ = sender.send(library::open(&options, &watched, &stats));
            })
            .map_err(|error| OpenError::NoThread { why: error.to_string() })?;
        Ok(Self { reply, tracker, started: Instant::now(), _thread: thread })
    }

    /// Waits for it until `end`.
    pub(crate) async fn wait(&mut self, end: Instant) -> Option<Result<Opened, OpenError>> {
        let outcome =
            tokio::time::timeout_at(tokio::time::Instant::from_std(end), &mut self.reply).await.ok()?;
        Some(
            outcome.unwrap_or_else(|_| {
                Err(OpenError::NoThread { why: "the thread that opens it panicked".into() })
            }),
        )
    }

    /// The call that it is in, if opening takes longer than `deadline`.
    pub(crate) fn overdue(&self, deadline: Duration) -> Option<Running> {
        let running = self.tracker.running()?;
        (self.started.elapsed() >= deadline).then_some(running)
    }

    /// The call that it is in, and for how long it has been opening.
    pub(crate) fn running(&self) -> (&'static str, Duration) {
        let call = self.tracker.running().map_or("dlopen", |running| running.call);
        (call, self.started.elapsed())
    }
}
