//! Does what the machine says, and answers.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gpulet_cluster::api::{self, Api, ApiError, EventKind};
use gpulet_host::partition::lock::{Lock, LockError};
use gpulet_host::partition::store::Store;
use gpulet_host::partition::{reboot, services};
use gpulet_host::program::ProgramError;
use gpulet_host::root::EscapesRoot;
use gpulet_inventory::pod::Pod;
use gpulet_partition::apply::{Failure, Outcome, Policy};
use gpulet_partition::observed::PodName;
use gpulet_partition::protocol::{
    ApiFailure, ApiFailureKind, Command, Event, Eviction, GpuEnd, GpuResult, Happening, NodeChange,
    NodeJournal, NotLooked,
};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::super::Shared;
use super::look::Planned;
use super::{advertised, node};
use crate::kubelet::Kubelet;
use crate::partition::{End, GpuOutcome, Partitioner, Recovered};
use crate::report;
use crate::text_file::TextReader;

/// How long systemd may take to say that it reboots the machine.
const REBOOTS_WITHIN: Duration = Duration::from_secs(60);

/// How much later than the API server's admission the Pods' watch may know that a Pod is gone.
const GONE_WITHIN: Duration = Duration::from_secs(1);

/// Why a Pod is not evicted that only the kubelet knows.
const NOT_OURS: &str = "the API server has no Pod of this name on this node: it is ending, or has just begun";

/// Everything that is outside.
pub(super) struct Edge {
    pub(super) shared: Shared,
    pub(super) partitioner: Partitioner,
    /// Absent where there is no API server.
    pub(super) api: Option<Api>,
    pub(super) reader: TextReader,
    store: Store,
    lock: Mutex<Option<Lock>>,
    planned: Mutex<Option<Planned>>,
    stopping: AtomicBool,
    /// A device plugin was seen to offer NVIDIA's devices.
    plugin_seen: AtomicBool,
    /// Waits until the kubelet advertises what there is.
    verifying: Mutex<Option<AbortHandle>>,
}

impl Edge {
    /// # Errors
    /// When the kubelet's paths lead out of the host's root.
    pub(super) fn new(shared: &Shared, api: Option<Api>) -> Result<Self, EscapesRoot> {
        let settings = Arc::clone(&shared.settings.borrow());
        let partitioner = Partitioner {
            root: shared.root.clone(),
            driver: shared.driver.clone(),
            kubelet: Kubelet::new(&shared.root, &settings.kubelet)?,
            state_dir: shared.state_dir.clone(),
            pods: shared.kubernetes.pods.subscribe(),
        };
        Ok(Self {
            partitioner,
            api,
            reader: TextReader::default(),
            store: Store::new(&shared.state_dir),
            lock: Mutex::default(),
            planned: Mutex::default(),
            stopping: AtomicBool::new(false),
            plugin_seen: AtomicBool::new(false),
            verifying: Mutex::default(),
            shared: shared.clone(),
        })
    }

    /// Does one thing. Takes as long as that takes.
    pub(super) async fn answer(&self, command: Command) -> Event {
        match command {
            Command::Recover => Event::Recovered(self.recover_at_start().await),
            Command::Look(declared) => Event::Looked(self.look(&declared).await),
            Command::Journal(journal) => Event::Journalled(self.journal(journal).await),
            Command::ReadNode => Event::NodeRead(self.read_node().await),
            Command::ChangeNode(change) => Event::NodeChanged(self.change_node(change).await),
            Command::Evict(pods) => Event::Evicted(self.evict(pods).await),
            Command::StopServices(names) => {
                Event::ServicesDone(self.on_host(move |root| services::stop(root, &names)).await)
            }
            Command::StartServices(names) => {
                Event::ServicesDone(self.on_host(move |root| services::start(root, &names)).await)
            }
            Command::Apply { reboot } => Event::Applied(self.apply(reboot).await),
            Command::Care => Event::CaredFor(self.care().await),
            Command::Reboot => Event::RebootAsked(self.reboot().await),
            Command::StopSoon | Command::Tell(_) | Command::Happened(_) => Event::Woken,
        }
    }

    /// Takes the lock, unless it is held already.
    pub(super) async fn lock(&self) -> Result<(), Failure> {
        if self.held().is_some() {
            return Ok(());
        }
        let root = self.shared.root.clone();
        let taking = tokio::task::spawn_blocking(move || Lock::take(&root));
        let lock = taking.await.map_err(|error| broken(&error))?.map_err(|error: LockError| Failure {
            reason: error.reason().to_owned(),
            message: report::chain(&error),
        })?;
        *self.held() = Some(lock);
        Ok(())
    }

