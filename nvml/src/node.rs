//! What stands behind [`crate::Driver`]: carries out what the session decides, and puts the answers of all workers
//! together.
//!
//! Every step leaves a state from which the next tick goes on, so a tick may be dropped while it waits.

mod begin;

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulet_inventory::locality::DriverLocality;
use gpulet_inventory::snapshot::{Driver, DriverDown, DriverInfo, GpuState, NodeGpus, UnlistedGpu};
use tokio::sync::oneshot;
use tracing::{debug, info};

use crate::epoch::{Abandoned, Epoch, Release};
use crate::events::Sinks;
use crate::kernel::Change;
use crate::library::{OpenError, Opened};
use crate::locality::{self, Listed};
use crate::member::{Member, Status};
use crate::opening::Opening;
use crate::read::locality::Peer;
use crate::session::{Command, Event, Session};
use crate::stats::Stats;
use crate::worker::BETWEEN;
use crate::{Classes, Options, StuckCall, listing};

pub(crate) use begin::NotAsked;

/// The driver's life and the last that is known of its GPUs.
#[derive(Debug)]
pub(crate) struct Node {
    options: Options,
    sinks: Sinks,
    stats: Arc<Stats>,
    session: Session,
    opening: Option<Opening>,
    epoch: Option<Epoch>,
    abandoned: Vec<Abandoned>,
    /// Whether someone is letting go of the driver. It is not sampled meanwhile.
    leaving: bool,
    /// Why the driver is not open, while it is not.
    down: DriverDown,
    gpus: Vec<GpuState>,
    unlisted: Vec<UnlistedGpu>,
}

impl Node {
    /// Nothing open yet.
    pub(crate) fn new(options: Options, sinks: Sinks) -> Self {
        let down = DriverDown {
            reason: "NotOpen",
            message: "the driver has not been opened yet".into(),
            remedy: "none needed: it is opened with the next sample".into(),
        };
        Self {
            options,
            sinks,
            stats: Arc::default(),
            session: Session::new(),
            opening: None,
            epoch: None,
            abandoned: Vec::new(),
            leaving: false,
            down,
            gpus: Vec::new(),
            unlisted: Vec::new(),
        }
    }

    /// One tick.
    pub(crate) async fn sample(&mut self, classes: Classes, now: Instant) -> NodeGpus {
        self.forget_ended();
        if !self.leaving {
            self.advance(classes, now).await;
        }
        self.list(now);
        let stuck = self.stuck_threads();
        let calls = self.stats.snapshot(stuck);
        NodeGpus { driver: self.driver(), gpus: self.gpus.clone(), unlisted: self.unlisted.clone(), calls }
    }

    /// Opens the driver and reads it, as is due.
    async fn advance(&mut self, classes: Classes, now: Instant) {
        let end = self.end();
        let change = self.change(classes);
        let mut command = self.session.step(Event::Tick, now);
        if self.is_outdated() {
            debug!("a GPU was changed as a whole; opening the driver anew");
            command = self.session.step(Event::Outdated, now);
        } else if let Some(change) = change {
            command = self.session.step(Event::Gone, now);
            if command == Command::Reopen {
                info!("{}; opening it anew", change.what());
            }
        }
        if command == Command::Nothing && self.session.is_opening() && self.opening.is_none() {
            // The tick that should have opened it was dropped while it let go of the last epoch.
            command = Command::Open;
        }
        self.execute(command, now, end).await;
        self.finish_opening(now, end).await;
        self.read(classes, now, end).await;
        if self.is_gone() {
            let command = self.session.step(Event::Gone, now);
            if command == Command::Reopen {
                info!("no GPU answers any more; opening the driver anew");
                self.execute(command, now, end).await;
                self.finish_opening(now, end).await;
                self.read(classes, now, end).await;
            }
        }
    }

    /// Until when to wait for what is asked now: a little more than a deadline, so that a call that is made at once and
    /// hangs is seen to.
    fn end(&self) -> Instant {
        Instant::now() + self.options.deadline + self.options.deadline / 8
    }

    /// Why the driver must be opened anew though it answers. The kernel is asked with the slow values; the driver's own
    /// count was, too, and its answer is looked at as soon as it is there.
    ///
    /// While a GPU is being changed that is no sign of anything: the driver may take it away and give it back.
    fn change(&mut self, classes: Classes) -> Option<Change> {
        let epoch = self.epoch.as_mut().filter(|epoch| !epoch.is_being_changed())?;
        let told = if classes.slow { epoch.change(&self.options.host_root) } else { None };
        told.or_else(|| epoch.counts_differently().then_some(Change::Gpus))
    }

