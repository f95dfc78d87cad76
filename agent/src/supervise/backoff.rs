//! How long to wait before what failed is tried again: a loop that ended, an address that cannot be listened on.

use std::time::{Duration, Instant};

/// The first wait.
const FIRST: Duration = Duration::from_millis(250);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(30);
/// A loop that ran for this long is well again: its next end counts as the first.
const WELL: Duration = Duration::from_secs(60);

/// Waits that double with each end in a row.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    ends_in_a_row: u32,
}

impl Backoff {
    /// The wait after a run from `begun` to `now`.
    pub(crate) fn after_run(&mut self, begun: Instant, now: Instant) -> Duration {
        if now.saturating_duration_since(begun) >= WELL {
            self.ends_in_a_row = 0;
        }
        let factor = 2u32.saturating_pow(self.ends_in_a_row);
        self.ends_in_a_row = self.ends_in_a_row.saturating_add(1);
        FIRST.saturating_mul(factor).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let mut backoff = Backoff::default();
        let now = Instant::now();
        let waits: Vec<u128> = (0..9).map(|_| backoff.after_run(now, now).as_millis()).collect();
        assert_eq!(waits, [250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
        for _ in 0..100 {
            assert_eq!(backoff.after_run(now, now), LONGEST, "without overflow");
        }
    }

    #[test]
    fn a_long_run_begins_anew() {
        let mut backoff = Backoff::default();
        let begun = Instant::now();
        backoff.after_run(begun, begun);
        backoff.after_run(begun, begun);
        assert_eq!(backoff.after_run(begun, begun + WELL), FIRST);
        assert_eq!(backoff.after_run(begun, begun + WELL / 2), FIRST * 2);
    }
}
