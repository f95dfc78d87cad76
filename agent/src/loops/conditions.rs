//! Tells the Node's conditions, and an Event when one changes: whether its GPUs are as they should be (`GpuHealthy`), divided
//! as is declared (`GpuPartitioned`), and whether its topology is published (`GpuTopologyPublished`).
//!
//! Nothing is written while the condition says it already; a watch tells when someone has changed it. No Pod is evicted.

mod pace;
mod wanted;

use std::time::{Duration, Instant};

use gpulet_cluster::api::{Api, ApiError, Condition, ConditionStatus, Event, EventKind};

use self::pace::{Failed, Pace};
use self::wanted::{NOT_DECLARED, PARTITIONED, wanted};
use super::Shared;
use super::kubernetes::{Access, OwnNode};
use crate::report;
use crate::supervise::LoopError;

/// The loop's name.
pub(crate) const NAME: &str = "conditions";

/// Findings come and go together: they are gathered for this long.
const GATHER: Duration = Duration::from_secs(1);

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
                Some(api) => Teller { shared: shared.clone(), api, pace: Pace::default() }.run().await,
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

struct Teller {
    shared: Shared,
    api: Api,
    pace: Pace,
}

impl Teller {
    async fn run(mut self) {
        let mut topology = self.shared.topology.subscribe();
        let mut publication = self.shared.kubernetes.publication.subscribe();
        let mut partition = self.shared.kubernetes.partition.subscribe();
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
                told = partition.changed() => told,
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
            // Where nothing was ever declared there is nothing to tell.
            let is_idle = there.is_none() && condition.reason == NOT_DECLARED;
            if there == Some(&condition) || is_idle {
                continue;
            }
            let now = Instant::now();
            let at = match self.pace.due(there, &condition, now) {
                due if due > now => due,
                _ => self.write(there, condition).await,
            };
            next = Some(next.map_or(at, |next: Instant| next.min(at)));
        }
        next
    }

    /// Writes one, tells an Event where that is news, and gives when it may be looked at again.
    async fn write(&mut self, there: Option<&Condition>, condition: Condition) -> Instant {
        let result = self.api.set_condition(&condition).await;
        let failed = |error: &ApiError| Failed { reason: error.reason(), retry_after: error.retry_after() };
        let told = result.as_ref().copied().map_err(failed);
        let next = self.pace.wrote(there, condition.clone(), told, Instant::now());
        if let Err(error) = result
            && next.new_failure
        {
            tracing::warn!(
                condition = condition.kind,
                error = report::chain(&error),
                reason = error.reason(),
                "a condition of the Node could not be written; it is tried again"
            );
        }
        // Of what becomes of the GPUs the loop that divides them tells more.
        if next.event && condition.kind != PARTITIONED {
            self.event(&condition).await;
        }
        next.again_at
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
