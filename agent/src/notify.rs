//! What the service manager is told. Without one (`$NOTIFY_SOCKET` is unset) nothing is.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// The agent does its work.
pub(crate) fn ready() {
    send(&[NotifyState::Ready, NotifyState::Status("sampling the GPUs and serving metrics")]);
}

/// The agent is ending.
pub(crate) fn stopping() {
    send(&[NotifyState::Stopping]);
}

/// The agent reads its configuration again; [`ready`] must follow.
pub(crate) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(error) => tracing::debug!(%error, "the clock cannot be read"),
    }
}

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "the service manager could not be told");
    }
}

/// Tells the service manager that the agent makes progress, as often as it wants to hear it.
///
/// It is driven by the sampling loop alone: if that stands still, so does this, and the agent is started anew.
#[derive(Debug)]
pub(crate) struct Watchdog {
    pace: Pace,
}

impl Watchdog {
    /// The watchdog that the service manager asks for; none if it does not.
    pub(crate) fn from_environment() -> Option<Self> {
        sd_notify::watchdog_enabled().map(|limit| Self { pace: Pace::new(limit) })
    }

    /// The longest time between two signs of progress that the service manager accepts.
    pub(crate) fn limit(&self) -> Duration {
        self.pace.limit
    }

    /// There was progress at `now`.
    pub(crate) fn progress(&mut self, now: Instant) {
        if self.pace.is_due(now) {
            send(&[NotifyState::Watchdog]);
        }
    }
}

/// When to tell again: after a quarter of the limit, so that ticks that come late do no harm.
#[derive(Debug)]
struct Pace {
    limit: Duration,
    last: Option<Instant>,
}

impl Pace {
    fn new(limit: Duration) -> Self {
        Self { limit, last: None }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let due = self.last.is_none_or(|last| now.saturating_duration_since(last) * 4 >= self.limit);
        if due {
            self.last = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_a_few_times_per_limit() {
        let start = Instant::now();
        let mut pace = Pace::new(Duration::from_secs(20));
        let told: Vec<u64> =
            (0..20).filter(|second| pace.is_due(start + Duration::from_secs(*second))).collect();
        assert_eq!(told, [0, 5, 10, 15]);
    }
}
