//! Asks the kubelet who has which devices, CPUs and memory: when its files tell of a change, and at an interval, for not
//! all changes show there. What it told last stands until it tells something newer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulet_cluster::kubelet::Watch;
use gpulet_cluster::kubelet::pod_resources::{Answer, PodResourcesError};
use gpulet_cluster::kubelet::watch::Change;
use gpulet_inventory::snapshot::Part;
use tokio::task::JoinHandle;

use super::Shared;
use crate::config::node_name::NodeName;
use crate::kubelet::{Found, Kubelet};
use crate::report;
use crate::supervise::LoopError;

/// The loop's name.
pub(crate) const NAME: &str = "kubelet";

/// The kubelet writes several files for one Pod: they are gathered for this long.
const GATHER: Duration = Duration::from_millis(50);
/// It may tell of a change only after its files do: it is asked again after this.
const AGAIN: Duration = Duration::from_secs(1);
/// Its settings are read at least this often.
const SETTINGS_EVERY: Duration = Duration::from_secs(300);
/// Longest time to find its files. A file system that is gone does not answer.
const FIND_WITHIN: Duration = Duration::from_secs(10);

/// Asks until it is time to end.
pub(crate) async fn run(shared: Shared) -> Result<(), LoopError> {
    let kubelet = Kubelet::new(&shared.root, &shared.settings.borrow().kubelet)?;
    tokio::select! {
        () = shared.shutdown.requested() => Ok(()),
        () = Loop::new(shared.clone(), kubelet).run() => Ok(()),
    }
}

struct Loop {
    shared: Shared,
    kubelet: Kubelet,
    watch: Option<Watch>,
    /// Looking whether it is here, which may hang.
    looking: Option<JoinHandle<bool>>,
    /// Looking for its files, which may hang.
    finding: Option<JoinHandle<Found>>,
    settings_read: Option<Instant>,
    /// Why it did not answer last; absent while it does.
    silent: Option<&'static str>,
    answered_ever: bool,
    settings_unknown: Option<String>,
}

impl Loop {
    fn new(shared: Shared, kubelet: Kubelet) -> Self {
        let watch = Watch::new(&kubelet.directory, [])
            .inspect_err(|error| {
                tracing::warn!(
                    error = report::chain(error),
                    reason = error.reason(),
                    "the kubelet's files cannot be watched; it is asked at an interval only"
                );
            })
            .ok();
        Self {
            shared,
            kubelet,
            watch,
            looking: None,
            finding: None,
            settings_read: None,
            silent: None,
            answered_ever: false,
            settings_unknown: None,
        }
    }

    async fn run(mut self) {
        let mut change = Change::ALL;
        let mut again = None;
        loop {
            let interval = self.shared.settings.borrow().kubelet.interval;
            let limit = interval * 3 + FIND_WITHIN * 4;
            self.shared.progress.made(NAME, Instant::now(), limit);
            self.round(change).await;
            self.shared.progress.made(NAME, Instant::now(), limit);
            let next = again.unwrap_or(interval);
            change = tokio::select! {
                change = changed(&mut self.watch) => change,
                () = tokio::time::sleep(next) => Change::default(),
            };
            again = change.is_any().then_some(AGAIN);
            if change.socket_replaced {
                self.shared.own.kubernetes.kubelet_restarted();
                self.unsettled();
            }
            if change.is_any() {
                tokio::time::sleep(GATHER).await;
            }
        }
    }

    /// Asks for everything once, if it is here.
    async fn round(&mut self, change: Change) {
        // Nothing is known while looking for it hangs.
        let Some(is_here) = self.is_here().await else { return };
        if is_here {
            self.shared.own.kubernetes.kubelet_asked();
            self.read_settings(change).await;
            self.ask().await;
        }
        let kubelet = &self.shared.kubernetes.kubelet;
        kubelet.send_if_modified(|state| !std::mem::replace(&mut state.asked, true));
    }

    /// Whether it is here; absent while looking for it hangs.
    async fn is_here(&mut self) -> Option<bool> {
        let kubelet = self.kubelet.clone();
        let looking =
            self.looking.get_or_insert_with(|| tokio::task::spawn_blocking(move || kubelet.is_here()));
        let looked = tokio::time::timeout(FIND_WITHIN, looking).await.ok()?;
        self.looking = None;
        looked.ok()
    }

