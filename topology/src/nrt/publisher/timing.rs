//! How long the publisher waits for what.

use std::time::{Duration, Instant};

use super::super::object::Body;
use super::event::Failure;

/// How long the publisher waits for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// A change is written once nothing has changed for this long,
    pub quiet: Duration,
    /// or at the latest this long after the first change.
    pub latest: Duration,
    /// Between two writes, and between two reads, at least.
    pub interval: Duration,
    /// What has not been written for this long is written again; up to a fifth is added, so that nodes do not do it all at
    /// once.
    pub refresh: Duration,
    /// After the start and whenever the kubelet is unsettled, nothing vanishes for this long.
    pub hold_down: Duration,
    /// The first wait after a failure; each further one is twice as long,
    pub first_wait: Duration,
    /// up to this, from which the random part is taken.
    pub longest_wait: Duration,
    /// The first wait for a CustomResourceDefinition that is not installed.
    pub not_installed_wait: Duration,
    /// When the API server is back after it was away, nodes come back to it within this time.
    pub spread: Duration,
    /// Between two looks at an object that another publisher owns.
    pub look_again: Duration,
    /// Within this time, an object is taken from others at most [`Timing::contests`] times.
    pub peace: Duration,
    /// See [`Timing::peace`].
    pub contests: usize,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            quiet: Duration::from_millis(200),
            latest: Duration::from_secs(1),
            interval: Duration::from_secs(1),
            refresh: Duration::from_secs(600),
            hold_down: Duration::from_secs(60),
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_secs(300),
            not_installed_wait: Duration::from_secs(15),
            spread: Duration::from_secs(10),
            look_again: Duration::from_secs(300),
            peace: Duration::from_secs(3600),
            contests: 3,
        }
    }
}

/// Random parts of waits, from a seed: the same seed gives the same ones (SplitMix64).
#[derive(Debug, Clone)]
pub(super) struct Jitter(u64);

impl Jitter {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// From 0 up to `most`.
    pub(super) fn up_to(&mut self, most: Duration) -> Duration {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        // The upper half as a fraction of 2^32.
        most.mul_f64((mixed >> 32) as f64 / 4_294_967_296.0)
    }
}

/// When what failed may be tried again.
#[derive(Debug, Clone, Default)]
pub(super) struct Backoff {
    in_a_row: u32,
    last: Option<Failure>,
    until: Option<Instant>,
}

impl Backoff {
    /// Not before this; absent: at once.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// It worked.
    pub(super) fn over(&mut self) {
        *self = Self::default();
    }

    /// It failed at `now`.
    pub(super) fn failed(&mut self, failure: Failure, now: Instant, timing: &Timing, jitter: &mut Jitter) {
        if self.last.map(|last| last.reason()) != Some(failure.reason()) {
            self.in_a_row = 0;
        }
        let (first, asked) = match failure {
            Failure::NotInstalled => (timing.not_installed_wait, Duration::ZERO),
            Failure::Throttled { retry_after } => (timing.first_wait, retry_after.unwrap_or_default()),
            // The same again would be refused again.
            Failure::Invalid => (timing.longest_wait, Duration::ZERO),
            _ => (timing.first_wait, Duration::ZERO),
        };
        let doubled = first.saturating_mul(2u32.saturating_pow(self.in_a_row)).min(timing.longest_wait);
        // Half of it is random, so that nodes that failed together do not come back together.
        let wait = doubled / 2 + jitter.up_to(doubled / 2);
        // What the API server asks for is kept to, with a random part on top.
        let asked = if asked.is_zero() { asked } else { asked + jitter.up_to(timing.first_wait) };
        self.until = Some(now + wait.max(asked));
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.last = Some(failure);
    }

    /// The API server answers again, and knows the kind: if that was lacking, there is no need to wait for longer than
    /// `spread`.
    pub(super) fn api_back(&mut self, now: Instant, spread: Duration) {
        if matches!(self.last, Some(Failure::Unreachable | Failure::NotInstalled)) {
            self.until = self.until.map(|until| until.min(now + spread));
        }
    }
}

/// How often the object was taken from others lately.
#[derive(Debug, Clone, Default)]
pub(super) struct Contests(Vec<Instant>);

impl Contests {
    /// It is taken from others at `now`.
    pub(super) fn count(&mut self, now: Instant, timing: &Timing) {
        self.0.retain(|at| now.saturating_duration_since(*at) < timing.peace);
        self.0.push(now);
    }

    /// Whether that was too often.
    pub(super) fn too_many(&self, now: Instant, timing: &Timing) -> bool {
        let lately = self.0.iter().filter(|at| now.saturating_duration_since(**at) < timing.peace);
        lately.count() >= timing.contests
    }

    /// Forget them.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

/// The changes that wait to be written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Changes(Option<(Instant, Instant)>);

impl Changes {
    /// Something changed at `now`. What changed long ago and was not written then changed back.
    pub(super) fn add(&mut self, now: Instant, timing: &Timing) {
        let recent = self.0.filter(|(_, last)| now.saturating_duration_since(*last) < timing.latest);
        self.0 = Some((recent.map_or(now, |(first, _)| first), now));
    }

    /// Nothing waits any more.
    pub(super) fn clear(&mut self) {
        self.0 = None;
    }

    /// When they are to be written; absent without any.
    pub(super) fn due(&self, timing: &Timing) -> Option<Instant> {
        self.0.map(|(first, last)| (last + timing.quiet).min(first + timing.latest))
    }
}

/// Whether `after` says less than `before` of what there is: a resource that a zone had is gone, or less of it is
/// allocatable. How much of it is available does not matter.
pub(super) fn vanishes(before: &Body, after: &Body) -> bool {
    before.zones.iter().any(|zone| {
        let now = after.zones.iter().find(|now| now.name == zone.name);
        zone.resources.iter().any(|had| {
            let has = now.and_then(|now| now.resources.iter().find(|has| has.name == had.name));
            match has {
                None => true,
                // Amounts with a unit are others' and not compared.
                Some(has) => amount(has.allocatable.as_str()) < amount(had.allocatable.as_str()),
            }
        })
    })
}

fn amount(text: &str) -> Option<u64> {
    text.parse().ok()
}
