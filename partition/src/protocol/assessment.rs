//! What a look at the GPUs tells: what would be done, or why nothing can be.

use std::collections::BTreeMap;

use gpulet_inventory::gpu::GpuUuid;

use crate::observed::Holder;
use crate::plan::{NodePlan, Outcome};
use crate::refusal::Refusal;

use super::journal::NodeEntry;

/// What a look at the GPUs tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assessment {
    /// The hash of what the wanted layout resolves to on this node.
    pub hash: String,
    /// Each GPU.
    pub gpus: Vec<Assessed>,
    /// What is odd about what is wanted, and was understood all the same.
    pub warnings: Vec<String>,
    /// What a crash had cut off was ended before the look, so that GPUs may have been changed.
    pub recovered: bool,
    /// What is on disk of the node, where it was read: a command may have written to it since this was begun with.
    pub on_disk: Option<NodeEntry>,
    /// Services of the host that can be stopped for a while, by the processes of theirs that are in the way.
    pub services: BTreeMap<u32, String>,
}

/// What would be done with one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessed {
    /// Which; absent where it does not even tell its UUID.
    pub gpu: Option<GpuUuid>,
    /// What.
    pub outlook: Outlook,
}

/// What would be done with one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outlook {
    /// Nothing is asked of it.
    LeftAlone,
    /// It is as wanted.
    AsWanted,
    /// So many steps.
    Change(usize),
    /// It cannot be had, whoever goes.
    Impossible {
        /// The stable word.
        reason: String,
        /// For people.
        message: String,
    },
    /// It does not answer, or what had begun on it cannot be ended; the others can be changed all the same.
    Unreadable {
        /// The stable word.
        reason: String,
        /// For people.
        message: String,
    },
    /// It can be had when they are gone.
    Blocked {
        /// For people.
        message: String,
        /// Those.
        holders: Vec<Holder>,
    },
}

impl Assessment {
    /// What this plan comes to.
    pub fn of(hash: &str, warnings: Vec<String>, plan: &NodePlan) -> Self {
        let assessed = |gpu: &crate::plan::GpuPlan| Assessed {
            gpu: Some(gpu.gpu.clone()),
            outlook: match &gpu.outcome {
                Outcome::LeftAlone => Outlook::LeftAlone,
                Outcome::Steps(plan) if plan.steps.is_empty() => Outlook::AsWanted,
                Outcome::Steps(plan) => Outlook::Change(plan.steps.len()),
                Outcome::Refused(refusal) => Outlook::refused(refusal),
            },
        };
        let gpus = plan.gpus.iter().map(assessed).collect();
        Self { hash: hash.to_owned(), gpus, warnings, ..Self::default() }
    }

    /// Why it cannot be had on some GPU, whoever goes.
    pub(super) fn impossible(&self) -> Option<(Option<&GpuUuid>, &str, &str)> {
        self.gpus.iter().find_map(|one| match &one.outlook {
            Outlook::Impossible { reason, message } => {
                Some((one.gpu.as_ref(), reason.as_str(), message.as_str()))
            }
            _ => None,
        })
    }

    /// Which GPU does not answer, and why.
    pub(super) fn unreadable(&self) -> Option<(Option<&GpuUuid>, &str, &str)> {
        self.gpus.iter().find_map(|one| match &one.outlook {
            Outlook::Unreadable { reason, message } => {
                Some((one.gpu.as_ref(), reason.as_str(), message.as_str()))
            }
            _ => None,
        })
    }

    /// Why it cannot be had now, for people; absent where no one is in the way.
    pub(super) fn blocked(&self) -> Option<String> {
        let told: Vec<&str> = self
            .gpus
            .iter()
            .filter_map(|one| match &one.outlook {
                Outlook::Blocked { message, .. } => Some(message.as_str()),
                _ => None,
            })
            .collect();
        (!told.is_empty()).then(|| told.join("; "))
    }

    /// Who is in the way.
    pub(super) fn holders(&self) -> impl Iterator<Item = &Holder> {
        self.gpus.iter().flat_map(|one| match &one.outlook {
            Outlook::Blocked { holders, .. } => holders.as_slice(),
            _ => &[],
        })
    }

    /// Whether there is anything to be done.
    pub(super) fn is_work(&self) -> bool {
        self.gpus.iter().any(|one| matches!(one.outlook, Outlook::Change(_) | Outlook::Blocked { .. }))
    }
}

impl Outlook {
    fn refused(refusal: &Refusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            Refusal::Blocked { instances, holders, .. } => {
                let of_instances = instances.iter().flat_map(|instance| instance.holders.clone());
                Self::Blocked { message, holders: of_instances.chain(holders.clone()).collect() }
            }
            _ => Self::Impossible { reason: refusal.reason().to_owned(), message },
        }
    }

    /// In a word.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::LeftAlone => "left-alone",
            Self::AsWanted => "as-wanted",
            Self::Change(_) => "to-change",
            Self::Impossible { .. } => "impossible",
            Self::Unreadable { .. } => "unreadable",
            Self::Blocked { .. } => "blocked",
        }
    }

    /// For people; nothing where there is nothing to say.
    pub(super) fn message(&self) -> String {
        match self {
            Self::LeftAlone | Self::AsWanted => String::new(),
            Self::Change(steps) => format!("{steps} steps"),
            Self::Impossible { message, .. }
            | Self::Unreadable { message, .. }
            | Self::Blocked { message, .. } => message.clone(),
        }
    }
}
