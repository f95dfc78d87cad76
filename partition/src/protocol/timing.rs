//! How long is waited.

use std::time::Duration;

/// How long is waited. The defaults suit nodes; tests make them short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Longest time for all clients together to go, where [`wait`](super::Policy::wait) is not shorter.
    pub clients: Duration,
    /// Between two tries to evict a Pod whose budget forbids it.
    pub evict: Duration,
    /// Between two looks while someone is in the way, at most.
    pub look: Duration,
    /// Between two looks, at least.
    pub apart: Duration,
    /// Between two looks while all is well or nothing can be done.
    pub rest: Duration,
    /// Waits after changes that failed.
    pub retry: Pace,
    /// Waits after the API server failed.
    pub api: Pace,
    /// How long the machine may take to go down.
    pub reboot: Duration,
    /// How long what someone else has written over ours is left there.
    pub edited: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            clients: seconds(300),
            evict: seconds(5),
            look: seconds(10),
            apart: seconds(1),
            rest: seconds(300),
            retry: Pace { first: seconds(30), longest: seconds(1800) },
            api: Pace { first: seconds(1), longest: seconds(30) },
            reboot: seconds(600),
            edited: seconds(5),
        }
    }
}

/// Waits that double with each failure in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// The first wait, at most.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

/// Random parts of waits, the same for the same seed.
#[derive(Debug)]
pub(super) struct Jitter(u64);

impl Jitter {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The wait after so many failures in a row, this one included: between half of the time and all of it.
    pub(super) fn wait(&mut self, pace: Pace, failures: u32) -> Duration {
        let all =
            pace.first.saturating_mul(2u32.saturating_pow(failures.saturating_sub(1))).min(pace.longest);
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let part = f64::from((mixed >> 32) as u32) / f64::from(u32::MAX);
        all / 2 + (all / 2).mul_f64(part)
    }
}
