//! How many calls the kubelet answers.

use std::time::{Duration, Instant};

/// Calls a second, and how many more at once: the kubelet's own figures.
const PER_SECOND: f64 = 100.0;
const BURST: f64 = 10.0;

/// A bucket of tokens, one for each call.
#[derive(Debug)]
pub(super) struct Limiter {
    tokens: f64,
    filled: Option<Instant>,
}

impl Limiter {
    pub(super) fn new() -> Self {
        Self { tokens: BURST, filled: None }
    }

    /// Whether a call is answered.
    pub(super) fn admits(&mut self, now: Instant) -> bool {
        let passed = self.filled.map_or(Duration::ZERO, |filled| now.saturating_duration_since(filled));
        self.filled = Some(now);
        self.tokens = (self.tokens + passed.as_secs_f64() * PER_SECOND).min(BURST);
        let admits = self.tokens >= 1.0;
        if admits {
            self.tokens -= 1.0;
        }
        admits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_calls_at_once_and_a_hundred_a_second() {
        let (mut limiter, start) = (Limiter::new(), Instant::now());
        let admitted = (0..20).filter(|_| limiter.admits(start)).count();
        assert_eq!(admitted, 10);
        let later = start + Duration::from_millis(50);
        assert_eq!((0..20).filter(|_| limiter.admits(later)).count(), 5);
    }
}
