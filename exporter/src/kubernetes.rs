//! What the agent counts about Kubernetes: its questions to the kubelet and the API server, and what it publishes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gpulet_inventory::word::Word;
use gpulet_topology::nrt::NoteReason;
use gpulet_topology::nrt::publisher::{State, Why};

/// Words for why nothing is published, besides those of [`State::REASONS`].
pub(crate) const WAITING: [Word; 4] = ["NoAccess", "NoNode", "NoKubelet", "Unwritable"];

/// Counts and states of what has to do with Kubernetes.
#[derive(Debug, Default)]
pub struct Kubernetes(Mutex<Inner>);

#[derive(Debug, Default)]
pub(crate) struct Inner {
    /// How publishing gets on; absent where nothing is to be published.
    pub(crate) state: Option<Word>,
    pub(crate) writes: BTreeMap<Word, u64>,
    pub(crate) write_failures: BTreeMap<Word, u64>,
    pub(crate) unchanged: u64,
    /// Time since the Unix epoch.
    pub(crate) published: Option<Duration>,
    /// How many by reason.
    pub(crate) notes: BTreeMap<Word, u64>,
    pub(crate) kubelet: Kubelet,
    pub(crate) requests: BTreeMap<ApiRequest, ApiCount>,
}

/// What was asked of the kubelet.
#[derive(Debug, Default)]
pub(crate) struct Kubelet {
    /// Whether it is asked at all.
    pub(crate) asked: bool,
    pub(crate) answers: u64,
    pub(crate) answered: Option<Instant>,
    pub(crate) failures: BTreeMap<Word, u64>,
    pub(crate) restarts: u64,
}

/// A kind of request to the API server and how it was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiRequest {
    /// What was asked, such as `watch` or `apply`.
    pub verb: Word,
    /// Of which resource, such as `nodes/status`.
    pub resource: Word,
    /// The HTTP status; absent: there was no answer.
    pub code: Option<u16>,
}

/// How many requests, and how much they were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ApiCount {
    /// Requests.
    pub requests: u64,
    /// Bytes of their bodies.
    pub sent_bytes: u64,
    /// Bytes of the answers' bodies.
    pub received_bytes: u64,
}

impl Kubernetes {
    /// How publishing gets on: a word of [`State::REASONS`], or of those for what comes before it.
    pub fn publication(&self, state: Word) {
        self.lock().state = Some(state);
    }

    /// The object was written, for this reason; `at` is the time since the Unix epoch.
    pub fn wrote(&self, why: Why, at: Duration) {
        let mut inner = self.lock();
        *inner.writes.entry(why.as_str()).or_default() += 1;
        inner.published = Some(at);
    }

    /// Reading or writing the object failed, for this reason.
    pub fn not_written(&self, reason: Word) {
        *self.lock().write_failures.entry(reason).or_default() += 1;
    }

    /// What is to be published was found to be what it was before.
    pub fn unchanged(&self) {
        self.lock().unchanged += 1;
    }

    /// What was left out of the object or is odd about it.
    pub fn notes(&self, notes: impl Iterator<Item = NoteReason>) {
        let mut counts = BTreeMap::new();
        for reason in notes {
            *counts.entry(reason.as_str()).or_default() += 1;
        }
        self.lock().notes = counts;
    }

    /// The kubelet is asked from now on.
    pub fn kubelet_asked(&self) {
        self.lock().kubelet.asked = true;
    }

    /// The kubelet answered at `now`.
    pub fn kubelet_answered(&self, now: Instant) {
        let kubelet = &mut self.lock().kubelet;
        kubelet.answers += 1;
        kubelet.answered = Some(now);
    }

    /// The kubelet did not answer, for this reason.
    pub fn kubelet_failed(&self, reason: Word) {
        *self.lock().kubelet.failures.entry(reason).or_default() += 1;
    }

    /// The kubelet's socket came or went.
    pub fn kubelet_restarted(&self) {
        self.lock().kubelet.restarts += 1;
    }

    /// Everything that was asked of the API server so far.
    pub fn requests(&self, counts: impl Iterator<Item = (ApiRequest, ApiCount)>) {
        self.lock().requests = counts.collect();
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Every word that the state of publication can be.
pub(crate) fn states() -> Vec<Word> {
    State::REASONS.into_iter().chain(WAITING).collect()
}
