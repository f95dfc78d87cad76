//! What would be done, as people approve it and programs read it.
//!
//! The JSON is stable: keys may be added, and are not renamed or taken away (docs/partitioning.md).

mod gpu;
mod text;

use gpulet_inventory::gpu::GpuUuid;
use gpulet_inventory::pci::PciAddress;
use gpulet_partition::observed::Holder;
use gpulet_partition::plan::NodePlan;
use gpulet_partition::resolve::{Desired, Problems};
use serde::Serialize;

use super::Looked;

pub(crate) use text::text;

/// What would be done on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    /// The name of the layout; absent where none is declared.
    pub(crate) layout: Option<String>,
    /// Where it is from: a file, `-` for standard input, or `generated`; absent as the layout.
    pub(crate) source: Option<String>,
    /// Of what it resolves to: another whenever anything else is wanted; absent where it resolves to nothing.
    pub(crate) hash: Option<String>,
    /// What it comes to.
    pub(crate) verdict: Verdict,
    /// What people should know though it can be done.
    pub(crate) warnings: Vec<String>,
    /// Why it resolves to nothing.
    pub(crate) problems: Vec<Problem>,
    /// The driver's version; absent where there is none.
    pub(crate) driver_version: Option<String>,
    /// Each GPU.
    pub(crate) gpus: Vec<GpuReport>,
}

/// What a plan comes to; of several, the last in this order is the node's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// Nothing is asked for.
    LeftAlone,
    /// All is as wanted.
    AsWanted,
    /// There is something to change.
    Changes,
    /// It cannot be read.
    Unreadable,
    /// It can be done once someone stops using something.
    Blocked,
    /// It cannot be had on this hardware.
    Infeasible,
    /// What is asked is wrong.
    Invalid,
}

/// One thing that is in the way of the layout as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    /// The line in the file, from 1; absent where it has none.
    pub(crate) line: Option<u64>,
    /// The keys that lead to it.
    pub(crate) path: String,
    /// The GPUs that it is about.
    pub(crate) gpus: Vec<GpuUuid>,
    /// The stable word.
    pub(crate) reason: &'static str,
    /// For people.
    pub(crate) message: String,
}

/// What would be done on one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct GpuReport {
    /// The driver's number; absent where it does not tell.
    pub(crate) index: Option<u32>,
    /// Its identity; absent where it does not tell.
    pub(crate) uuid: Option<GpuUuid>,
    /// Where it sits; absent where it does not tell.
    pub(crate) pci_bus_id: Option<PciAddress>,
    /// Product name.
    pub(crate) model: Option<String>,
    /// What it comes to.
    pub(crate) verdict: Verdict,
    /// Why nothing is done though something is wanted, in one stable word.
    pub(crate) reason: Option<String>,
    /// The same for people.
    pub(crate) message: Option<String>,
    /// MIG mode; absent where the GPU has none.
    pub(crate) mode: Option<ModeReport>,
    /// Whether the GPU is reset.
    pub(crate) reset: Reset,
    /// GPU instances that stay, with the compute instances in them that stay.
    pub(crate) keep: Vec<InstanceReport>,
    /// What goes.
    pub(crate) destroy: Vec<InstanceReport>,
    /// What comes.
    pub(crate) create: Vec<InstanceReport>,
    /// All of it in the order in which it is done.
    pub(crate) steps: Vec<StepReport>,
    /// What ends by it, or would have to.
    pub(crate) disruptions: Vec<DisruptionReport>,
    /// Name of the largest profile of which another instance fits: afterwards, or where nothing is done, now.
    pub(crate) largest_placeable: Option<String>,
}

/// MIG mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct ModeReport {
    /// Now.
    pub(crate) current: bool,
    /// After the next reset.
    pub(crate) pending: bool,
    /// As wanted; absent where nothing is.
    pub(crate) wanted: Option<bool>,
}

/// Whether a GPU is reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reset {
    /// It is not.
    None,
    /// If the driver puts the change of mode off until then.
    IfNeeded,
    /// It is: a change of mode has been put off already.
    Needed,
}

/// A GPU instance, or compute instances in one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct InstanceReport {
    /// The name of its profile.
    pub(crate) profile: String,
    /// The driver's id of it on this GPU.
    pub(crate) profile_id: u32,
    /// First unit of memory.
    pub(crate) start: u32,
    /// Units of memory.
    pub(crate) size: u32,
    /// Of what comes or goes: the GPU instance itself; otherwise only these compute instances in it.
    pub(crate) whole: bool,
    /// Compute instances in it.
    pub(crate) compute_instances: Vec<ComputeReport>,
    /// Who uses it or one of them.
    pub(crate) holders: Vec<HolderReport>,
}

