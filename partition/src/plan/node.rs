//! The plan for a node: one for each GPU, which depend on nothing of each other.

use std::collections::BTreeMap;

use gpulet_inventory::gpu::GpuUuid;
use serde::Serialize;

use crate::desired::Wanted;
use crate::observed::{GpuDivision, Holder};
use crate::refusal::Refusal;
use crate::step::{ComputeAt, InstanceAt, Step};

use super::Plan;
use super::gpu::{largest_placeable_now, plan_gpu};

/// What is to be done on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NodePlan {
    /// Those that are there, in the order that they were reported; then those that are wanted and are not there.
    pub gpus: Vec<GpuPlan>,
}

/// What is to be done on one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct GpuPlan {
    /// Which.
    pub gpu: GpuUuid,
    /// What is to be done.
    pub outcome: Outcome,
    /// Id of the largest profile of which another instance fits: afterwards, or where nothing is done, now.
    pub largest_placeable: Option<u32>,
}

/// What is to be done on one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Nothing is asked for: it is left as it is.
    LeftAlone,
    /// These steps; none where it is as wanted.
    Steps(Plan),
    /// Nothing, for this reason.
    Refused(Refusal),
}

/// Something that ends, or would have to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Disruption {
    /// On which GPU.
    pub gpu: GpuUuid,
    /// The GPU instance; absent: the whole GPU, for its mode changes.
    pub instance: Option<InstanceAt>,
    /// The compute instance in it; absent: the whole GPU instance.
    pub compute: Option<ComputeAt>,
    /// Who uses it. No one does where the plan can be carried out.
    pub holders: Vec<Holder>,
}

impl NodePlan {
    /// Whether nothing is to be done and nothing is refused.
    pub fn is_empty(&self) -> bool {
        self.gpus.iter().all(|gpu| match &gpu.outcome {
            Outcome::LeftAlone => true,
            Outcome::Steps(plan) => plan.steps.is_empty(),
            Outcome::Refused(_) => false,
        })
    }

    /// Why GPUs are not changed that were to be.
    pub fn refusals(&self) -> impl Iterator<Item = &Refusal> {
        self.gpus.iter().filter_map(|gpu| match &gpu.outcome {
            Outcome::Refused(refusal) => Some(refusal),
            Outcome::LeftAlone | Outcome::Steps(_) => None,
        })
    }

    /// What ends by these plans, and what those who are in the way use.
    pub fn disruptions(&self) -> Vec<Disruption> {
        self.gpus.iter().flat_map(GpuPlan::disruptions).collect()
    }
}

impl GpuPlan {
    /// What ends by this plan, and what those who are in the way use.
    pub fn disruptions(&self) -> Vec<Disruption> {
        let gpu = || self.gpu.clone();
        let whole = |holders| Disruption { gpu: gpu(), instance: None, compute: None, holders };
        match &self.outcome {
            Outcome::LeftAlone => Vec::new(),
            Outcome::Steps(plan) => {
                plan.steps.iter().filter_map(|step| self.disruption(plan, step)).collect()
            }
            Outcome::Refused(Refusal::Blocked { instances, holders, .. }) => {
                let of_gpu = (!holders.is_empty()).then(|| whole(holders.clone()));
                let of_instances = instances.iter().map(|one| Disruption {
                    gpu: gpu(),
                    instance: Some(one.at),
                    compute: None,
                    holders: one.holders.clone(),
                });
                of_instances.chain(of_gpu).collect()
            }
            Outcome::Refused(_) => Vec::new(),
        }
    }

    fn disruption(&self, plan: &Plan, step: &Step) -> Option<Disruption> {
        let tell = |instance, compute| {
            Some(Disruption { gpu: self.gpu.clone(), instance, compute, holders: Vec::new() })
        };
        match step {
            Step::SetMode(_) => tell(None, None),
            Step::DestroyInstance(at) => tell(Some(*at), None),
            // With its GPU instance it is told once.
            Step::DestroyCompute { within, compute } if plan.kept.contains(within) => {
                tell(Some(*within), Some(*compute))
            }
            Step::DestroyCompute { .. } | Step::CreateInstance(_) | Step::CreateCompute { .. } => None,
        }
    }
}

/// The plan for a node. A GPU of which nothing is wanted is left as it is.
pub fn plan(wanted: &BTreeMap<GpuUuid, Wanted>, observed: &[GpuDivision]) -> NodePlan {
    let there = observed.iter().map(|division| one(division, wanted.get(&division.gpu)));
    let known = |gpu: &GpuUuid| observed.iter().any(|division| division.gpu == *gpu);
    let absent = wanted.keys().filter(|gpu| !known(gpu)).map(|gpu| GpuPlan {
        gpu: gpu.clone(),
        outcome: Outcome::Refused(Refusal::NoSuchGpu { gpu: gpu.clone() }),
        largest_placeable: None,
    });
    NodePlan { gpus: there.chain(absent).collect() }
}

fn one(division: &GpuDivision, wanted: Option<&Wanted>) -> GpuPlan {
    let outcome = match wanted.map(|wanted| plan_gpu(division, wanted)) {
        None => Outcome::LeftAlone,
        Some(Ok(plan)) => Outcome::Steps(plan),
        Some(Err(refusal)) => Outcome::Refused(refusal),
    };
    let largest_placeable = match &outcome {
        Outcome::Steps(plan) => plan.largest_placeable,
        Outcome::LeftAlone | Outcome::Refused(_) => largest_placeable_now(division),
    };
    GpuPlan { gpu: division.gpu.clone(), outcome, largest_placeable }
}
