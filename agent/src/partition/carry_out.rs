//! Carries out a plan, and what a crash has cut off.

use gpulet_host::partition::store::Found;
use gpulet_inventory::gpu::GpuUuid;
use gpulet_partition::apply::{Failure, Machine, Outcome as Ended, Policy};
use gpulet_partition::plan::{GpuPlan, NodePlan, Outcome, Plan};

use super::execute::{Way, unwritten};
use super::{End, GpuOutcome, Looked, NodeOutcome, Partitioner, Recovered};

impl Partitioner {
    /// Carries out a plan that was made for what was `looked` at, one GPU after the other. A GPU that is refused, or fails,
    /// keeps no other from being changed; one of which the plan is empty sees no call that changes anything. Once it is to
    /// `go_on` no more, the GPU that is being changed is the last.
    pub(crate) async fn carry_out(
        &self,
        looked: &Looked,
        plan: &NodePlan,
        policy: Policy,
        go_on: impl Fn() -> bool,
    ) -> NodeOutcome {
        let mut outcome = NodeOutcome::default();
        for GpuPlan { gpu, outcome: planned, .. } in &plan.gpus {
            let end = match planned {
                Outcome::LeftAlone => End::LeftAlone,
                Outcome::Refused(refusal) => End::Refused(refusal.clone()),
                Outcome::Steps(plan) if plan.steps.is_empty() => End::AsWanted,
                Outcome::Steps(_) if !go_on() => End::NotBegun(stopped(gpu)),
                Outcome::Steps(plan) => self.change_one(looked, gpu, plan, policy).await,
            };
            outcome.gpus.push(GpuOutcome { gpu: Some(gpu.clone()), end });
        }
        // One that does not answer and is wanted is in the plan too, as one that is not there. Why it does not answer tells more.
        for unread in &looked.unread {
            let end = End::NotBegun(unread.failure.clone());
            match outcome.gpus.iter_mut().find(|told| told.gpu.is_some() && told.gpu == unread.uuid) {
                Some(told) => told.end = end,
                None => outcome.gpus.push(GpuOutcome { gpu: unread.uuid.clone(), end }),
            }
        }
        outcome
    }

    async fn change_one(&self, looked: &Looked, gpu: &GpuUuid, plan: &Plan, policy: Policy) -> End {
        if let Err(failure) = self.is_free(gpu).await {
            return End::NotBegun(failure);
        }
        let Some(there) = looked.gpu(gpu) else { return End::NotBegun(not_looked_at(gpu)) };
        let way = Way { gpu, division: Some(&there.division) };
        let ended = self.run(&way, Machine::new(&there.division, plan, policy)).await;
        let reason = ended.reason();
        match &ended {
            Ended::Reached => tracing::info!(%gpu, reason, "{}", End::Ended(ended.clone())),
            _ => tracing::warn!(%gpu, reason, "{}", End::Ended(ended.clone())),
        }
        End::Ended(ended)
    }

    /// Nothing that has begun before is unfinished on this GPU.
    async fn is_free(&self, gpu: &GpuUuid) -> Result<(), Failure> {
        let of = gpu.clone();
        match self.on_disk(move |store| store.journal(&of)).await? {
            None => Ok(()),
            Some(_) => {
                let message = format!(
                    "a change of {gpu} has begun before and is not finished; it is gone on with first"
                );
                Err(Failure { reason: "Unfinished".to_owned(), message })
            }
        }
    }

    /// What has begun before and is not finished, in words: a plan does not go on with it.
    pub(crate) async fn unfinished(&self) -> Vec<String> {
        match self.on_disk(|store| store.journals()).await {
            Ok(found) => found.into_iter().map(told_unfinished).collect(),
            Err(failure) => vec![failure.to_string()],
        }
    }

    /// Goes on with every change that has begun and of which it is not known how it ended: it is finished, or rolled back.
    ///
    /// A journal that cannot be understood is told and left; its GPU is not changed. What waits for a reboot that was asked for
    /// and has not come yet goes on waiting.
    ///
    /// # Errors
    /// If it cannot be known what there is to go on with.
    pub(crate) async fn recover(&self, policy: Policy) -> Result<Vec<Recovered>, Failure> {
        let policy = Policy { reboot: policy.reboot || self.is_reboot_asked().await, ..policy };
        let found = self.on_disk(|store| store.journals()).await?;
        if !found.is_empty() {
            // The journals go before device files are seen to, which a kill in between must not make forgotten.
            self.write_entry(|entry| entry.aftercare = true).await?;
        }
        let mut recovered = Vec::new();
        for Found { gpu, journal } in found {
            let end = match (&gpu, journal) {
                (_, Err(error)) => End::NotBegun(unwritten(&error)),
                (Some(gpu), Ok(journal)) => {
                    let way = Way { gpu, division: None };
                    let ended = self.run(&way, Machine::recover(journal, policy)).await;
                    tell_recovered(gpu, &ended);
                    End::Ended(ended)
                }
                // A journal of no GPU is one that is not understood.
                (None, Ok(_)) => continue,
            };
            recovered.push(Recovered { gpu, end });
        }
        Ok(recovered)
    }
}

fn told_unfinished(found: Found) -> String {
    match (found.gpu, found.journal) {
        (Some(gpu), Ok(_)) => {
            format!(
                "a change of {gpu} has begun before and is not finished; `gpulet apply` goes on with it first"
            )
        }
        (_, Err(error)) => unwritten(&error).to_string(),
        (None, Ok(_)) => "a change of a GPU has begun before and is not finished".to_owned(),
    }
}

fn stopped(gpu: &GpuUuid) -> Failure {
    let message = format!("{gpu} was not changed: the change of the node was given up before its turn came");
    Failure { reason: "Stopped".to_owned(), message }
}

fn not_looked_at(gpu: &GpuUuid) -> Failure {
    let message = format!("{gpu} is not among the GPUs that were looked at; plan anew");
    Failure { reason: "NoSuchGpu".to_owned(), message }
}

fn tell_recovered(gpu: &GpuUuid, ended: &Ended) {
    let (reason, end) = (ended.reason(), End::Ended(ended.clone()));
    match ended {
        Ended::Reached => tracing::info!(%gpu, reason, "finished a change that had been cut off: {end}"),
        Ended::RolledBack { .. } => {
            tracing::info!(%gpu, reason, "took back a change that had been cut off: {end}");
        }
        _ => tracing::warn!(%gpu, reason, "a change that had been cut off is not ended: {end}"),
    }
}
