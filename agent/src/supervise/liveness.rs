//! Whether every loop makes progress.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// When a loop last made progress, and how long it may take until it does again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pace {
    /// The last progress.
    pub(crate) last: Instant,
    /// The longest time between two.
    pub(crate) limit: Duration,
}

/// Decides from the pace of each loop.
///
/// # Errors
/// Names every loop that is late, and by how much.
pub(crate) fn verdict(paces: &BTreeMap<&'static str, Pace>, now: Instant) -> Result<(), String> {
    let late: Vec<String> = paces
        .iter()
        .map(|(name, pace)| (name, now.saturating_duration_since(pace.last), pace.limit))
        .filter(|(_, age, limit)| age > limit)
        .map(|(name, age, limit)| {
            let (age, limit) = (age.as_secs_f64(), limit.as_secs_f64());
            format!(
                "the loop `{name}` has made no progress for {age:.1} s (at most {limit:.1} s are expected)"
            )
        })
        .collect();
    if late.is_empty() { Ok(()) } else { Err(late.join("; ")) }
}

/// The paces of all loops, told by the loops themselves.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress(Arc<Mutex<BTreeMap<&'static str, Pace>>>);

impl Progress {
    /// The loop `name` made progress at `now` and will again within `limit`.
    pub(crate) fn made(&self, name: &'static str, now: Instant, limit: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name, Pace { last: now, limit });
    }

    /// [`verdict`] on the loops that have told their pace.
    pub(crate) fn verdict(&self, now: Instant) -> Result<(), String> {
        verdict(&self.0.lock().unwrap_or_else(PoisonError::into_inner), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_loops_are_named_and_others_are_not() {
        let start = Instant::now();
        let progress = Progress::default();
        assert_eq!(progress.verdict(start), Ok(()), "nothing has begun");
        progress.made("sample", start, Duration::from_secs(5));
        progress.made("topology", start, Duration::from_secs(60));
        assert_eq!(progress.verdict(start + Duration::from_secs(5)), Ok(()));
        let late = progress.verdict(start + Duration::from_secs(6)).unwrap_err();
        assert!(late.contains("`sample`") && late.contains("6.0 s") && !late.contains("topology"), "{late}");
        progress.made("sample", start + Duration::from_secs(6), Duration::from_secs(5));
        assert_eq!(progress.verdict(start + Duration::from_secs(6)), Ok(()));
    }
}
