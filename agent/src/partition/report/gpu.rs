//! What would be done on one GPU.

use gpulet_inventory::mig::Placement;
use gpulet_partition::desired::Wanted;
use gpulet_partition::observed::{Compute, GpuDivision, Instance};
use gpulet_partition::plan::{Disruption, GpuPlan, Outcome, Plan};
use gpulet_partition::step::{InstanceAt, Step};

use super::super::{LookedGpu, UnreadGpu};
use super::{
    ComputeReport, DisruptionReport, GpuReport, HolderReport, InstanceReport, ModeReport, Reset, StepReport,
    Verdict,
};

impl GpuReport {
    /// Of a plan.
    pub(super) fn of(looked: &LookedGpu, wanted: Option<&Wanted>, plan: &GpuPlan) -> Self {
        let division = &looked.division;
        let mut report = Self {
            index: Some(looked.gpu.index),
            uuid: Some(looked.gpu.uuid.clone()),
            pci_bus_id: Some(looked.gpu.pci),
            model: looked.gpu.name.value().cloned(),
            mode: mode(division, wanted),
            disruptions: plan.disruptions().iter().map(|one| disruption(division, one)).collect(),
            largest_placeable: plan.largest_placeable.map(|id| division.profile_name(id)),
            ..Self::nothing(Verdict::LeftAlone)
        };
        match &plan.outcome {
            Outcome::LeftAlone => {
                report.keep = sorted(division.instances.iter().map(|one| kept(division, one, &[])));
            }
            Outcome::Steps(plan) => report.add_steps(looked, plan),
            Outcome::Refused(refusal) => {
                report.verdict = if refusal.is_blocked() { Verdict::Blocked } else { Verdict::Infeasible };
                report.reason = Some(refusal.reason().to_owned());
                report.message = Some(refusal.to_string());
            }
        }
        report
    }

    fn add_steps(&mut self, looked: &LookedGpu, plan: &Plan) {
        let division = &looked.division;
        self.verdict = if plan.steps.is_empty() { Verdict::AsWanted } else { Verdict::Changes };
        self.reset = reset(looked, plan);
        let stays = division.instances.iter().filter(|one| plan.kept.contains(&one.at()));
        self.keep = sorted(stays.map(|one| kept(division, one, &plan.steps)));
        self.destroy = changes(division, &plan.steps, false);
        self.create = changes(division, &plan.steps, true);
        self.steps = plan.steps.iter().map(|step| step_report(division, step)).collect();
    }

    /// Of a GPU that does not answer.
    pub(super) fn unread(unread: &UnreadGpu) -> Self {
        Self {
            uuid: unread.uuid.clone(),
            pci_bus_id: unread.pci,
            reason: Some(unread.failure.reason.clone()),
            message: Some(unread.failure.message.clone()),
            ..Self::nothing(Verdict::Unreadable)
        }
    }

    /// Of a GPU that is wanted and not on the node.
    pub(super) fn absent(plan: &GpuPlan) -> Self {
        let refusal = match &plan.outcome {
            Outcome::Refused(refusal) => Some(refusal),
            Outcome::LeftAlone | Outcome::Steps(_) => None,
        };
        Self {
            uuid: Some(plan.gpu.clone()),
            reason: refusal.map(|refusal| refusal.reason().to_owned()),
            message: refusal.map(ToString::to_string),
            ..Self::nothing(Verdict::Infeasible)
        }
    }

    fn nothing(verdict: Verdict) -> Self {
        Self {
            index: None,
            uuid: None,
            pci_bus_id: None,
            model: None,
            verdict,
            reason: None,
            message: None,
            mode: None,
            reset: Reset::None,
            keep: Vec::new(),
            destroy: Vec::new(),
            create: Vec::new(),
            steps: Vec::new(),
            disruptions: Vec::new(),
            largest_placeable: None,
        }
    }
}

fn mode(division: &GpuDivision, wanted: Option<&Wanted>) -> Option<ModeReport> {
    let mode = division.mode?;
    let wanted = wanted.map(|wanted| matches!(wanted, Wanted::On(_)));
    Some(ModeReport { current: mode.current, pending: mode.pending, wanted })
}

fn reset(looked: &LookedGpu, plan: &Plan) -> Reset {
    let changes = plan.steps.iter().find_map(|step| match step {
        Step::SetMode(on) => Some(*on),
        _ => None,
    });
    match (changes, looked.division.mode) {
        (Some(on), Some(mode)) if mode.current != on && mode.pending == on => Reset::Needed,
        (Some(on), Some(mode)) if mode.current != on && !looked.resetless => Reset::IfNeeded,
        _ => Reset::None,
    }
}

