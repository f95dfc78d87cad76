//! From what there is to what is wanted: the steps, or why there are none.

mod arrange;
mod gpu;
mod node;
mod order;

use serde::Serialize;

pub use gpu::plan_gpu;
pub use node::{Disruption, GpuPlan, NodePlan, Outcome, plan};

use crate::step::{InstanceAt, Step};

/// How one GPU gets there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Plan {
    /// GPU instances that stay, though compute instances in them may change.
    pub kept: Vec<InstanceAt>,
    /// What is done, in this order; nothing where all is as wanted. What is destroyed comes before what is created.
    pub steps: Vec<Step>,
    /// Id of the largest profile of which another instance fits afterwards.
    pub largest_placeable: Option<u32>,
}