    /// Whether the driver has to be opened anew because a GPU was changed as a whole, and can be.
    fn is_outdated(&self) -> bool {
        self.epoch.as_ref().is_some_and(|epoch| epoch.is_outdated() && !epoch.is_being_changed())
    }

    /// Where the GPUs of the last sample sit, as the driver tells it.
    pub(crate) async fn locality(&mut self) -> DriverLocality {
        let now = Instant::now();
        let (deadline, end) = (self.options.deadline, self.end());
        let Some(epoch) = self.epoch.as_mut().filter(|_| !self.leaving) else {
            return DriverLocality::default();
        };
        let peers: Vec<Peer> = epoch.members.iter().filter_map(|member| member.as_peer(deadline)).collect();
        for member in &mut epoch.members {
            let after = peers.iter().filter(|peer| peer.index > member.seen.index);
            member.ask_locality(after.copied().collect(), now);
        }
        for member in &mut epoch.members {
            member.wait_locality(deadline, end).await;
        }
        let listed = self.gpus.iter().filter_map(|state| {
            let member = epoch.members.iter().find(|member| member.seen.index == state.gpu.index)?;
            Some(Listed { uuid: &state.gpu.uuid, seen: &member.seen, answers: member.locality.as_ref() })
        });
        locality::of_epoch(&listed.collect::<Vec<_>>())
    }

    /// Begins to let go of the driver: from now on it is down.
    pub(crate) fn begin_leaving(&mut self) {
        self.leaving = true;
    }

    /// Takes the driver up again where it was left, after [`Node::begin_leaving`]. Once shut down it stays so.
    pub(crate) fn stop_leaving(&mut self) {
        self.leaving = false;
    }

    /// Takes what has come back in the meantime, without waiting. The calls that have not returned.
    pub(crate) async fn still_running(&mut self) -> Vec<StuckCall> {
        let now = Instant::now();
        self.forget_ended();
        self.finish_opening(now, now).await;
        if let Some(epoch) = &mut self.epoch {
            for member in &mut epoch.members {
                member.wait(self.options.deadline, now).await;
                member.wait_locality(self.options.deadline, now).await;
            }
        }
        self.stuck_calls()
    }

    /// Starts to shut the library down, when no call is running any more; [`Node::still_running`] tells when it is over.
    pub(crate) fn shut_down(&mut self) {
        self.session.step(Event::Quiesced, Instant::now());
        self.down = DriverDown {
            reason: "Quiesced",
            message: "gpulet has let go of the driver on request".into(),
            remedy: "gpulet resume".into(),
        };
        // Its end is seen by the thread's.
        let _ = self.let_go();
    }

    /// Allows opening again.
    pub(crate) fn resume(&mut self) {
        self.session.step(Event::Resumed, Instant::now());
    }

    async fn execute(&mut self, command: Command, now: Instant, end: Instant) {
        match command {
            Command::Nothing => return,
            Command::Open => {}
            Command::Reopen => self.release(end).await,
        }
        let stuck = self.abandoned.len();
        let started = if stuck >= self.options.max_stuck_threads {
            Err(OpenError::TooManyStuckThreads { stuck })
        } else {
            Opening::start(&self.options, &self.stats)
        };
        match started {
            Ok(opening) => self.opening = Some(opening),
            Err(error) => self.failed(&error, now),
        }
    }

    /// Waits for the thread that opens the driver, if there is one.
    async fn finish_opening(&mut self, now: Instant, end: Instant) {
        let Some(opening) = &mut self.opening else { return };
        let Some(outcome) = opening.wait(end).await else {
            let (call, since) = opening.running();
            self.down = OpenError::Unresponsive { call, seconds: since.as_secs() }.down();
            return;
        };
        self.opening = None;
        match outcome.and_then(|opened| self.start_epoch(opened, now)) {
            Ok(epoch) => {
                let DriverInfo { driver_version, library, .. } = &epoch.info;
                debug!(%driver_version, %library, gpus = epoch.members.len(), "opened the driver");
                self.epoch = Some(epoch);
                self.session.step(Event::Opened, now);
            }
            Err(error) => self.failed(&error, now),
        }
    }

    fn start_epoch(&self, opened: Opened, now: Instant) -> Result<Epoch, OpenError> {
        Epoch::start(opened, &self.options, &self.stats, self.sinks.clone(), now)
            .map_err(|error| OpenError::NoThread { why: error.to_string() })
    }

    fn failed(&mut self, error: &OpenError, now: Instant) {
        let down = error.down();
        if self.down != down {
            debug!(reason = down.reason, "{}; {}", down.message, down.remedy);
        }
        self.down = down;
        self.session.step(Event::OpenFailed, now);
    }

