//! Which call a thread is in, seen from outside that thread.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::lock::lock;

/// The call that is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Running {
    /// The driver's symbol.
    pub(crate) call: &'static str,
    /// When it was entered.
    pub(crate) started: Instant,
}

impl Running {
    /// For how long it has been running.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

/// Shared by a thread that calls the driver and those who watch it.
#[derive(Debug, Default)]
pub(crate) struct Tracker(Mutex<Option<Running>>);

impl Tracker {
    /// Said before a call. The lock is never held across one.
    pub(crate) fn enter(&self, call: &'static str) {
        *lock(&self.0) = Some(Running { call, started: Instant::now() });
    }

    /// Said after a call.
    pub(crate) fn leave(&self) {
        *lock(&self.0) = None;
    }

    /// The call that is running now.
    pub(crate) fn running(&self) -> Option<Running> {
        *lock(&self.0)
    }

    /// The call that is running now, if it has been for at least `deadline`.
    pub(crate) fn overdue(&self, deadline: Duration) -> Option<Running> {
        self.running().filter(|running| running.elapsed() >= deadline)
    }
}
