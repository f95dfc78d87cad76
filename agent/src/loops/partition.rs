//! Brings the GPUs to what is declared: by labels of the Node, or where there is no API server by the configuration.
//!
//! What is to be done is decided by [`Protocol`]; here it is told what happened, and done what it says. Each thing is done
//! in a task of its own, one at a time, so that what happens meanwhile is heard.

mod advertised;
mod care;
mod edge;
mod look;
mod node;
mod stirs;

use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulet_cluster::api::Api;
use gpulet_host::partition::reboot;
use gpulet_host::partition::store::Store;
use gpulet_partition::apply::Failure;
use gpulet_partition::protocol::{
    Command, Event, NodeJournal, Policy, Protocol, Setting, Standing, State, Status, Stir, Timing,
};
use gpulet_partition::reboot::Permission;
use tokio::task::JoinSet;

use self::edge::Edge;
use self::stirs::{Stamp, Stirs};
use super::Shared;
use super::kubernetes::{Access, OwnNode};
use crate::config::drift::Drift;
use crate::config::settings::Settings;
use crate::partition::Origin;
use crate::partition::report::Report;
use crate::report;
use crate::supervise::LoopError;

/// The loop's name.
pub(crate) const NAME: &str = "partition";

/// How often the partition file is looked at, and how often this loop tells that it goes on.
const LOOK_AT_FILE: Duration = Duration::from_secs(2);
/// How long a GPU that is being changed may take when it is time to end.
pub(crate) const ENDS_WITHIN: Duration = Duration::from_secs(20);
/// How often a journal that cannot be read is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(30);

/// Partitions until it is time to end.
pub(crate) async fn run(shared: Shared) -> Result<(), LoopError> {
    let mut access = shared.kubernetes.api.subscribe();
    loop {
        let api = match &*access.borrow_and_update() {
            Access::Unknown => None,
            Access::None => Some(None),
            Access::Api(api) => Some(Some(api.clone())),
        };
        let work = async {
            match api {
                // It ends by itself: a GPU that is being changed is done first.
                Some(api) => partition(&shared, api).await,
                None => tokio::select! {
                    () = idle(&shared) => {}
                    () = shared.shutdown.requested() => {}
                },
            }
        };
        tokio::select! {
            () = work => return Ok(()),
            changed = access.changed() => if changed.is_err() { return Ok(()) },
        }
    }
}

async fn idle(shared: &Shared) -> ! {
    loop {
        shared.progress.made(NAME, Instant::now(), LOOK_AT_FILE * 10);
        tokio::time::sleep(LOOK_AT_FILE).await;
    }
}

/// Until it is time to end.
async fn partition(shared: &Shared, api: Option<Api>) {
    let desk = tokio::select! {
        desk = desk(shared, api) => desk,
        () = shared.shutdown.requested() => return,
    };
    desk.run().await;
}

/// With a journal that cannot be read nobody knows what is to be put back: nothing is changed then.
async fn desk(shared: &Shared, api: Option<Api>) -> Desk {
    let mut said = false;
    let journal = loop {
        shared.progress.made(NAME, Instant::now(), TRY_AGAIN * 3);
        match read_journal(shared).await {
            Ok(journal) => break journal,
            Err(failure) => {
                if !std::mem::replace(&mut said, true) {
                    tracing::error!(reason = failure.reason, "GPUs are not divided: {}", failure.message);
                }
                tell(shared, Standing::Of(unreadable(failure)));
                tokio::time::sleep(TRY_AGAIN).await;
            }
        }
    };
    match Edge::new(shared, api) {
        Ok(edge) => Desk::new(shared, edge, journal),
        Err(error) => {
            let message = format!("the kubelet's paths: {}", report::chain(&error));
            tracing::error!(reason = "EscapesRoot", "GPUs are not divided: {message}");
            tell(shared, Standing::Of(unreadable(Failure { reason: "EscapesRoot".to_owned(), message })));
            idle(shared).await
        }
    }
}

fn unreadable(Failure { reason, message }: Failure) -> Status {
    Status { state: State::Failed, config: String::new(), hash: None, reason, message, gpus: Vec::new() }
}

