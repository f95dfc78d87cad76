//! What a worker's thread does: one job after the other, until no one can ask any more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Instant;

use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::reading::Answer;
use gpulet_inventory::sample::Sample;
use tokio::sync::oneshot;

use super::Report;
use crate::Classes;
use crate::raw::calls::Calls;
use crate::read::locality::{GpuAnswers, Peer};
use crate::reader::Reader;

/// What a worker is asked for.
pub(super) enum Job {
    /// A sample.
    Round { classes: Classes, now: Instant, sent: Instant, reply: oneshot::Sender<Report> },
    /// Where the GPU sits and how near the peers are, beyond what is known of that.
    Locality { known: GpuAnswers, peers: Vec<Peer>, now: Instant, reply: oneshot::Sender<GpuAnswers> },
}

/// A worker as seen from inside.
pub(super) struct Thread {
    pub(super) calls: Calls,
    pub(super) index: u32,
    pub(super) driver_version: Arc<str>,
    pub(super) mig_generation: Arc<AtomicU64>,
    pub(super) place: Arc<OnceLock<PciAddress>>,
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
            }
        }
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
