//! What was asked of the API server, counted.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Requests and bytes by kind, since the start. Shared by everything that asks.
#[derive(Debug, Default)]
pub struct Traffic {
    counts: Mutex<BTreeMap<Kind, Count>>,
}

/// A kind of request and how it was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// `get`, `list`, `watch`, `create`, `apply` or `patch`.
    pub verb: &'static str,
    /// The resource, such as `nodes` or `nodes/status`.
    pub resource: &'static str,
    /// The HTTP status; absent: there was no answer.
    pub code: Option<u16>,
}

/// How many, and how much.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Requests.
    pub requests: u64,
    /// Bytes of their bodies.
    pub sent_bytes: u64,
    /// Bytes of the answers' bodies, as far as they were read. Those of a watch are counted as they come.
    pub received_bytes: u64,
}

impl Traffic {
    /// All counts, by kind.
    pub fn counts(&self) -> BTreeMap<Kind, Count> {
        self.lock().clone()
    }

    /// Requests of a verb on a resource, however they were answered.
    pub fn requests(&self, verb: &str, resource: &str) -> u64 {
        let counts = self.lock();
        let kinds = counts.iter().filter(|(kind, _)| kind.verb == verb && kind.resource == resource);
        kinds.map(|(_, count)| count.requests).sum()
    }

    pub(crate) fn asked(&self, kind: Kind, sent_bytes: u64) {
        let mut counts = self.lock();
        let count = counts.entry(kind).or_default();
        count.requests += 1;
        count.sent_bytes += sent_bytes;
    }

    pub(crate) fn received(&self, kind: Kind, bytes: u64) {
        self.lock().entry(kind).or_default().received_bytes += bytes;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Kind, Count>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
