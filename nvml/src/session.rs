//! When to open the driver: a state machine without I/O.
//!
//! ```text
//!            tick                 opened
//!  Closed ─────────▶ Opening ─────────────▶ Open ──┐ gone (at most once per back-off,
//!    ▲                ▲   │ failed           │     │ unless it was healthy in between), or outdated
//!    │           tick │   ▼                  │     │
//!    │              Waiting{until}           │     │
//!    │                ▲                      │     │
//!    │ resumed        │        quiesced      │     │
//!    └──── Quiesced ◀─┴──────────────────────┘     │
//!                     Opening ◀────────────────────┘
//! ```
//! Back-off doubles from 1 s to 60 s without jitter: one agent per node talks to that node's driver alone.

use std::time::{Duration, Instant};

const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LAST_BACKOFF: Duration = Duration::from_secs(60);

/// Where the driver is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not open; due to be opened.
    Closed,
    /// A thread opens it.
    Opening,
    /// Open. If it is found gone before `reopen_after` it stays as it is until then.
    Open {
        /// When it may be opened anew.
        reopen_after: Instant,
    },
    /// Could not be opened; due again then.
    Waiting {
        /// When to try again.
        until: Instant,
    },
    /// Let go of on request.
    Quiesced,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// Time went on.
    Tick,
    /// Opening succeeded.
    Opened,
    /// Opening failed or was refused.
    OpenFailed,
    /// At least one GPU gave data.
    Healthy,
    /// No GPU gives data any more, or what is loaded is not what was opened.
    Gone,
    /// It was changed by us so that what is known of it may no longer hold.
    Outdated,
    /// It was let go of on request.
    Quiesced,
    /// It may be taken up again.
    Resumed,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    /// Nothing.
    Nothing,
    /// Open the driver.
    Open,
    /// Let go of it and open it anew.
    Reopen,
}

/// The state machine.
#[derive(Debug)]
pub(crate) struct Session {
    phase: Phase,
    backoff: Duration,
}

impl Session {
    /// Closed, and due to be opened.
    pub(crate) fn new() -> Self {
        Self { phase: Phase::Closed, backoff: FIRST_BACKOFF }
    }

    /// Whether it is being opened.
    pub(crate) fn is_opening(&self) -> bool {
        self.phase == Phase::Opening
    }

    /// Takes one step. Events that mean nothing in the present phase change nothing.
    pub(crate) fn step(&mut self, event: Event, now: Instant) -> Command {
        let (phase, command) = match (self.phase, event) {
            (Phase::Closed, Event::Tick) => (Phase::Opening, Command::Open),
            (Phase::Waiting { until }, Event::Tick) if now >= until => (Phase::Opening, Command::Open),
            (Phase::Opening, Event::Opened) => {
                (Phase::Open { reopen_after: now + self.take_backoff() }, Command::Nothing)
            }
            (Phase::Opening, Event::OpenFailed) => {
                (Phase::Waiting { until: now + self.take_backoff() }, Command::Nothing)
            }
            (Phase::Open { .. }, Event::Healthy) => {
                self.backoff = FIRST_BACKOFF;
                (Phase::Open { reopen_after: now }, Command::Nothing)
            }
            (Phase::Open { reopen_after }, Event::Gone) if now >= reopen_after => {
                (Phase::Opening, Command::Reopen)
            }
            (Phase::Open { .. }, Event::Outdated) => (Phase::Opening, Command::Reopen),
            // Whoever lets go of it has seen to it that no thread opens it any more.
            (_, Event::Quiesced) => (Phase::Quiesced, Command::Nothing),
            (Phase::Quiesced, Event::Resumed) => {
                self.backoff = FIRST_BACKOFF;
                (Phase::Closed, Command::Nothing)
            }
            (phase, _) => (phase, Command::Nothing),
        };
        self.phase = phase;
        command
    }

    /// The time to wait now; the next is twice as long.
    fn take_backoff(&mut self) -> Duration {
        let backoff = self.backoff;
        self.backoff = (backoff * 2).min(LAST_BACKOFF);
        backoff
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
