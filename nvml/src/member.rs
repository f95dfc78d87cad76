//! One GPU of an open driver: its worker, and what is known of the GPU by it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulet_inventory::gpu::{Gpu, GpuUuid};
use gpulet_inventory::reading::{Answer, Cause};
use gpulet_inventory::sample::Sample;
use tracing::{error, warn};

use crate::Classes;
use crate::raw::handle::Device;
use crate::raw::symbol;
use crate::worker::{Progress, Report, Worker};

/// How a GPU is.
#[derive(Debug, Clone)]
pub(crate) enum Status {
    /// Its first round is not over.
    NotYet,
    /// It gave these readings.
    Up(Arc<Sample>),
    /// It gave this answer instead.
    Refused(Answer),
    /// A call does not return.
    Stuck {
        /// Which.
        call: &'static str,
        /// For how long it has not.
        since: Duration,
    },
}

/// What is known of a GPU.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// The driver's number.
    pub(crate) index: u32,
    /// What it is, once it said so.
    pub(crate) gpu: Option<Arc<Gpu>>,
    /// How it is.
    pub(crate) status: Status,
    /// When the last round that is over was asked for.
    pub(crate) asked: Instant,
    /// How long that took.
    pub(crate) took: Duration,
}

/// A GPU's worker and what is known by it.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) worker: Worker,
    pub(crate) seen: Seen,
    /// Its handle, once it was taken.
    pub(crate) device: Option<Device>,
    /// Whether the event thread knows of it.
    pub(crate) listened_to: bool,
}

impl Member {
    /// Nothing known yet.
    pub(crate) fn new(worker: Worker, now: Instant) -> Self {
        let seen =
            Seen { index: worker.index, gpu: None, status: Status::NotYet, asked: now, took: Duration::ZERO };
        Self { worker, seen, device: None, listened_to: false }
    }

    /// Starts a round unless one is going on, and takes what a late one brought.
    pub(crate) fn ask(&mut self, classes: Classes, now: Instant) {
        if let Some(report) = self.worker.take_late() {
            self.take_report(report);
        }
        self.worker.ask(classes, now);
    }

    /// Waits for the round.
    pub(crate) async fn wait(&mut self, deadline: Duration, end: Instant) {
        match self.worker.wait(deadline, end).await {
            Some(Progress::Done(report)) => self.take_report(report),
            Some(Progress::Overdue { call, since }) => self.seen.status = Status::Stuck { call, since },
            Some(Progress::Died) => {
                error!(
                    gpu = self.seen.index,
                    "the thread of this GPU panicked; its data is gone until the driver is reopened"
                );
                let died = Answer { call: symbol::HANDLE.name, cause: Cause::NotOpen };
                self.seen.status = Status::Refused(died);
            }
            Some(Progress::Slow) | None => {}
        }
    }

    fn take_report(&mut self, Report { gpu, outcome, asked, took }: Report) {
        if let (None, Status::NotYet, Err(answer)) = (&gpu, &self.seen.status, &outcome) {
            warn!(gpu = self.seen.index, %answer, "a GPU that does not say which one it is");
        }
        if let Some((gpu, device)) = gpu {
            self.seen.gpu = Some(gpu);
            self.device = Some(device);
        }
        self.seen.asked = asked;
        self.seen.took = took;
        self.seen.status = match outcome {
            Ok(sample) => Status::Up(sample),
            Err(answer) => Status::Refused(answer),
        };
    }

    /// Its identity, once known.
    pub(crate) fn uuid(&self) -> Option<&GpuUuid> {
        self.seen.gpu.as_ref().map(|gpu| &gpu.uuid)
    }
}
