//! Every metric, declared once: its name, type, unit, help, labels, where its value comes from, and how it is
//! sampled from a snapshot.
//!
//! A [`Family`] says what it has by pushing points into a [`Sink`], and says what it has not by pushing the driver's
//! refusal. So one walk serves the encoder, `--explain` and the documentation, and they cannot disagree.
//!
//! Names and units follow Prometheus's rules: base units, ratios of 0 to 1, counters ending in `_total`, words in an
//! `_info` metric. The series of a GPU carry `gpu` and `uuid` only; everything else about it is a join on
//! `gpulet_gpu_info` away. A value that the driver does not give makes no series.

mod agent;
mod clock;
mod driver;
mod error;
mod fabric;
mod gpu;
mod holder;
mod kubernetes;
mod label;
mod load;
mod mig;
mod nvlink;
#[cfg(test)]
mod page;
mod pcie;
mod power;
mod process;
mod series;
mod topology;

use gpulet_inventory::gpu::Gpu;
use gpulet_inventory::link::NvLinkVersion;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::reading::Answer;
use gpulet_inventory::sample::Sample;
use gpulet_inventory::snapshot::{Condition, GpuState, Snapshot, UnlistedGpu};

use crate::own::Own;
pub(crate) use clock::events_of;
pub(crate) use label::LabelName;
pub(crate) use series::Series;

/// The labels that name a GPU, before a family's own.
pub(crate) const GPU_LABELS: [&str; 2] = ["gpu", "uuid"];

/// One metric family.
#[derive(Debug)]
pub(crate) struct Family {
    /// Its name without the suffix that its type adds.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The base unit, which the name ends in; absent for numbers of things and states.
    pub(crate) unit: Option<&'static str>,
    pub(crate) help: &'static str,
    /// Names of its own labels; [`GPU_LABELS`] come before them where a GPU is sampled.
    pub(crate) labels: &'static [LabelName],
    /// What the value is read from, for the documentation.
    pub(crate) source: &'static str,
    pub(crate) sampler: Sampler,
}

/// What a family's numbers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Goes up and down.
    Gauge,
    /// Only goes up, until what counts starts anew.
    Counter,
    /// Words in labels; the number is always 1.
    Info,
}

impl Kind {
    /// What the name of each sample ends in after the family's name.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Gauge => "",
            Self::Counter => "_total",
            Self::Info => "_info",
        }
    }
}