/// From the first unit of memory on.
fn sorted(reports: impl Iterator<Item = InstanceReport>) -> Vec<InstanceReport> {
    let mut reports: Vec<InstanceReport> = reports.collect();
    reports.sort_by_key(|report| report.start);
    reports
}

/// An instance that stays, without what goes of it.
fn kept(division: &GpuDivision, instance: &Instance, steps: &[Step]) -> InstanceReport {
    let goes = |compute: &Compute| {
        steps.iter().any(|step| {
            matches!(step, Step::DestroyCompute { within, compute: gone } if *within == instance.at() && *gone == compute.at())
        })
    };
    let stays = instance.computes.iter().filter(|compute| !goes(compute));
    let computes = stays
        .map(|compute| compute_report(division, instance.at(), compute.profile, Some(compute.placement)));
    InstanceReport {
        compute_instances: computes.collect(),
        holders: holders(instance.all_holders()),
        ..instance_report(division, instance.at(), true)
    }
}

/// What comes or goes by these steps, each GPU instance once.
fn changes(division: &GpuDivision, steps: &[Step], comes: bool) -> Vec<InstanceReport> {
    let whole = |at: &InstanceAt| {
        steps.iter().any(|step| match step {
            Step::CreateInstance(of) => comes && of == at,
            Step::DestroyInstance(of) => !comes && of == at,
            _ => false,
        })
    };
    let mut reports: Vec<(InstanceAt, InstanceReport)> = Vec::new();
    for step in steps {
        let (at, compute) = match step {
            Step::CreateInstance(at) if comes => (at, None),
            Step::DestroyInstance(at) if !comes => (at, None),
            Step::CreateCompute { within, profile, placement } if comes => {
                (within, Some((*profile, *placement)))
            }
            Step::DestroyCompute { within, compute } if !comes => {
                (within, Some((compute.profile, Some(compute.placement))))
            }
            _ => continue,
        };
        let position = reports.iter().position(|(known, _)| known == at).unwrap_or_else(|| {
            reports.push((*at, instance_report(division, *at, whole(at))));
            reports.len() - 1
        });
        let compute = compute.map(|(profile, placement)| compute_report(division, *at, profile, placement));
        if let Some((_, report)) = reports.get_mut(position) {
            report.compute_instances.extend(compute);
        }
    }
    sorted(reports.into_iter().map(|(_, report)| report))
}

fn step_report(division: &GpuDivision, step: &Step) -> StepReport {
    let action = match step {
        Step::SetMode(_) => "set-mode",
        Step::DestroyCompute { .. } => "destroy-compute",
        Step::DestroyInstance(_) => "destroy-instance",
        Step::CreateInstance(_) => "create-instance",
        Step::CreateCompute { .. } => "create-compute",
    };
    StepReport { action, message: step.told(division) }
}

fn instance_report(division: &GpuDivision, at: InstanceAt, whole: bool) -> InstanceReport {
    InstanceReport {
        profile: division.profile_name(at.profile),
        profile_id: at.profile,
        start: at.placement.start,
        size: at.placement.size,
        whole,
        compute_instances: Vec::new(),
        holders: Vec::new(),
    }
}

fn compute_report(
    division: &GpuDivision,
    within: InstanceAt,
    profile: u32,
    placement: Option<Placement>,
) -> ComputeReport {
    let offered = division.profile(within.profile).map(|offered| offered.compute_profiles.as_slice());
    let own = offered.unwrap_or_default().iter().find(|own| own.id == profile);
    ComputeReport {
        profile: own.map_or_else(|| format!("profile {profile}"), |own| own.name.clone()),
        start: placement.map(|placement| placement.start),
        size: placement.map(|placement| placement.size),
    }
}

fn disruption(division: &GpuDivision, disruption: &Disruption) -> DisruptionReport {
    let place = |at: &InstanceAt| {
        format!("{} at {}:{}", division.profile_name(at.profile), at.placement.start, at.placement.size)
    };
    let what = match (&disruption.instance, &disruption.compute) {
        (None, _) => "the whole GPU: its MIG mode changes".to_owned(),
        (Some(at), None) => format!("GPU instance {}", place(at)),
        (Some(at), Some(compute)) => {
            let report = compute_report(division, *at, compute.profile, Some(compute.placement));
            format!(
                "compute instance {} at {}:{} in {}",
                report.profile,
                compute.placement.start,
                compute.placement.size,
                place(at)
            )
        }
    };
    DisruptionReport { what, holders: holders(disruption.holders.iter()) }
}

/// Each once.
fn holders<'a>(of: impl Iterator<Item = &'a gpulet_partition::observed::Holder>) -> Vec<HolderReport> {
    let mut reports: Vec<HolderReport> = Vec::new();
    for report in of.map(HolderReport::of) {
        if !reports.contains(&report) {
            reports.push(report);
        }
    }
    reports
}
