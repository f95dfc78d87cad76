//! Tells the Node's conditions, and an Event when one changes: whether its GPUs are as they should be (`GpuHealthy`), and
//! whether its topology is published (`GpuTopologyPublished`).
//!
//! Nothing is written while the condition says it already; a watch tells when someone has changed it. No Pod is evicted.

mod wanted;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use gpulet_cluster::api::{Api, Condition, ConditionStatus, Event, EventKind};

use self::wanted::wanted;
use super::Shared;
use super::kubernetes::{Access, OwnNode};
use crate::report;
use crate::supervise::LoopError;

/// The loop's name.
pub(crate) const NAME: &str = "conditions";

/// Findings come and go together: they are gathered for this long.
const GATHER: Duration = Duration::from_secs(1);
/// Between two writes of one condition, at least; doubled while they fail or are undone, up to [`LONGEST`].
const APART: Duration = Duration::from_secs(10);
/// See [`APART`].
const LONGEST: Duration = Duration::from_secs(300);

/// Tells until it is time to end.
pub(crate) async fn run(shared: Shared) -> Result<(), LoopError> {
    let mut access = shared.kubernetes.api.subscribe();
    loop {
        let api = match &*access.borrow_and_update() {
            Access::Api(api) => Some(api.clone()),
            Access::Unknown | Access::None => None,
        };
        let tell = async {
            match api {
                Some(api) => Teller { shared: shared.clone(), api, told: BTreeMap::new() }.run().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = tell => {}
            changed = access.changed() => if changed.is_err() { return Ok(()) },
            () = shared.shutdown.requested() => return Ok(()),
        }
    }
}

/// Whether more than the message differs.
fn is_news(there: Option<&Condition>, condition: &Condition) -> bool {
    there.is_none_or(|there| (there.status, &there.reason) != (condition.status, &condition.reason))
}

struct Teller {
    shared: Shared,
    api: Api,
    told: BTreeMap<String, Told>,
}

/// What was told of one condition.
struct Told {
    condition: Condition,
    at: Instant,
    again_at: Instant,
    wait: Duration,
    said: Option<&'static str>,
}

impl Teller {
    async fn run(mut self) {
        let mut topology = self.shared.topology.subscribe();
        let mut publication = self.shared.kubernetes.publication.subscribe();
        let mut node = self.shared.kubernetes.node.subscribe();
        loop {
            let next = self.tell().await;
            let due = async {
                match next {
                    Some(next) => tokio::time::sleep_until(next.into()).await,
                    None => std::future::pending().await,
                }
            };
            let told = tokio::select! {
                told = topology.changed() => told,
                told = publication.changed() => told,
                told = node.changed() => told,
                () = due => Ok(()),
            };
            if told.is_err() {
                return;
            }
            tokio::time::sleep(GATHER).await;
        }
    }

    /// Writes what is due and gives when the next is.
    async fn tell(&mut self) -> Option<Instant> {
        let OwnNode::Known(node) = self.shared.kubernetes.node.borrow().clone() else { return None };
        let mut next = None;
        for condition in wanted(&self.shared) {
            let there = node.conditions.iter().find(|there| there.kind == condition.kind);
            if there == Some(&condition) {
                continue;
            }
            let now = Instant::now();
            // Figures in the message may change all the time.
            let again_at =
                |told: &Told| if is_news(there, &condition) { told.again_at } else { told.at + LONGEST };
            let again_at = self.told.get(&condition.kind).map(again_at);
            let at = match again_at.filter(|again_at| *again_at > now) {
                Some(again_at) => again_at,
                None => self.write(there, condition).await,
            };
            next = Some(next.map_or(at, |next: Instant| next.min(at)));
        }
        next
    }

    /// Writes one, tells an Event where that is news, and gives when it may be looked at again.
    async fn write(&mut self, there: Option<&Condition>, condition: Condition) -> Instant {
        let result = self.api.set_condition(&condition).await;
        let before = self.told.remove(&condition.kind);
        let same = before.as_ref().is_some_and(|told| told.condition == condition);
        let wait = before.as_ref().filter(|_| same).map_or(APART, |told| (told.wait * 2).min(LONGEST));
        let mut said = before.as_ref().and_then(|told| told.said);
        match &result {
            Ok(_) => said = None,
            Err(error) if said.replace(error.reason()) != Some(error.reason()) => {
                tracing::warn!(
                    condition = condition.kind,
                    error = report::chain(error),
                    reason = error.reason(),
                    "a condition of the Node could not be written; it is tried again"
                );
            }
            Err(_) => {}
        }
        let is_news = is_news(there, &condition);
        if result.is_ok() && is_news && !same {
            self.event(&condition).await;
        }
        let wait = wait.max(result.err().and_then(|error| error.retry_after()).unwrap_or_default());
        let at = Instant::now();
        let again_at = at + wait;
        self.told.insert(condition.kind.clone(), Told { condition, at, again_at, wait, said });
        again_at
    }

    async fn event(&self, condition: &Condition) {
        let kind = match condition.status {
            ConditionStatus::False => EventKind::Warning,
            ConditionStatus::True | ConditionStatus::Unknown => EventKind::Normal,
        };
        let event = Event {
            kind,
            reason: condition.reason.clone(),
            action: condition.kind.clone(),
            note: condition.message.clone(),
        };
        if let Err(error) = self.api.event(&event).await {
            tracing::debug!(error = report::chain(&error), reason = error.reason(), "an Event was not told");
        }
    }
}