    /// Asks all workers at once and waits for them.
    async fn read(&mut self, classes: Classes, now: Instant, end: Instant) {
        let Some(epoch) = &mut self.epoch else { return };
        for member in &mut epoch.members {
            member.ask(classes, now);
        }
        let mut healthy = epoch.members.is_empty();
        for member in &mut epoch.members {
            member.wait(self.options.deadline, end).await;
            healthy |= matches!(member.seen.status, Status::Up(_));
        }
        epoch.listen(end).await;
        if classes.slow {
            epoch.count();
        }
        if healthy {
            self.session.step(Event::Healthy, now);
        }
    }

    fn is_gone(&self) -> bool {
        self.epoch
            .as_ref()
            .filter(|epoch| !epoch.is_being_changed())
            .is_some_and(|epoch| listing::is_gone(epoch.members.iter().map(|member| &member.seen)))
    }

    /// Puts the list of GPUs together.
    fn list(&mut self, now: Instant) {
        let xids = crate::lock::lock(&self.sinks.xids).clone();
        (self.gpus, self.unlisted) = match self.open() {
            Some(epoch) => {
                let seen = epoch.members.iter().map(|member| &member.seen);
                let listed = listing::of_epoch(seen.clone(), &self.gpus, &xids, now);
                let unlisted = listing::unlisted(seen, &listed);
                (listed, unlisted)
            }
            None => (listing::of_no_driver(&self.gpus, &xids), Vec::new()),
        };
    }

    fn driver(&self) -> Driver {
        match self.open() {
            Some(epoch) => Driver::Up(epoch.info.clone()),
            None if self.leaving => Driver::Down(DriverDown {
                reason: "Quiescing",
                message: "gpulet is letting go of the driver on request".into(),
                remedy: "none needed: it waits for calls to return and for the library to shut down".into(),
            }),
            None => Driver::Down(self.down.clone()),
        }
    }

    /// The driver while it is open and is to stay so.
    fn open(&self) -> Option<&Epoch> {
        self.epoch.as_ref().filter(|_| !self.leaving)
    }

    async fn release(&mut self, end: Instant) {
        let Some(ended) = self.let_go() else { return };
        let until = tokio::time::Instant::from_std(end);
        if matches!(tokio::time::timeout_at(until, ended).await, Ok(Ok(()))) {
            self.abandoned.pop();
        }
    }

    /// Leaves the epoch to threads that end it, which are on the list until they have. What resolves when the library
    /// is shut down.
    fn let_go(&mut self) -> Option<oneshot::Receiver<()>> {
        let Release { busy, closer } = self.epoch.take()?.release();
        self.abandoned.extend(busy);
        let (thread, ended) = closer?;
        self.abandoned.push(thread);
        Some(ended)
    }

    fn forget_ended(&mut self) {
        self.abandoned.retain(|thread| !thread.has_ended());
    }

    /// Threads whose call has not returned in time, of all epochs.
    pub(crate) fn stuck_threads(&mut self) -> usize {
        self.forget_ended();
        let deadline = self.options.deadline;
        let opening = self.opening.as_ref().and_then(|opening| opening.overdue(deadline));
        let events = self.epoch.as_ref().and_then(|epoch| epoch.stuck_events(deadline));
        let members: &[Member] = self.epoch.as_ref().map_or(&[], |epoch| &epoch.members);
        self.abandoned.len()
            + usize::from(opening.is_some())
            + usize::from(events.is_some())
            + members.iter().filter(|member| member.worker.overdue(deadline).is_some()).count()
    }

    /// Every call that keeps the library from being shut down.
    fn stuck_calls(&self) -> Vec<StuckCall> {
        let mut calls = Vec::new();
        if let Some(opening) = &self.opening {
            let (call, since) = opening.running();
            calls.push(StuckCall { gpu: None, call, since });
        }
        for thread in &self.abandoned {
            let (call, since) =
                thread.tracker.running().map_or((BETWEEN, Duration::ZERO), |r| (r.call, r.elapsed()));
            calls.push(StuckCall { gpu: thread.gpu.clone(), call, since });
        }
        let Some(epoch) = &self.epoch else { return calls };
        if let Some(running) = epoch.stuck_events(self.options.deadline) {
            calls.push(StuckCall { gpu: None, call: running.call, since: running.elapsed() });
        }
        for member in epoch.members.iter().filter(|member| member.worker.is_busy()) {
            let running = member.worker.running();
            let (call, since) =
                running.map_or((BETWEEN, Duration::ZERO), |running| (running.call, running.elapsed()));
            calls.push(StuckCall { gpu: member.uuid().cloned(), call, since });
        }
        calls
    }
}
