//! When which values are read.

use std::time::{Duration, Instant};

use gpulet_nvml::Classes;

use crate::config::settings::Sampling;

/// The ticks of the two classes of values. Ticks that were missed are skipped, never made up for.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    next_fast: Option<Instant>,
    next_slow: Option<Instant>,
}

impl Schedule {
    /// When something is due next; at once before the first tick.
    pub(crate) fn next(&self, now: Instant) -> Instant {
        match (self.next_fast, self.next_slow) {
            (Some(fast), Some(slow)) => fast.min(slow),
            _ => now,
        }
    }

    /// What is due at `now`; it will be due again one interval later.
    pub(crate) fn take(&mut self, now: Instant, sampling: &Sampling) -> Classes {
        Classes {
            fast: take_one(&mut self.next_fast, now, sampling.interval),
            slow: take_one(&mut self.next_slow, now, sampling.slow_interval),
        }
    }

    /// Makes everything due at once.
    pub(crate) fn all_due(&mut self) {
        *self = Self::default();
    }

    /// Brings ticks that lie further ahead than the intervals forward, after the intervals became shorter.
    pub(crate) fn intervals_changed(&mut self, now: Instant, sampling: &Sampling) {
        let bring = |next: Option<Instant>, interval| next.map(|next: Instant| next.min(now + interval));
        self.next_fast = bring(self.next_fast, sampling.interval);
        self.next_slow = bring(self.next_slow, sampling.slow_interval);
    }
}

fn take_one(next: &mut Option<Instant>, now: Instant, interval: Duration) -> bool {
    let Some(due) = *next else {
        *next = Some(now + interval);
        return true;
    };
    if now < due {
        return false;
    }
    // In step with the ticks before, so that a late one does not shift all that follow.
    let late = now.duration_since(due).as_nanos() % interval.as_nanos().max(1);
    let late = Duration::from_nanos(u64::try_from(late).unwrap_or(0));
    *next = Some(now + interval.saturating_sub(late));
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sampling(interval_ms: u64, slow_ms: u64) -> Sampling {
        Sampling {
            interval: Duration::from_millis(interval_ms),
            slow_interval: Duration::from_millis(slow_ms),
            ..Sampling::default()
        }
    }

    #[test]
    fn each_class_has_its_ticks() {
        let (sampling, start) = (sampling(1000, 3000), Instant::now());
        let mut schedule = Schedule::default();
        assert_eq!(schedule.next(start), start);
        let mut at = start;
        let mut slow = Vec::new();
        for tick in 0..7 {
            let classes = schedule.take(at, &sampling);
            assert!(classes.fast);
            slow.extend(classes.slow.then_some(tick));
            at = schedule.next(at);
        }
        assert_eq!(slow, [0, 3, 6]);
        assert_eq!(at, start + Duration::from_secs(7));
    }

    #[test]
    fn missed_ticks_are_skipped_in_step() {
        let (sampling, start) = (sampling(1000, 10_000), Instant::now());
        let mut schedule = Schedule::default();
        schedule.take(start, &sampling);
        let late = start + Duration::from_millis(4300);
        assert!(schedule.take(late, &sampling).fast);
        assert_eq!(schedule.next(late), start + Duration::from_secs(5));
        assert!(!schedule.take(late, &sampling).fast, "taken once");
    }

    #[test]
    fn a_shorter_interval_is_heard_at_once_and_all_can_be_made_due() {
        let start = Instant::now();
        let mut schedule = Schedule::default();
        schedule.take(start, &sampling(60_000, 60_000));
        schedule.intervals_changed(start, &sampling(500, 60_000));
        assert_eq!(schedule.next(start), start + Duration::from_millis(500));
        schedule.all_due();
        assert_eq!(schedule.take(start, &sampling(500, 60_000)), Classes { fast: true, slow: true });
    }

    proptest! {
        #[test]
        fn the_next_tick_is_ahead_and_no_further_than_an_interval(
            interval in 100u64..5000,
            delays in proptest::collection::vec(0u64..20_000, 1..20),
        ) {
            let sampling = sampling(interval, interval * 2);
            let mut schedule = Schedule::default();
            let mut now = Instant::now();
            for delay in delays {
                schedule.take(now, &sampling);
                let next = schedule.next(now);
                prop_assert!(next > now && next <= now + sampling.interval);
                now += Duration::from_millis(delay);
            }
        }
    }
}