async fn read_journal(shared: &Shared) -> Result<Option<NodeJournal>, Failure> {
    let store = Store::new(&shared.state_dir);
    let read = tokio::task::spawn_blocking(move || store.node::<NodeJournal>());
    let read = read.await.map_err(|error| edge::broken(&error))?;
    read.map_err(|error| Failure { reason: error.reason().to_owned(), message: report::chain(&error) })
}

/// Which boot this is; absent where the kernel does not say. Then nothing is rebooted.
fn boot_id(shared: &Shared) -> Option<String> {
    match reboot::boot_id(&shared.root) {
        Ok(boot_id) => Some(boot_id),
        Err(error) => {
            tracing::warn!(reason = error.reason(), "{}", report::chain(&error));
            None
        }
    }
}

fn policy(settings: &Settings, may_reboot: bool) -> Policy {
    let partition = &settings.partition;
    Policy {
        when_busy: partition.when_busy,
        wait: partition.wait,
        reboot: if may_reboot { partition.reboot } else { Permission::Never },
        repair: partition.drift == Drift::Repair,
    }
}

/// One who does what the machine says.
struct Desk {
    shared: Shared,
    edge: Arc<Edge>,
    machine: Protocol,
    /// What is being done, and the answer where it breaks.
    doing: JoinSet<Event>,
    doing_what: Option<Command>,
    may_reboot: bool,
    stirs: Stirs,
    file: Option<Stamp>,
}

impl Desk {
    fn new(shared: &Shared, edge: Edge, journal: Option<NodeJournal>) -> Self {
        let settings = Arc::clone(&shared.settings.borrow());
        let boot_id = boot_id(shared);
        let may_reboot = boot_id.is_some();
        let setting = Setting {
            kubernetes: edge.api.is_some(),
            boot_id: boot_id.unwrap_or_default(),
            policy: policy(&settings, may_reboot),
            timing: Timing::default(),
            seed: RandomState::new().hash_one(NAME),
            journal,
        };
        let file = Stamp::of(&file(&settings));
        Self {
            edge: Arc::new(edge),
            machine: Protocol::new(setting, Instant::now()),
            doing: JoinSet::new(),
            doing_what: None,
            may_reboot,
            stirs: Stirs::default(),
            file,
            shared: shared.clone(),
        }
    }

    async fn run(mut self) {
        let shutdown = self.shared.shutdown.clone();
        let mut settings = self.shared.settings.clone();
        let mut node = self.shared.kubernetes.node.subscribe();
        let mut pods = self.shared.kubernetes.pods.subscribe();
        let mut gpus = self.shared.gpus.subscribe();
        let mut snapshot = self.shared.snapshot.subscribe();
        node.mark_changed();
        pods.mark_changed();
        self.configured();
        let mut look_at_file = tokio::time::interval(LOOK_AT_FILE);
        loop {
            self.shared.progress.made(NAME, Instant::now(), LOOK_AT_FILE * 15);
            let wake = self.machine.next_wake();
            let changed = tokio::select! {
                Some(answer) = self.doing.join_next() => {
                    let event = answer.unwrap_or_else(|error| self.broke(&error));
                    self.step(event);
                    Ok(())
                }
                changed = node.changed() => { self.node(); changed }
                changed = pods.changed() => { self.pods(); changed }
                changed = settings.changed() => { self.configured(); changed }
                changed = gpus.changed() => { self.gpus(); changed }
                changed = snapshot.changed() => { self.holders(); changed }
                () = until(wake) => { self.step(Event::Woken); Ok(()) }
                _ = look_at_file.tick() => { self.look_at_file().await; Ok(()) }
                () = shutdown.requested() => return self.end().await,
            };
            if changed.is_err() {
                // The other loops are gone at the end only.
                return std::future::pending().await;
            }
        }
    }