    async fn ask(&mut self) {
        match self.kubelet.read().await {
            Ok(answer) => self.answered(answer),
            Err(error) => self.failed(&error),
        }
    }

    fn answered(&mut self, Answer { allocation, oddities }: Answer) {
        let now = Instant::now();
        self.shared.own.kubernetes.kubelet_answered(now);
        if self.silent.take().is_some() || !self.answered_ever {
            self.answered_ever = true;
            tracing::info!(
                pods = allocation.pods.len(),
                devices = allocation.allocatable.devices.len(),
                "the kubelet answers"
            );
        }
        self.shared.kubernetes.allocation.send_modify(|part| {
            let value = match part.take() {
                Some(before) if *before.value == allocation => before.value,
                _ => {
                    for oddity in &oddities {
                        tracing::warn!(
                            place = oddity.place,
                            problem = oddity.problem,
                            "the kubelet's answer is odd"
                        );
                    }
                    Arc::new(allocation)
                }
            };
            *part = Some(Part { value, taken: now });
        });
    }

    fn failed(&mut self, error: &PodResourcesError) {
        let reason = error.reason();
        self.shared.own.kubernetes.kubelet_failed(reason);
        if self.silent.replace(reason) != Some(reason) {
            tracing::warn!(
                error = report::chain(error),
                reason,
                "the kubelet does not answer; what it told last stands"
            );
        }
        self.unsettled();
    }

    fn unsettled(&self) {
        self.shared.kubernetes.kubelet.send_modify(|state| state.unsettled += 1);
    }

    /// Its settings, where they may have changed. Those that were known stand until there are newer ones.
    async fn read_settings(&mut self, change: Change) {
        let due = self.settings_read.is_none_or(|read| read.elapsed() >= SETTINGS_EVERY);
        if !due && !change.settings && !change.socket_replaced {
            return;
        }
        let Some(found) = self.find().await else { return };
        self.settings_read = Some(Instant::now());
        if let Some(watch) = &mut self.watch
            && let Err(error) = watch.follow(found.settings_files(&self.shared.root))
        {
            tracing::debug!(error = report::chain(&error), "the kubelet's configuration cannot be watched");
        }
        let name = self.shared.settings.borrow().node_name.clone().or_else(NodeName::of_this_machine);
        match self.kubelet.settings(&found, name.map(|name| name.to_string()).as_deref()).await {
            Ok(settings) => {
                self.settings_unknown = None;
                self.shared.kubernetes.settings.send_if_modified(|known| {
                    let differs = known.as_deref() != Some(&settings);
                    if differs {
                        tracing::info!(
                            source = settings.source,
                            topology_manager_policy = settings.topology_manager_policy,
                            topology_manager_scope = settings.topology_manager_scope,
                            cpu_manager_policy = settings.cpu_manager_policy,
                            memory_manager_policy = settings.memory_manager_policy,
                            "the kubelet's settings are known"
                        );
                        *known = Some(Arc::new(settings));
                    }
                    differs
                });
            }
            Err(error) => {
                let text = report::chain(&error);
                if self.settings_unknown.as_ref() != Some(&text) {
                    tracing::warn!(
                        error = text,
                        reason = error.reason(),
                        "the kubelet's settings are not known"
                    );
                    self.settings_unknown = Some(text);
                }
            }
        }
    }

    /// What its files tell; absent while looking for them hangs.
    async fn find(&mut self) -> Option<Found> {
        let kubelet = self.kubelet.clone();
        let finding = self.finding.get_or_insert_with(|| tokio::task::spawn_blocking(move || kubelet.find()));
        let found = tokio::time::timeout(FIND_WITHIN, finding).await.ok()?;
        self.finding = None;
        found.ok()
    }
}

/// The next change; never one where nothing can be watched.
async fn changed(watch: &mut Option<Watch>) -> Change {
    let Some(watching) = watch else { return std::future::pending().await };
    match watching.changed().await {
        Ok(change) => change,
        Err(error) => {
            tracing::warn!(
                error = report::chain(&error),
                reason = error.reason(),
                "the kubelet's files are not watched any more; it is asked at an interval only"
            );
            *watch = None;
            Change::ALL
        }
    }
}
