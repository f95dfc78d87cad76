//! A look at the GPUs: what there is, what is wanted, and what would be done.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpulet_partition::apply::{Failure, Policy};
use gpulet_partition::observed::Holder;
use gpulet_partition::overrides::Overrides;
use gpulet_partition::plan::{NodePlan, plan};
use gpulet_partition::protocol::{Assessed, Assessment, Declared, NotLooked, OVERRIDES, Outlook};

use super::edge::{Edge, broken};
use crate::partition::report::Report;
use crate::partition::{Layouts, Looked, Origin, Recovered, UnreadGpu, WantedError, stoppable};
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
        self.notice_plugin();
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
        assessment.gpus.extend(looked.unread.iter().map(unread));
        recovered.iter().for_each(|one| unfinished(&mut assessment, one));
        assessment.services = services(&looked);
        assessment.recovered = recovered.iter().any(Recovered::is_ended);
        assessment.on_disk = Some(self.partitioner.node_entry().await.map_err(later)?);
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

/// One that does not answer. Where it does not even tell its UUID, the message names it.
fn unread(gpu: &UnreadGpu) -> Assessed {
    let Failure { reason, message } = gpu.failure.clone();
    Assessed { gpu: gpu.uuid.clone(), outlook: Outlook::Unreadable { reason, message } }
}

/// A change that had begun and cannot be ended keeps its GPU from another one: nobody has to go for that, and what is told is
/// why.
fn unfinished(assessment: &mut Assessment, recovered: &Recovered) {
    if recovered.is_ended() {
        return;
    }
    let (reason, message) = (recovered.end.reason().to_owned(), recovered.end.to_string());
    let outlook = Outlook::Unreadable { reason, message };
    let is_it = |one: &&mut Assessed| one.gpu.is_some() && one.gpu == recovered.gpu;
    match assessment.gpus.iter_mut().find(is_it) {
        Some(one) => one.outlook = outlook,
        None => assessment.gpus.push(Assessed { gpu: recovered.gpu.clone(), outlook }),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_on_which_something_is_unfinished_is_not_to_be_changed() {
        use gpulet_partition::apply::Outcome;

        use crate::partition::End;
        let gpu = |number: u32| format!("GPU-00000000-0000-0000-0000-{number:012}").parse().ok();
        let failure = || Failure { reason: "InUse".to_owned(), message: "process 7 uses it".to_owned() };
        let assessed = |number| Assessed { gpu: gpu(number), outlook: Outlook::Change(3) };
        let mut assessment = Assessment { gpus: vec![assessed(1), assessed(2)], ..Assessment::default() };
        let ends = [
            (gpu(1), End::Ended(Outcome::RebootRequired { failure: failure() })),
            (gpu(2), End::Ended(Outcome::RolledBack { cause: None })),
            (None, End::NotBegun(failure())),
        ];
        for (gpu, end) in ends {
            unfinished(&mut assessment, &Recovered { gpu, end });
        }
        let told: Vec<_> = assessment.gpus.iter().map(|one| (&one.gpu, &one.outlook)).collect();
        let [
            (first, Outlook::Unreadable { reason, message }),
            (_, Outlook::Change(3)),
            (None, Outlook::Unreadable { .. }),
        ] = told.as_slice()
        else {
            panic!("{told:?}");
        };
        assert_eq!((*first, reason.as_str()), (&gpu(1), "RebootRequired"));
        assert!(message.contains("process 7"), "{message}");
    }

    #[test]
    fn a_gpu_that_does_not_tell_its_name_is_told_all_the_same() {
        let failure = Failure { reason: "Lost".to_owned(), message: "GPU 1 is lost".to_owned() };
        let one = unread(&UnreadGpu { uuid: None, pci: None, failure });
        assert!(one.gpu.is_none() && matches!(one.outlook, Outlook::Unreadable { .. }), "{one:?}");
    }

    #[test]
    fn an_annotation_that_cannot_be_read_is_wrong() {
        let error = overrides(Some("{")).unwrap_err();
        assert!(error.is_wrong && error.failure.message.contains(OVERRIDES), "{error:?}");
        assert!(overrides(None).is_ok());
    }
}