    /// The GPU that is being changed is done first, and none after it: what is half done would stay so until the next start.
    async fn end(mut self) {
        let applies = matches!(self.doing_what, Some(Command::Apply { .. })) && !self.doing.is_empty();
        if !applies {
            return;
        }
        tracing::info!("a GPU is being changed; that is ended first");
        self.edge.stop_soon();
        if tokio::time::timeout(ENDS_WITHIN, self.doing.join_next()).await.is_err() {
            tracing::warn!(
                reason = "CutOff",
                "the change of a GPU takes too long and is cut off; the next start finishes it or takes it back"
            );
        }
    }

    fn node(&mut self) {
        if self.edge.api.is_none() {
            return;
        }
        let node = match &*self.shared.kubernetes.node.borrow() {
            OwnNode::Unknown => return,
            OwnNode::Missing => None,
            OwnNode::Known(node) => Some(node::view(node)),
        };
        self.step(Event::Node(node));
    }

    fn pods(&mut self) {
        let pods = self.shared.kubernetes.pods.borrow().clone();
        if let Some(pods) = pods {
            self.step(Event::Pods(pods));
        }
    }

    fn configured(&mut self) {
        let settings = Arc::clone(&self.shared.settings.borrow());
        self.step(Event::Policy(policy(&settings, self.may_reboot)));
        if self.edge.api.is_none() {
            self.step(Event::Node(Some(node::declared(&settings.labels))));
        }
    }

    fn gpus(&mut self) {
        let gpus = self.shared.gpus.borrow().clone();
        let Some(gpus) = gpus else { return };
        let was_reloaded = self.stirs.is_reloaded(&gpus);
        if was_reloaded {
            self.step(Event::Reloaded);
        }
        if self.stirs.gpus_differ(&gpus) {
            self.step(Event::Stirred(Stir::Gpus));
        }
    }

    fn holders(&mut self) {
        let snapshot = self.shared.snapshot.borrow().clone();
        let Some(snapshot) = snapshot else { return };
        if self.stirs.holders_differ(&snapshot) && self.machine.cares_for_holders() {
            self.step(Event::Stirred(Stir::Holders));
        }
    }

    async fn look_at_file(&mut self) {
        let file = file(&self.shared.settings.borrow());
        let stamp = tokio::task::spawn_blocking(move || Stamp::of(&file)).await.ok().flatten();
        if self.file != stamp {
            self.file = stamp;
            self.step(Event::File);
        }
    }

    fn step(&mut self, event: Event) {
        for command in self.machine.step(event, Instant::now()) {
            self.obey(command);
        }
        // What was declared and is not any more, before anything came of it, was looked at all the same.
        if self.doing.is_empty() && !is_ours(self.machine.standing()) {
            self.edge.unlock();
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Tell(standing) => {
                if !is_ours(&standing) {
                    self.edge.unlock();
                }
                if standing == Standing::NotDeclared {
                    self.edge.show(&Report::undeclared());
                }
                tell(&self.shared, standing);
            }
            Command::Happened(happening) => self.edge.happened(happening),
            Command::StopSoon => self.edge.stop_soon(),
            command => {
                self.doing_what = Some(command.clone());
                let edge = Arc::clone(&self.edge);
                self.doing.spawn(async move { edge.answer(command).await });
            }
        }
    }

    /// What was being done has panicked; where it came from is in the log already.
    fn broke(&mut self, error: &tokio::task::JoinError) -> Event {
        let failure = edge::broken(error);
        self.doing_what.take().map_or(Event::Woken, |command| edge::not_done(&command, failure))
    }
}

/// Whether the GPUs are ours to divide, and the lock is to be held.
fn is_ours(standing: &Standing) -> bool {
    matches!(standing, Standing::Of(status) if status.state != State::HandsOff)
}

fn file(settings: &Settings) -> PathBuf {
    match Origin::of(None, settings.partition.file.as_deref()) {
        Origin::File(path) => path,
        Origin::Usual | Origin::Input => crate::partition::USUAL_FILE.into(),
    }
}

/// Tells the other loops how it goes.
fn tell(shared: &Shared, standing: Standing) {
    shared.kubernetes.partition.send_if_modified(|known| {
        let differs = *known != standing;
        *known = standing;
        differs
    });
}

async fn until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake.into()).await,
        None => std::future::pending().await,
    }
}
