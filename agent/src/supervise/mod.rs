//! Keeps the loops running: one that ends or panics is started again, and all end when it is time.
//!
//! ```text
//!            spawn                     ends or panics
//!   (new) ----------> running ------------------------> waiting (back-off)
//!                      ^  |                              |  |
//!                      |  '--- shutdown ---> ended <-----'  |
//!                      '------------ wait is over ----------'
//! ```

pub(crate) mod backoff;
pub(crate) mod liveness;
pub(crate) mod readiness;
pub(crate) mod shutdown;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulet_exporter::Own;
use tokio::task::{JoinError, JoinSet};

use backoff::Backoff;
use shutdown::Shutdown;

/// What ended a loop before its time.
pub(crate) type LoopError = Box<dyn std::error::Error + Send + Sync>;

type Run = Pin<Box<dyn Future<Output = Result<(), LoopError>> + Send>>;

/// Runs the loops.
pub(crate) struct Supervisor {
    tasks: JoinSet<()>,
    own: Arc<Own>,
    shutdown: Shutdown,
}

impl Supervisor {
    /// A supervisor that starts nothing again once `shutdown` is requested, and counts restarts in `own`.
    pub(crate) fn new(own: Arc<Own>, shutdown: Shutdown) -> Self {
        Self { tasks: JoinSet::new(), own, shutdown }
    }

    /// Keeps the loop `name` running; `start` begins a run of it. A loop ends by itself only when shutdown is requested.
    pub(crate) fn keep<F>(&mut self, name: &'static str, mut start: impl FnMut() -> F + Send + 'static)
    where
        F: Future<Output = Result<(), LoopError>> + Send + 'static,
    {
        let start = Box::new(move || -> Run { Box::pin(start()) });
        self.tasks.spawn(keep_running(name, start, Arc::clone(&self.own), self.shutdown.clone()));
    }

    /// Waits until every loop has ended, for no longer than `deadline`; those that have not are dropped.
    ///
    /// Tells how many were.
    pub(crate) async fn ended(mut self, deadline: Duration) -> usize {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(deadline, all).await;
        self.tasks.len()
    }
}

async fn keep_running(
    name: &'static str,
    mut start: Box<dyn FnMut() -> Run + Send>,
    own: Arc<Own>,
    shutdown: Shutdown,
) {
    let mut backoff = Backoff::default();
    loop {
        let begun = Instant::now();
        // Within a set, so that a run is dropped with the task that watches it.
        let mut run = JoinSet::new();
        run.spawn(start());
        let end = End::from(run.join_next().await);
        if shutdown.is_requested() {
            return;
        }
        if let Some(restarts) = own.loop_restarts(name) {
            restarts.inc();
        }
        let wait = backoff.after_run(begun, Instant::now());
        tracing::error!(r#loop = name, %end, wait_seconds = wait.as_secs_f64(), "a loop ended and is started again");
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = shutdown.requested() => return,
        }
    }
}

/// How a run of a loop ended.
enum End {
    Returned,
    Failed(LoopError),
    Panicked(String),
}

impl From<Option<Result<Result<(), LoopError>, JoinError>>> for End {
    fn from(joined: Option<Result<Result<(), LoopError>, JoinError>>) -> Self {
        match joined {
            None | Some(Ok(Ok(()))) => Self::Returned,
            Some(Ok(Err(error))) => Self::Failed(error),
            Some(Err(error)) => Self::Panicked(error.to_string()),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Returned => f.write_str("it returned"),
            Self::Failed(error) => write!(f, "{error}"),
            Self::Panicked(how) => write!(f, "it panicked: {how}"),
        }
    }
}

#[cfg(test)]
mod tests;