    pub(super) fn unlock(&self) {
        *self.held() = None;
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Option<Lock>> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn plan(&self, planned: Planned) {
        *self.planned.lock().unwrap_or_else(PoisonError::into_inner) = Some(planned);
    }

    /// Keeps in mind whether there is a device plugin: while a change is made it is gone.
    pub(super) fn notice_plugin(&self) {
        let allocation = self.shared.kubernetes.allocation.borrow();
        if allocation.as_ref().is_some_and(|part| advertised::is_any(&part.value.allocatable)) {
            self.plugin_seen.store(true, Ordering::Relaxed);
        }
    }

    /// Says, when that is known, whether the kubelet advertises these MIG devices. Nobody waits for it.
    pub(super) fn verify_advertised(&self, there: BTreeSet<String>) {
        if !self.plugin_seen.load(Ordering::Relaxed) {
            return;
        }
        let allocation = self.shared.kubernetes.allocation.subscribe();
        let api = self.api.clone();
        let verifying = tokio::spawn(async move {
            let happening = advertised::verify(there, allocation).await;
            // That it came as it was to come is news for the log only.
            tell(api.filter(|_| happening.warning), happening);
        });
        let before =
            self.verifying.lock().unwrap_or_else(PoisonError::into_inner).replace(verifying.abort_handle());
        if let Some(before) = before {
            before.abort();
        }
    }

    pub(super) fn stop_soon(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// What was cut off is ended whether anything is declared or not. While a command holds the lock, what is unfinished is
    /// its own.
    async fn recover_at_start(&self) -> Option<Result<String, Failure>> {
        if let Err(failure) = self.lock().await {
            tracing::info!(reason = failure.reason, "{}", failure.message);
            return None;
        }
        let recovered = self.recover().await;
        self.unlock();
        match recovered {
            Err(failure) => Some(Err(failure)),
            Ok(recovered) if recovered.is_empty() => None,
            Ok(recovered) => Some(told(&recovered)),
        }
    }

    async fn journal(&self, journal: NodeJournal) -> Result<(), Failure> {
        let store = self.store.clone();
        let writing = tokio::task::spawn_blocking(move || store.write_node(&journal));
        writing
            .await
            .map_err(|error| broken(&error))?
            .map_err(|error| Failure { reason: error.reason().to_owned(), message: report::chain(&error) })
    }

    async fn read_node(&self) -> Result<(gpulet_partition::protocol::NodeView, String), ApiFailure> {
        let api = self.api.as_ref().ok_or_else(no_api)?;
        let (found, version) = api.get_node().await.map_err(|error| node::failed(&error))?;
        Ok((node::view(&found), version))
    }

    async fn change_node(&self, change: NodeChange) -> Result<(), ApiFailure> {
        let api = self.api.as_ref().ok_or_else(no_api)?;
        let change = node::change(change, &api::now_in_seconds());
        api.change_node(&change).await.map_err(|error| node::failed(&error))
    }

    async fn evict(&self, pods: Vec<PodName>) -> Vec<(PodName, Eviction)> {
        let known = self.shared.kubernetes.pods.borrow().clone().unwrap_or_default();
        let mut results = Vec::new();
        for name in pods {
            let is_it = |pod: &&Pod| pod.namespace == name.namespace && pod.name == name.name;
            let uid = known.iter().find(is_it).map(|pod| pod.uid.as_str());
            let result = match (&self.api, uid) {
                (Some(api), Some(uid)) => {
                    let answer = api.evict(&name.namespace, &name.name, uid).await;
                    let is_forbidden = matches!(answer, Err(ApiError::Forbidden { .. }));
                    let pods = self.shared.kubernetes.pods.subscribe();
                    node::evicted(answer, is_forbidden && is_gone(pods, uid).await)
                }
                // By its name alone another one could be meant, which runs on another node by now.
                (Some(_), None) => Eviction::Later(NOT_OURS.to_owned()),
                (None, _) => Eviction::Failed(no_api().failure),
            };
            if result == Eviction::Accepted {
                tracing::info!(pod = %name, "evicted");
            }
            results.push((name, result));
        }
        results
    }

    async fn on_host(
        &self,
        tell: impl FnOnce(&gpulet_host::Root) -> Result<(), ProgramError> + Send + 'static,
    ) -> Result<(), Failure> {
        let root = self.shared.root.clone();
        let told = tokio::task::spawn_blocking(move || tell(&root)).await;
        told.map_err(|error| broken(&error))?
            .map_err(|error| Failure { reason: error.reason().to_owned(), message: report::chain(&error) })
    }

    async fn apply(&self, reboot: bool) -> Vec<GpuResult> {
        let planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Planned { looked, plan }) = planned else {
            return vec![not_begun(broken_order())];
        };
        self.stopping.store(false, Ordering::Release);
        let go_on = || !self.stopping.load(Ordering::Acquire);
        // A reboot would end whatever uses any GPU: without that way out, what needs one is taken back.
        let users = looked.users().filter(|_| reboot);
        let policy = Policy { reboot: reboot && users.is_none(), ..Policy::default() };
        let outcome = self.partitioner.carry_out(&looked, &plan, policy, go_on).await;
        if let Some(users) = users.filter(|_| outcome.gpus.iter().any(|gpu| gpu.end.takes_reboot())) {
            tracing::warn!(users, "the machine is not rebooted for a change of MIG mode while it is in use");
        }
        // Whoever waits for what the exporter shows need not wait for a tick.
        self.shared.wake.notify_one();
        outcome.gpus.into_iter().map(result).collect()
    }

    /// Reboots the machine, if nobody uses a GPU by now: it may have been asked for before, and not have come.
    async fn reboot(&self) -> Result<(), Failure> {
        if let Some(users) = self.partitioner.look().await?.users() {
            let message = format!("the machine is not rebooted while it is in use: {users}");
            return Err(Failure { reason: "InUse".to_owned(), message });
        }
        let root = self.shared.root.clone();
        tracing::warn!("the machine is rebooted for a change of its GPUs' mode");
        let asking = tokio::task::spawn_blocking(move || reboot::reboot(&root));
        let asked = tokio::time::timeout(REBOOTS_WITHIN, asking).await;
        let asked = asked.map_err(|_| Failure {
            reason: "TimedOut".to_owned(),
            message: "systemd did not say in time whether it reboots the machine".to_owned(),
        })?;
        asked
            .map_err(|error| broken(&error))?
            .map_err(|error| Failure { reason: error.reason().to_owned(), message: report::chain(&error) })
    }

    /// Tells people, without being waited for.
    pub(super) fn happened(&self, happening: Happening) {
        tell(self.api.clone(), happening);
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        if let Some(verifying) = self.verifying.get_mut().unwrap_or_else(PoisonError::into_inner) {
            verifying.abort();
        }
    }
}

/// Whether there is no Pod of this UID any more, or will not be in a moment.
async fn is_gone(mut pods: watch::Receiver<Option<Arc<Vec<Pod>>>>, uid: &str) -> bool {
    let gone = pods.wait_for(|pods| pods.as_ref().is_some_and(|pods| pods.iter().all(|pod| pod.uid != uid)));
    matches!(tokio::time::timeout(GONE_WITHIN, gone).await, Ok(Ok(_)))
}

fn tell(api: Option<Api>, happening: Happening) {
    let Happening { warning, reason, message } = happening;
    match warning {
        true => tracing::warn!(reason, "{message}"),
        false => tracing::info!(reason, "{message}"),
    }
    let Some(api) = api else { return };
    let kind = if warning { EventKind::Warning } else { EventKind::Normal };
    let event = api::Event { kind, reason, action: "Partition".to_owned(), note: message };
    tokio::spawn(async move {
        if let Err(error) = api.event(&event).await {
            tracing::debug!(error = report::chain(&error), reason = error.reason(), "an Event was not told");
        }
    });
}

fn told(recovered: &[Recovered]) -> Result<String, Failure> {
    let name = |one: &Recovered| one.gpu.as_ref().map_or_else(|| "a journal".to_owned(), ToString::to_string);
    let each: Vec<String> = recovered.iter().map(|one| format!("{}: {}", name(one), one.end)).collect();
    let message = each.join("; ");
    let is_ended =
        |one: &&Recovered| matches!(one.end, End::Ended(Outcome::Reached | Outcome::RolledBack { .. }));
    match recovered.iter().find(|one| !is_ended(one)) {
        None => Ok(message),
        Some(one) => Err(Failure { reason: one.end.reason().to_owned(), message }),
    }
}

fn result(GpuOutcome { gpu, end }: GpuOutcome) -> GpuResult {
    let how = match &end {
        End::LeftAlone | End::AsWanted => GpuEnd::Unchanged,
        End::NotBegun(failure) if failure.reason == "Stopped" => GpuEnd::Stopped,
        End::Refused(_) | End::NotBegun(_) => GpuEnd::NotBegun,
        End::Ended(Outcome::Reached) => GpuEnd::Reached,
        End::Ended(Outcome::RolledBack { .. }) => GpuEnd::RolledBack,
        End::Ended(Outcome::RebootRequired { .. }) => GpuEnd::RebootRequired,
        End::Ended(Outcome::Overtaken | Outcome::Stuck { .. } | Outcome::Unreadable { .. }) => GpuEnd::Broken,
    };
    let reason = if end.is_blocked() { "InUse" } else { end.reason() };
    GpuResult { gpu, end: how, reason: reason.to_owned(), message: end.to_string() }
}

fn not_begun(Failure { reason, message }: Failure) -> GpuResult {
    GpuResult { gpu: None, end: GpuEnd::NotBegun, reason, message }
}

fn no_api() -> ApiFailure {
    let message = "there is no API server to talk to".to_owned();
    let failure = Failure { reason: "NoAccess".to_owned(), message };
    ApiFailure { failure, kind: ApiFailureKind::Later(None) }
}

fn broken_order() -> Failure {
    let message = "nothing was planned; it is looked at again".to_owned();
    Failure { reason: "NotPlanned".to_owned(), message }
}

/// A task that has panicked, or was ended.
pub(super) fn broken(error: &tokio::task::JoinError) -> Failure {
    let message = format!("what was being done broke: {error}; the log has more");
    Failure { reason: "Broken".to_owned(), message }
}

/// The answer to what was not done.
pub(super) fn not_done(command: &Command, failure: Failure) -> Event {
    let of_api = |failure| ApiFailure { failure, kind: ApiFailureKind::Later(None) };
    match command {
        Command::Recover => Event::Recovered(Some(Err(failure))),
        Command::Look(_) => Event::Looked(Err(NotLooked { failure, is_wrong: false })),
        Command::Journal(_) => Event::Journalled(Err(failure)),
        Command::ReadNode => Event::NodeRead(Err(of_api(failure))),
        Command::ChangeNode(_) => Event::NodeChanged(Err(of_api(failure))),
        Command::Evict(pods) => {
            let each = pods.iter().map(|pod| (pod.clone(), Eviction::Later(failure.message.clone())));
            Event::Evicted(each.collect())
        }
        Command::StopServices(_) | Command::StartServices(_) => Event::ServicesDone(Err(failure)),
        Command::Apply { .. } => {
            Event::Applied(vec![GpuResult { end: GpuEnd::Broken, ..not_begun(failure) }])
        }
        Command::Care => Event::CaredFor(Err(failure)),
        Command::Reboot => Event::RebootAsked(Err(failure)),
        Command::StopSoon | Command::Tell(_) | Command::Happened(_) => Event::Woken,
    }
}

#[cfg(test)]
mod tests {
    use gpulet_inventory::pod::{Keeper, PodPhase, QosClass};

    use super::*;

    fn pod(uid: &str) -> Pod {
        Pod {
            namespace: "ml".to_owned(),
            name: "train".to_owned(),
            uid: uid.to_owned(),
            config_hash: None,
            phase: PodPhase::Running,
            qos: QosClass::BestEffort,
            deleting: false,
            keeper: Keeper::Other,
            deployed_by: Vec::new(),
            role: None,
            containers: Vec::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_is_gone_when_the_watch_has_it_no_more() {
        let (sender, pods) = watch::channel(Some(Arc::new(vec![pod("a"), pod("b")])));
        assert!(is_gone(pods.clone(), "c").await, "another has its name");
        assert!(!is_gone(pods.clone(), "a").await);
        let asking = tokio::spawn(async move { is_gone(pods, "a").await });
        tokio::time::sleep(GONE_WITHIN / 2).await;
        sender.send_replace(Some(Arc::new(vec![pod("b")])));
        assert!(asking.await.unwrap(), "the watch knows it a little later");
        let (_sender, nobody_knows) = watch::channel(None);
        assert!(!is_gone(nobody_knows, "a").await);
    }
}
