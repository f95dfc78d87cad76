//! Counts calls to the driver, from all threads.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use gpulet_inventory::reading::Cause;
use gpulet_inventory::snapshot::CallStats;

use crate::code::is_unsupported;
use crate::lock::lock;

/// Numbers by call and reason.
type Counts = BTreeMap<&'static str, BTreeMap<&'static str, u64>>;

/// Counters of this process, over all times that the driver was opened.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    made: AtomicU64,
    opens: AtomicU64,
    failed: Mutex<Counts>,
    unsupported: Mutex<Counts>,
}

impl Stats {
    /// A call is about to be made.
    pub(crate) fn made(&self) {
        self.made.fetch_add(1, Ordering::Relaxed);
    }

    /// A call did not succeed, or a field of one did not. That the driver or the GPU does not have it is counted apart.
    pub(crate) fn failed(&self, call: &'static str, cause: Cause) {
        let counts = if is_unsupported(cause) { &self.unsupported } else { &self.failed };
        *lock(counts).entry(call).or_default().entry(cause.reason()).or_default() += 1;
    }

    /// The driver was opened; the number of times so far.
    pub(crate) fn opened(&self) -> u64 {
        self.opens.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The counts as they are now.
    pub(crate) fn snapshot(&self, stuck_threads: usize) -> CallStats {
        CallStats {
            made: self.made.load(Ordering::Relaxed),
            failed: lock(&self.failed).clone(),
            unsupported: lock(&self.unsupported).clone(),
            stuck_threads: u64::try_from(stuck_threads).unwrap_or(u64::MAX),
            opens: self.opens.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{INVALID_ARGUMENT, NOT_SUPPORTED, TIMEOUT};

    #[test]
    fn what_there_is_not_is_no_failure() {
        let stats = Stats::default();
        for cause in [Cause::NoSymbol, Cause::Code(NOT_SUPPORTED), Cause::Code(INVALID_ARGUMENT)] {
            stats.failed("nvmlDeviceGetMigMode", cause);
        }
        stats.failed("nvmlDeviceGetPowerUsage", Cause::Code(TIMEOUT));
        let counted = stats.snapshot(0);
        let failed = BTreeMap::from([("nvmlDeviceGetPowerUsage", BTreeMap::from([("TIMEOUT", 1)]))]);
        assert_eq!(counted.failed, failed);
        let reasons = BTreeMap::from([("INVALID_ARGUMENT", 1), ("NOT_SUPPORTED", 1), ("NO_SYMBOL", 1)]);
        assert_eq!(counted.unsupported, BTreeMap::from([("nvmlDeviceGetMigMode", reasons)]));
    }
}
