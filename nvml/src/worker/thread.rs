//! What a worker's thread does: one job after the other, until no one can ask any more.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Instant;

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::reading::Answer;
use gpulet_inventory::sample::Sample;
use gpulet_partition::step::Step;
use tokio::sync::oneshot;

use super::Report;
use super::task::{GoingOn, Turn};
use crate::Classes;
use crate::change::{Change, ChangeError, Changing, Doing};
use crate::code;
use crate::raw::calls::Calls;
use crate::read::locality::{GpuAnswers, Peer};
use crate::reader::Reader;

/// What a thread does besides sampling.
pub(super) type Work = Box<dyn FnOnce(&mut Thread, GoingOn<'_>) + Send>;

/// What a worker is asked for.
pub(super) enum Job {
    /// A sample.
    Round { classes: Classes, now: Instant, sent: Instant, reply: oneshot::Sender<Report> },
    /// Where the GPU sits and how near the peers are, beyond what is known of that.
    Locality { known: GpuAnswers, peers: Vec<Peer>, now: Instant, reply: oneshot::Sender<GpuAnswers> },
    /// Something else, unless whoever asked has given up before its turn.
    Task { turn: Arc<Turn>, work: Work },
}

/// A worker as seen from inside.
pub(crate) struct Thread {
    pub(crate) calls: Calls,
    pub(crate) index: u32,
    pub(super) driver_version: Arc<str>,
    pub(super) mig_generation: Arc<AtomicU64>,
    pub(super) place: Arc<OnceLock<PciAddress>>,
    /// Whether the driver has to be opened anew: handles and numbers may be others now.
    pub(super) outdated: Arc<AtomicBool>,
    pub(super) reader: Option<Reader>,
}

impl Thread {
    /// The thread's life.
    pub(super) fn run(mut self, jobs: &mpsc::Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            self.calls.begin();
            match job {
                Job::Round { classes, now, sent, reply } => {
                    let outcome = self.round(classes, now).map(Arc::new);
                    let gpu = self.reader.as_ref().map(|reader| (Arc::clone(reader.gpu()), reader.device()));
                    // No one may be waiting any more, when the driver is being let go of.
                    let _ = reply.send(Report { gpu, outcome, asked: now, took: sent.elapsed() });
                }
                Job::Locality { mut known, peers, now, reply } => {
                    if let Some(reader) = &mut self.reader {
                        reader.locality(&self.calls, &mut known, &peers, now);
                    }
                    let _ = reply.send(known);
                }
                Job::Task { turn, work } => {
                    if let Some(going_on) = turn.begin() {
                        work(&mut self, going_on);
                    }
                }
            }
        }
    }

    /// Reads or changes the GPU past all that was learned of it, and forgets what no longer holds then.
    pub(crate) fn change<T>(
        &mut self,
        gpu: &GpuUuid,
        doing: Doing,
        work: impl Fn(Changing<'_>) -> Result<T, ChangeError>,
    ) -> Result<T, ChangeError> {
        let outcome = work(Changing { calls: &self.calls, index: self.index, gpu, doing });
        let lost_driver = |answer: Answer| code::is_driver_gone(answer.cause);
        if self.calls.fatal().is_some_and(lost_driver) {
            self.forget_gpu();
        }
        // Also what was refused may have had an effect.
        match doing {
            Doing::Change(Change::Step(Step::SetMode(_))) => self.forget_gpu(),
            Doing::Change(Change::Step(_)) => self.forget_division(),
            _ => {}
        }
        outcome
    }

    /// What was learned of how the GPU is divided no longer holds.
    fn forget_division(&self) {
        self.mig_generation.fetch_add(1, Ordering::Release);
    }

    /// Nothing that was learned of the GPU holds any more, its handle neither; nor may the handles of others.
    fn forget_gpu(&mut self) {
        self.reader = None;
        self.outdated.store(true, Ordering::Release);
    }

    fn round(&mut self, classes: Classes, now: Instant) -> Result<Sample, Answer> {
        let opened = match self.reader.take() {
            Some(opened) => opened,
            None => Reader::open(&self.calls, self.index, &self.driver_version, &self.place, now)?,
        };
        let generation = self.mig_generation.load(Ordering::Acquire);
        self.reader.insert(opened).sample(&self.calls, classes, generation, now)
    }
}
