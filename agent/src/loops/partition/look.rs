//! A look at the GPUs: what there is, what is wanted, and what would be done.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpulet_host::partition::services::STOPPABLE;
use gpulet_partition::apply::{Failure, Policy};
use gpulet_partition::observed::Holder;
use gpulet_partition::overrides::Overrides;
use gpulet_partition::plan::{NodePlan, plan};
use gpulet_partition::protocol::{Assessed, Assessment, Declared, NotLooked, OVERRIDES, Outlook};

use super::edge::{Edge, broken};
use crate::partition::report::Report;
use crate::partition::{Layouts, Looked, Origin, Recovered, WantedError};
use crate::report;

/// What was planned, for what was looked at.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) looked: Looked,
    pub(super) plan: NodePlan,
}

impl Edge {
    /// Looks, resolves what is declared, and plans.
    pub(super) async fn look(&self, declared: &Declared) -> Result<Assessment, NotLooked> {
        self.lock().await.map_err(later)?;
        let recovered = self.recover().await.map_err(later)?;
        let looked = self.partitioner.look().await.map_err(later)?;
        let layouts = self.layouts().await?;
        let overrides = overrides(declared.overrides.as_deref())?;
        let desired = layouts.resolve(Some(&declared.name), &looked, &overrides);
        let desired = desired.map_err(|error| {
            if let WantedError::Unresolved { from, name, problems } = &error {
                self.show(&Report::unresolved(from, name, problems, &looked));
            }
            wrong(&error)
        })?;
        let plan = plan(&desired.wanted(), &looked.divisions());
        self.show(&Report::of(&layouts.from, &desired, &looked, &plan));
        let warnings = desired.warnings.iter().map(ToString::to_string).collect();
        let mut assessment = Assessment::of(&desired.hash, warnings, &plan);
        assessment.gpus.extend(unread(&looked));
        assessment.services = services(&looked);
        assessment.recovered = !recovered.is_empty();
        self.plan(Planned { looked, plan });
        Ok(assessment)
    }

    /// Shows at `/plan` what would be done.
    pub(super) fn show(&self, report: &Report) {
        self.shared.plan.send_replace(Some(report.json().into()));
    }

    /// Ends what a crash, or a change that got stuck, has left.
    pub(super) async fn recover(&self) -> Result<Vec<Recovered>, Failure> {
        self.partitioner.recover(Policy::default()).await
    }

    async fn layouts(&self) -> Result<Layouts, NotLooked> {
        let settings = Arc::clone(&self.shared.settings.borrow());
        let origin = Origin::of(None, settings.partition.file.as_deref());
        let reader = self.reader.clone();
        let read = tokio::task::spawn_blocking(move || origin.read(&reader)).await;
        read.map_err(|error| later(broken(&error)))?.map_err(|error| wrong(&error))
    }
}

fn later(failure: Failure) -> NotLooked {
    NotLooked { failure, is_wrong: false }
}

/// A file that cannot be read may be readable later; all else is for whoever wrote it.
fn wrong(error: &WantedError) -> NotLooked {
    let failure = Failure { reason: error.reason().to_owned(), message: report::chain(error) };
    NotLooked { failure, is_wrong: !matches!(error, WantedError::Unreadable { .. }) }
}

fn overrides(text: Option<&str>) -> Result<Overrides, NotLooked> {
    let Some(text) = text else { return Ok(Overrides::default()) };
    Overrides::parse(text).map_err(|problems| {
        let message = format!("annotation {OVERRIDES}: {}", problems.listed(OVERRIDES));
        NotLooked { failure: Failure { reason: "BadAnnotation".to_owned(), message }, is_wrong: true }
    })
}

/// Those that do not answer. One that does not even tell its UUID is told by its place in the message.
fn unread(looked: &Looked) -> impl Iterator<Item = Assessed> {
    looked.unread.iter().filter_map(|gpu| {
        let Failure { reason, message } = gpu.failure.clone();
        Some(Assessed { gpu: gpu.uuid.clone()?, outlook: Outlook::Unreadable { reason, message } })
    })
}

/// Services that can be stopped for a while, by their processes on GPUs.
fn services(looked: &Looked) -> BTreeMap<u32, String> {
    let divisions = looked.gpus.iter().map(|gpu| &gpu.division);
    let holders = divisions.flat_map(|division| {
        let instances = division.instances.iter().flat_map(|instance| instance.all_holders());
        division.holders.iter().chain(instances)
    });
    let named = holders.filter_map(|holder| match holder {
        Holder::Process { pid, program: Some(program), pod: None } => Some((*pid, stoppable(program)?)),
        _ => None,
    });
    named.collect()
}

/// The unit of a program that is told with it.
fn stoppable(program: &str) -> Option<String> {
    let (_, unit) = program.rsplit_once(" of ")?;
    STOPPABLE.contains(&unit).then(|| unit.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_monitors_of_the_host_can_be_stopped() {
        assert_eq!(stoppable("nv-hostengine of nvidia-dcgm.service").as_deref(), Some("nvidia-dcgm.service"));
        assert_eq!(stoppable("train of train.service"), None);
        assert_eq!(stoppable("nvidia-dcgm.service"), None);
    }

    #[test]
    fn an_annotation_that_cannot_be_read_is_wrong() {
        let error = overrides(Some("{")).unwrap_err();
        assert!(error.is_wrong && error.failure.message.contains(OVERRIDES), "{error:?}");
        assert!(overrides(None).is_ok());
    }
}
