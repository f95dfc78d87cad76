//! Carries out a plan, and what a crash has cut off.

use gpulet_inventory::gpu::GpuUuid;
use gpulet_host::partition::store::Found;
use gpulet_partition::apply::{Failure, Machine, Outcome as Ended, Policy};
use gpulet_partition::plan::{GpuPlan, NodePlan, Outcome};

use super::execute::{Way, unwritten};
use super::{End, GpuOutcome, Looked, NodeOutcome, Partitioner, Recovered};

impl Partitioner {
    /// Carries out a plan that was made for what was `looked` at, one GPU after the other. A GPU that is refused, or fails,
    /// keeps no other from being changed; one of which the plan is empty sees no call that changes anything.
    pub(crate) async fn carry_out(&self, looked: &Looked, plan: &NodePlan, policy: Policy) -> NodeOutcome {
        let mut outcome = NodeOutcome::default();
        for plan in &plan.gpus {
            let end = self.carry_out_one(looked, plan, policy).await;
            outcome.gpus.push(GpuOutcome { gpu: Some(plan.gpu.clone()), end });
        }
        let unread = looked.unread.iter().map(|unread| GpuOutcome {
            gpu: unread.uuid.clone(),
            end: End::NotBegun(unread.failure.clone()),
        });
        let known: Vec<Option<GpuUuid>> = outcome.gpus.iter().map(|gpu| gpu.gpu.clone()).collect();
        outcome.gpus.extend(unread.filter(|unread| unread.gpu.is_none() || !known.contains(&unread.gpu)));
        outcome
    }

    async fn carry_out_one(&self, looked: &Looked, plan: &GpuPlan, policy: Policy) -> End {
        let steps = match &plan.outcome {
            Outcome::LeftAlone => return End::LeftAlone,
            Outcome::Refused(refusal) => return End::Refused(refusal.clone()),
            Outcome::Steps(steps) if steps.steps.is_empty() => return End::AsWanted,
            Outcome::Steps(steps) => steps,
        };
        if let Err(failure) = self.is_free(&plan.gpu).await {
            return End::NotBegun(failure);
        }
        let Some(there) = looked.gpu(&plan.gpu) else { return End::NotBegun(not_looked_at(&plan.gpu)) };
        let way = Way { gpu: &plan.gpu, pci: Some(there.gpu.pci), division: Some(&there.division) };
        let ended = self.run(&way, Machine::new(&there.division, steps, policy)).await;
        tell(&plan.gpu, &ended);
        End::Ended(ended)
    }

    /// Nothing that has begun before is unfinished on this GPU.
    async fn is_free(&self, gpu: &GpuUuid) -> Result<(), Failure> {
        let of = gpu.clone();
        match self.on_disk(move |store| store.journal(&of)).await? {
            None => Ok(()),
            Some(_) => {
                let message = format!("a change of {gpu} has begun before and is not finished; it is gone on with first");
                Err(Failure { reason: "Unfinished".to_owned(), message })
            }
        }
    }

    /// Goes on with every change that has begun and of which it is not known how it ended: it is finished, or rolled back.
    ///
    /// A journal that cannot be understood is told and left; its GPU is not changed.
    ///
    /// # Errors
    /// If it cannot be known what there is to go on with.
    pub(crate) async fn recover(&self, policy: Policy) -> Result<Vec<Recovered>, Failure> {
        let found = self.on_disk(|store| store.journals()).await?;
        let mut recovered = Vec::new();
        for Found { gpu, journal } in found {
            let end = match (&gpu, journal) {
                (_, Err(error)) => End::NotBegun(unwritten(&error)),
                (Some(gpu), Ok(journal)) => {
                    let way = Way { gpu, pci: self.place_of(gpu).await, division: None };
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

fn not_looked_at(gpu: &GpuUuid) -> Failure {
    let message = format!("{gpu} is not among the GPUs that were looked at; plan anew");
    Failure { reason: "NoSuchGpu".to_owned(), message }
}

fn tell(gpu: &GpuUuid, ended: &Ended) {
    let reason = ended.reason();
    match ended {
        Ended::Reached => tracing::info!(%gpu, reason, "{}", End::Ended(ended.clone())),
        _ => tracing::warn!(%gpu, reason, "{}", End::Ended(ended.clone())),
    }
}

fn tell_recovered(gpu: &GpuUuid, ended: &Ended) {
    let which = match ended {
        Ended::Reached => "finished a change that had been cut off",
        Ended::RolledBack { .. } => "took back a change that had been cut off",
        _ => "a change that had been cut off is not ended",
    };
    let (reason, end) = (ended.reason(), End::Ended(ended.clone()));
    match ended {
        Ended::Reached | Ended::RolledBack { .. } => tracing::info!(%gpu, reason, "{which}: {end}"),
        _ => tracing::warn!(%gpu, reason, "{which}: {end}"),
    }
}