/// A compute instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ComputeReport {
    /// The name of its profile.
    pub(crate) profile: String,
    /// First compute slice; absent where the driver chooses.
    pub(crate) start: Option<u32>,
    /// Compute slices; absent as the first.
    pub(crate) size: Option<u32>,
}

/// One thing that is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct StepReport {
    /// What, in one stable word: `set-mode`, `destroy-compute`, `destroy-instance`, `create-instance`, `create-compute`.
    pub(crate) action: &'static str,
    /// The same for people, with what and where.
    pub(crate) message: String,
}

/// What ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct DisruptionReport {
    /// In words.
    pub(crate) what: String,
    /// Who uses it; no one where it can be done.
    pub(crate) holders: Vec<HolderReport>,
}

/// Someone who uses something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct HolderReport {
    /// Process id, as the host counts.
    pub(crate) pid: Option<u32>,
    /// Its program.
    pub(crate) program: Option<String>,
    /// The Pod's namespace.
    pub(crate) namespace: Option<String>,
    /// The Pod's name.
    pub(crate) pod: Option<String>,
    /// In words.
    pub(crate) message: String,
}

impl Report {
    /// Of a plan.
    pub(crate) fn of(source: &str, desired: &Desired, looked: &Looked, plan: &NodePlan) -> Self {
        let wanted = desired.wanted();
        let planned = plan.gpus.iter().filter_map(|plan| {
            let looked = looked.gpu(&plan.gpu)?;
            Some(GpuReport::of(looked, wanted.get(&plan.gpu), plan))
        });
        let unread = looked.unread.iter().map(GpuReport::unread);
        // Wanted, and not on the node at all.
        let absent = plan.gpus.iter().filter(|plan| {
            let unread = looked.unread.iter().any(|unread| unread.uuid.as_ref() == Some(&plan.gpu));
            looked.gpu(&plan.gpu).is_none() && !unread
        });
        let gpus: Vec<GpuReport> = planned.chain(unread).chain(absent.map(GpuReport::absent)).collect();
        let verdict = gpus.iter().map(|gpu| gpu.verdict).max().unwrap_or(Verdict::LeftAlone);
        Self {
            layout: Some(desired.name.clone()),
            source: Some(source.to_owned()),
            hash: Some(desired.hash.clone()),
            // A node of which nothing is asked has all that is.
            verdict: verdict.max(Verdict::AsWanted),
            warnings: desired.warnings.iter().map(ToString::to_string).collect(),
            problems: Vec::new(),
            driver_version: Some(looked.driver_version.clone()),
            gpus,
        }
    }

    /// Where no layout is declared: the GPUs are left as they are.
    pub(crate) fn undeclared() -> Self {
        Self {
            layout: None,
            source: None,
            hash: None,
            verdict: Verdict::LeftAlone,
            warnings: Vec::new(),
            problems: Vec::new(),
            driver_version: None,
            gpus: Vec::new(),
        }
    }

    /// Of a layout that resolves to nothing.
    pub(crate) fn unresolved(source: &str, layout: &str, problems: &Problems, looked: &Looked) -> Self {
        let verdict = if problems.is_infeasible() { Verdict::Infeasible } else { Verdict::Invalid };
        let problems = problems.0.iter().map(|problem| Problem {
            line: Some(problem.place.line).filter(|line| *line > 0),
            path: problem.place.path.clone(),
            gpus: problem.gpus.iter().map(|gpu| gpu.uuid.clone()).collect(),
            reason: problem.cause.reason(),
            message: problem.cause.to_string(),
        });
        Self {
            layout: Some(layout.to_owned()),
            source: Some(source.to_owned()),
            hash: None,
            verdict,
            warnings: Vec::new(),
            problems: problems.collect(),
            driver_version: Some(looked.driver_version.clone()),
            gpus: Vec::new(),
        }
    }

    /// The body of `/plan`, and what `gpulet plan -o json` prints.
    pub(crate) fn json(&self) -> String {
        // It has nothing that JSON could not say.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

impl Verdict {
    /// The word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::LeftAlone => "left alone",
            Self::AsWanted => "as wanted",
            Self::Changes => "to change",
            Self::Unreadable => "unreadable",
            Self::Blocked => "blocked",
            Self::Infeasible => "infeasible",
            Self::Invalid => "invalid",
        }
    }
}

impl HolderReport {
    fn of(holder: &Holder) -> Self {
        let (pid, program) = match holder {
            Holder::Process { pid, program, .. } => (Some(*pid), program.clone()),
            Holder::Module { name, .. } => (None, Some(name.clone())),
            Holder::Pod(_) | Holder::Unknown { .. } => (None, None),
        };
        Self {
            pid,
            program,
            namespace: holder.pod().map(|pod| pod.namespace.clone()),
            pod: holder.pod().map(|pod| pod.name.clone()),
            message: holder.to_string(),
        }
    }
}