/// How a family is sampled.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sampler {
    /// Once, from what the agent counts about itself.
    Own(fn(&Own, &mut Series<'_>)),
    /// Once, from the snapshot.
    Node(fn(&Snapshot, &mut Series<'_>)),
    /// Once for each GPU, whether it answers or not.
    Gpu(fn(&Snapshot, &GpuState, &mut Series<'_>)),
    /// Once for each GPU, those included that have not said which they are.
    Condition(fn(&Snapshot, Condition, &mut Series<'_>)),
    /// Once for each GPU that answers.
    Sample(fn(&Gpu, &Sample, &mut Series<'_>)),
}

#[cfg(test)]
impl Sampler {
    /// Whether its series name a GPU by [`GPU_LABELS`].
    pub(crate) fn is_of_gpus(self) -> bool {
        match self {
            Self::Own(_) | Self::Node(_) => false,
            Self::Gpu(_) | Self::Condition(_) | Self::Sample(_) => true,
        }
    }
}

/// What names a GPU in its series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GpuName<'a> {
    /// The driver's number.
    pub(crate) index: u32,
    /// Empty for a GPU that has not told it.
    pub(crate) uuid: &'a str,
}

impl<'a> From<&'a Gpu> for GpuName<'a> {
    fn from(gpu: &'a Gpu) -> Self {
        Self { index: gpu.index, uuid: gpu.uuid.as_str() }
    }
}

impl From<&UnlistedGpu> for GpuName<'_> {
    fn from(gpu: &UnlistedGpu) -> Self {
        Self { index: gpu.index, uuid: "" }
    }
}

/// The value of one label. What is not text needs no escaping and no allocation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Label<'a> {
    Text(&'a str),
    Number(u64),
    Pci(PciAddress),
    /// Major and minor.
    Version(u32, u32),
    NvLinkVersion(NvLinkVersion),
}

impl Label<'_> {
    /// What stands for a word that is not known.
    pub(crate) const NONE: Self = Self::Text("");
}

/// The value of one series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value {
    Integer(u64),
    /// Not finite means that there is no value.
    Float(f64),
}

/// Why a series is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absence<'a> {
    /// The driver refused this call.
    Refused(Answer),
    /// The GPU does not answer.
    GpuDown(Condition),
    /// The GPU answers and has not been read yet, or not for too long.
    NotSampled,
    /// The driver does not answer, with what happened.
    DriverDown(&'a str),
    /// The call succeeded and does not tell this part.
    NotTold(&'static str),
}

/// Where a walk over the catalogue goes.
pub(crate) trait Sink {
    /// Everything that follows belongs to `family`, until the next call.
    fn begin(&mut self, family: &'static Family);
    /// One series. `labels` are in the order of [`Family::labels`].
    fn point(&mut self, gpu: Option<GpuName<'_>>, labels: &[Label<'_>], value: Value);
    /// One series that is missing; `labels` may be fewer than the family has, where the rest is not known.
    fn missing(&mut self, gpu: Option<GpuName<'_>>, labels: &[Label<'_>], why: Absence<'_>);
}

/// Every family, in the order in which they are written.
pub(crate) fn families() -> impl Iterator<Item = &'static Family> {
    [
        agent::BUILD,
        driver::FAMILIES,
        topology::FAMILIES,
        gpu::FAMILIES,
        load::FAMILIES,
        holder::FAMILIES,
        power::FAMILIES,
        clock::FAMILIES,
        pcie::FAMILIES,
        nvlink::FAMILIES,
        error::FAMILIES,
        mig::FAMILIES,
        fabric::FAMILIES,
        kubernetes::FAMILIES,
        agent::FAMILIES,
        process::FAMILIES,
    ]
    .into_iter()
    .flatten()
}

/// Samples every family into `sink`; those of the agent's own counters only where they are given.
pub(crate) fn walk(snapshot: &Snapshot, own: Option<&Own>, sink: &mut dyn Sink) {
    for family in families() {
        sink.begin(family);
        match (family.sampler, own) {
            (Sampler::Own(sample), Some(own)) => sample(own, &mut Series::new(None, sink)),
            (Sampler::Own(_), None) => {}
            (Sampler::Node(sample), _) => sample(snapshot, &mut Series::new(None, sink)),
            (Sampler::Gpu(sample), _) => {
                each(snapshot, sink, |state, series| sample(snapshot, state, series), unknown);
            }
            (Sampler::Condition(sample), _) => {
                let one = |condition: Condition, series: &mut Series<'_>| sample(snapshot, condition, series);
                each(snapshot, sink, |state, series| one(state.condition, series), one);
            }
            (Sampler::Sample(sample), _) => {
                each(snapshot, sink, |state, series| sample_gpu(state, sample, series), unknown);
            }
        }
    }
}

/// Samples each GPU that said which it is, and then those that did not.
fn each(
    snapshot: &Snapshot,
    sink: &mut dyn Sink,
    listed: impl Fn(&GpuState, &mut Series<'_>),
    unlisted: impl Fn(Condition, &mut Series<'_>),
) {
    let gpus = &*snapshot.gpus.value;
    for state in &gpus.gpus {
        listed(state, &mut Series::new(Some((&*state.gpu).into()), sink));
    }
    for gpu in &gpus.unlisted {
        unlisted(Condition::Down(gpu.reason), &mut Series::new(Some(gpu.into()), sink));
    }
}

fn unknown(condition: Condition, series: &mut Series<'_>) {
    series.missing(&[], Absence::GpuDown(condition));
}

fn sample_gpu(state: &GpuState, sample: fn(&Gpu, &Sample, &mut Series<'_>), series: &mut Series<'_>) {
    match (state.condition, state.sample.as_deref()) {
        (Condition::Up, Some(values)) => sample(&state.gpu, values, series),
        (Condition::Up, None) => series.missing(&[], Absence::NotSampled),
        (down, _) => series.missing(&[], Absence::GpuDown(down)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::time::Duration;

    use gpulet_inventory::reading::Cause;
    use gpulet_inventory::snapshot::{DownReason, Driver, DriverDown};

    use super::*;
    use crate::own::BuildInfo;

    #[test]
    fn names_are_unique_and_follow_the_rules() {
        let mut seen = BTreeSet::new();
        for family in families() {
            let name = family.name;
            assert!(seen.insert(name), "{name} is declared twice");
            assert!(name.starts_with("gpulet_") || name.starts_with("process_"), "{name}");
            assert!(
                name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                "{name}"
            );
            for suffix in ["_total", "_info", "_count", "_sum", "_bucket", "_created"] {
                assert!(!name.ends_with(suffix), "{name}: the type adds its suffix itself");
            }
        }
        for family in families() {
            let sample = format!("{}{}", family.name, family.kind.suffix());
            assert!(
                family.kind == Kind::Gauge || !seen.contains(sample.as_str()),
                "{sample} is two families'"
            );
        }
    }

    #[test]
    fn a_unit_is_a_base_unit_and_ends_the_name() {
        for Family { name, unit, kind, .. } in families() {
            let words: Vec<&str> = name.split('_').collect();
            for wrong in
                ["percent", "ms", "us", "ns", "milliseconds", "kb", "mb", "kilobytes", "mhz", "milliwatts"]
            {
                assert!(!words.contains(&wrong), "{name}: {wrong} is no base unit");
            }
            match unit {
                Some(unit) => {
                    assert!(name.ends_with(&format!("_{unit}")), "{name} does not end in {unit}");
                    assert_ne!(*kind, Kind::Info, "{name}");
                }
                None => {
                    let last = words.last().unwrap();
                    let units = ["bytes", "seconds", "ratio", "watts", "joules", "celsius", "hertz"];
                    assert!(!units.contains(last), "{name} ends in a unit that it does not declare");
                }
            }
        }
    }

    /// So the encoder can write help texts as they stand.
    #[test]
    fn help_is_one_plain_sentence() {
        for Family { name, help, source, .. } in families() {
            assert!(help.ends_with('.'), "{name}: {help}");
            assert!(!help.contains(['\n', '\\', '"']), "{name}: {help}");
            assert!(!source.is_empty() && !source.contains(['\n', '|']), "{name}: {source}");
        }
    }

    #[test]
    fn label_names_are_lower_case_and_unique() {
        for family in families() {
            let gpu = family.sampler.is_of_gpus();
            let mut seen: BTreeSet<&str> = gpu.then_some(GPU_LABELS).into_iter().flatten().collect();
            for label in family.labels {
                let label = label.name;
                assert!(
                    label.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
                    "{}: {label}",
                    family.name
                );
                assert!(!label.starts_with("__"), "{}: {label}", family.name);
                assert!(seen.insert(label), "{}: {label} twice", family.name);
            }
        }
    }

    /// Holds what is sampled to the words that are declared.
    #[derive(Default)]
    struct Words {
        family: Option<&'static Family>,
        seen: usize,
    }

    impl Sink for Words {
        fn begin(&mut self, family: &'static Family) {
            self.family = Some(family);
        }

        fn point(&mut self, _: Option<GpuName<'_>>, labels: &[Label<'_>], _: Value) {
            let family = self.family.unwrap();
            assert_eq!(labels.len(), family.labels.len(), "{}", family.name);
            for (name, label) in family.labels.iter().zip(labels) {
                let (Some(words), Label::Text(word)) = (name.fixed(), label) else { continue };
                let none = word.is_empty() && matches!(name.name, "reason" | "remote");
                assert!(none || words.contains(word), "{}: {word} is no {}", family.name, name.name);
                self.seen += 1;
            }
        }

        fn missing(&mut self, _: Option<GpuName<'_>>, _: &[Label<'_>], _: Absence<'_>) {}
    }

    #[test]
    fn fixed_words_are_those_that_are_declared() {
        let own = Own::new(BuildInfo { version: "".into(), revision: "".into(), rustc: "".into() }, &[]);
        let answer = Answer { call: "", cause: Cause::Code(15) };
        let since = Duration::ZERO;
        let conditions = [
            DownReason::Lost(answer),
            DownReason::ResetRequired(answer),
            DownReason::Unresponsive { call: "", since },
            DownReason::Failed(answer),
            DownReason::DriverDown,
        ];
        let mut words = Words::default();
        let mut snapshot = gpulet_benches::snapshot(conditions.len() + 1, 2);
        walk(&snapshot, Some(own.as_ref().unwrap()), &mut words);
        assert!(words.seen > 100, "{}", words.seen);
        let node = Arc::make_mut(&mut snapshot.gpus.value);
        for (state, down) in node.gpus.iter_mut().zip(conditions) {
            state.condition = Condition::Down(down);
        }
        for reason in DriverDown::REASONS {
            let node = Arc::make_mut(&mut snapshot.gpus.value);
            node.driver = Driver::Down(DriverDown { reason, message: "".into(), remedy: "".into() });
            walk(&snapshot, None, &mut words);
        }
    }
}
