//! Reads the driver at each tick and publishes the node's snapshot.
//!
//! It is the one writer of the snapshot. Whatever the driver does, a tick ends within about one deadline, so that this
//! loop's own progress shows whether the agent works.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gpulet_inventory::holders::Holders;
use gpulet_inventory::snapshot::{NodeGpus, Part, ProcessStats, Snapshot};

use super::schedule::Schedule;
use super::{Shared, transitions};
use crate::config::settings::Sampling;
use crate::discovery;
use crate::holders::Joiner;
use crate::notify::Watchdog;
use crate::report;
use crate::supervise::LoopError;

/// The loop's name.
pub(crate) const NAME: &str = "sample";

/// Samples until it is time to end.
pub(crate) async fn run(shared: Shared) -> Result<(), LoopError> {
    let mut settings = shared.settings.clone();
    let mut sampling = settings.borrow_and_update().sampling.clone();
    let mut publisher = Publisher::new(shared.clone());
    let mut schedule = Schedule::default();
    shared.progress.made(NAME, Instant::now(), expected_within(&sampling));
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(schedule.next(Instant::now()).into()) => {
                tokio::select! {
                    () = tick(&mut schedule, &sampling, &mut publisher) => {}
                    () = shared.shutdown.requested() => return Ok(()),
                }
            }
            () = shared.wake.notified() => schedule.all_due(),
            changed = settings.changed() => {
                // The sender is gone at the end only.
                if changed.is_err() {
                    return Ok(());
                }
                sampling = settings.borrow_and_update().sampling.clone();
                schedule.intervals_changed(Instant::now(), &sampling);
            }
            () = shared.shutdown.requested() => return Ok(()),
        }
    }
}

async fn tick(schedule: &mut Schedule, sampling: &Sampling, publisher: &mut Publisher) {
    let begun = Instant::now();
    let classes = schedule.take(begun, sampling);
    let gpus = publisher.shared.driver.sample(classes, begun).await;
    publisher.share(gpus);
    // A snapshot without topology would say that the machine has no NUMA nodes, which is not known yet.
    let mut topology = publisher.shared.topology.subscribe();
    if topology.wait_for(Option::is_some).await.is_ok() {
        publisher.publish(begun, expected_within(sampling));
    }
}

/// How long a tick and the wait for the next may take together before something is wrong with the loop itself.
fn expected_within(sampling: &Sampling) -> Duration {
    sampling.interval * 3 + sampling.deadline * 3 + Duration::from_secs(5)
}

fn warn_if_too_short(watchdog: Duration, sampling: &Sampling) {
    if watchdog < sampling.interval + sampling.deadline {
        tracing::warn!(
            watchdog_seconds = watchdog.as_secs_f64(),
            interval_seconds = sampling.interval.as_secs_f64(),
            deadline_seconds = sampling.deadline.as_secs_f64(),
            "the service manager's watchdog (WatchdogSec=) is shorter than sampling.interval and sampling.deadline \
             together: it will end a daemon that works"
        );
    }
}

/// Puts the parts together.
struct Publisher {
    shared: Shared,
    watchdog: Option<Watchdog>,
    joiner: Joiner,
    last: Option<Part<NodeGpus>>,
    process: ProcessStats,
    process_was_read: bool,
}

impl Publisher {
    fn new(shared: Shared) -> Self {
        let last = shared.snapshot.borrow().as_ref().map(|snapshot| snapshot.gpus.clone());
        let watchdog = Watchdog::from_environment();
        if let Some(watchdog) = &watchdog {
            warn_if_too_short(watchdog.limit(), &shared.settings.borrow().sampling);
        }
        let joiner = Joiner::new(shared.root.clone());
        Self { shared, watchdog, joiner, last, process: ProcessStats::default(), process_was_read: true }
    }

    /// Hands what was read to the topology loop, which concludes from it where the GPUs sit.
    fn share(&mut self, gpus: NodeGpus) {
        for transition in transitions::between(self.last.as_ref().map(|last| &*last.value), &gpus) {
            transition.log();
        }
        let gpus = Part::new(gpus, Instant::now());
        self.shared.gpus.send_replace(Some(Arc::clone(&gpus.value)));
        self.last = Some(gpus);
    }

    fn publish(&mut self, begun: Instant, expected_within: Duration) {
        let Some(topology) = self.shared.topology.borrow().clone() else { return };
        let Some(gpus) = self.last.clone() else { return };
        self.read_process();
        let now = Instant::now();
        let snapshot = Snapshot {
            taken: now,
            taken_unix: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            free_sets: discovery::free_sets(&topology.value.model, &gpus.value),
            holders: Part::new(self.join(&gpus.value), now),
            gpus,
            topology,
            process: Part::new(self.process, now),
        };
        self.shared.snapshot.send_replace(Some(Arc::new(snapshot)));
        self.shared.own.sampled(now.saturating_duration_since(begun));
        self.shared.progress.made(NAME, now, expected_within);
        self.shared.readiness.close();
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.progress(now);
        }
    }

    fn join(&mut self, gpus: &NodeGpus) -> Holders {
        let kubernetes = &self.shared.kubernetes;
        let (pods, allocation) = (kubernetes.pods.borrow().clone(), kubernetes.allocation.borrow().clone());
        let allocation = allocation.as_ref().map(|part| &*part.value);
        self.joiner.join(gpus, pods.as_deref().map(Vec::as_slice), allocation)
    }

    /// Keeps the last figures if `/proc` cannot be read, and says so once.
    fn read_process(&mut self) {
        let read = gpulet_host::process::stats();
        if let (Err(error), true) = (&read, self.process_was_read) {
            tracing::warn!(
                error = report::chain(error),
                reason = error.reason(),
                "the agent cannot measure itself"
            );
        }
        self.process_was_read = read.is_ok();
        self.process = read.unwrap_or(self.process);
    }
}
