//! One GPU of an open driver: its worker, and what is known of the GPU by it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulet_inventory::gpu::{Gpu, GpuUuid};
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::reading::{Answer, Cause};
use gpulet_inventory::sample::Sample;
use tracing::error;

use crate::Classes;
use crate::raw::handle::Device;
use crate::raw::symbol;
use crate::read::locality::{GpuAnswers, Peer};
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
    /// Where it sits, once it said so.
    pub(crate) pci: Option<PciAddress>,
    /// What it is, once it said so.
    pub(crate) gpu: Option<Arc<Gpu>>,
    /// How it is.
    pub(crate) status: Status,
    /// When the last round that is over was asked for.
    pub(crate) asked: Instant,
    /// How long that took.
    pub(crate) took: Duration,
}

impl Seen {
    /// Whether it may be this GPU, by its place, or by its number where it has not told its place either.
    pub(crate) fn may_be(&self, gpu: &Gpu) -> bool {
        self.pci.map_or(self.index == gpu.index, |pci| pci == gpu.pci)
    }
}

/// A GPU's worker and what is known by it.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) worker: Worker,
    pub(crate) seen: Seen,
    /// Its handle, once it was taken.
    pub(crate) device: Option<Device>,
    /// Where it sits and how near the others are, as far as it was asked.
    pub(crate) locality: Option<GpuAnswers>,
    /// Whether the event thread knows of it.
    pub(crate) listened_to: bool,
}

impl Member {
    /// Nothing known yet.
    pub(crate) fn new(worker: Worker, now: Instant) -> Self {
        let seen = Seen {
            index: worker.index,
            pci: None,
            gpu: None,
            status: Status::NotYet,
            asked: now,
            took: Duration::ZERO,
        };
        Self { worker, seen, device: None, locality: None, listened_to: false }
    }

    /// Starts a round unless one is going on, and takes what a late one brought.
    pub(crate) fn ask(&mut self, classes: Classes, now: Instant) {
        self.take_late();
        self.worker.ask(classes, now);
    }

    /// Takes what came since it was last waited for.
    fn take_late(&mut self) {
        if let Some(report) = self.worker.take_late() {
            self.take_report(report);
        }
        if let Some(answers) = self.worker.take_late_locality() {
            self.locality = Some(answers);
        }
    }

    /// Asks where it sits and how near the peers are, as far as that is not known. One that does not know itself yet,
    /// or has something else to do, is not asked.
    pub(crate) fn ask_locality(&mut self, peers: Vec<Peer>, now: Instant) {
        self.take_late();
        let known = self.locality.as_ref();
        if self.device.is_none() || known.is_some_and(|known| known.is_settled(&peers)) {
            return;
        }
        let known = known.cloned().unwrap_or_else(|| GpuAnswers::none(Cause::NotOpen));
        self.worker.ask_locality(known, peers, now);
    }

    /// Waits for that.
    pub(crate) async fn wait_locality(&mut self, deadline: Duration, end: Instant) {
        match self.worker.wait_locality(deadline, end).await {
            Some(Progress::Done(answers)) => self.locality = Some(answers),
            Some(Progress::Overdue { call, since }) => self.seen.status = Status::Stuck { call, since },
            Some(Progress::Slow | Progress::Died) | None => {}
        }
    }

    /// It as a peer of others, unless it is being changed or a call to it hangs: they would hang as well.
    pub(crate) fn as_peer(&self, deadline: Duration) -> Option<Peer> {
        let is_free = !self.worker.in_task() && self.worker.overdue(deadline).is_none();
        let device = self.device.filter(|_| is_free)?;
        Some(Peer { index: self.seen.index, device })
    }

    /// Waits for the round.
    pub(crate) async fn wait(&mut self, deadline: Duration, end: Instant) {
        if let Some(running) = self.worker.overdue_task() {
            self.seen.status = Status::Stuck { call: running.call, since: running.elapsed() };
        }
        let progress = self.worker.wait(deadline, end).await;
        self.seen.pci = self.worker.place.get().copied();
        match progress {
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

    /// Whether its first round is going on, and each call returns in time.
    pub(crate) fn is_unknown(&self, deadline: Duration) -> bool {
        self.seen.gpu.is_none() && self.worker.is_busy() && self.worker.overdue(deadline).is_none()
    }

    /// Its identity, once known.
    pub(crate) fn uuid(&self) -> Option<&GpuUuid> {
        self.seen.gpu.as_ref().map(|gpu| &gpu.uuid)
    }
}
