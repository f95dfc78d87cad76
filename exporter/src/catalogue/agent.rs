//! The agent itself.

use super::{Family, Kind, Label, LabelName, Sampler, Series, Value};
use crate::encode::Format;
use crate::own::{Own, ReloadOutcome};

/// Comes first of all.
pub(super) const BUILD: &[Family] = &[Family {
    name: "gpulet_build",
    kind: Kind::Info,
    unit: None,
    help: "Which gpulet this is.",
    labels: &[LabelName::any("version"), LabelName::any("revision"), LabelName::any("rustversion")],
    source: "the build",
    sampler: Sampler::Own(build),
}];

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "gpulet_snapshot_timestamp_seconds",
        kind: Kind::Gauge,
        unit: Some("seconds"),
        help: "When the values of this scrape were put together, since the Unix epoch.",
        labels: &[],
        source: "the agent",
        sampler: Sampler::Node(|node, series| series.point(&[], node.taken_unix.as_secs_f64().into())),
    },
    Family {
        name: "gpulet_sampling_ticks",
        kind: Kind::Counter,
        unit: None,
        help: "Rounds of reading all GPUs.",
        labels: &[],
        source: "the agent",
        sampler: Sampler::Own(|own, series| series.point(&[], own.samplings.get().into())),
    },
    Family {
        name: "gpulet_sampling_seconds",
        kind: Kind::Counter,
        unit: Some("seconds"),
        help: "Time that the rounds of reading took, the driver's own time included.",
        labels: &[],
        source: "the agent",
        sampler: Sampler::Own(|own, series| series.point(&[], own.sampling_seconds.get().into())),
    },
    Family {
        name: "gpulet_topology_discoveries",
        kind: Kind::Counter,
        unit: None,
        help: "Times that the topology was discovered.",
        labels: &[],
        source: "the agent",
        sampler: Sampler::Own(|own, series| series.point(&[], own.discoveries.get().into())),
    },
    Family {
        name: "gpulet_topology_discovery_seconds",
        kind: Kind::Counter,
        unit: Some("seconds"),
        help: "Time that those discoveries took, the driver's own time included.",
        labels: &[],
        source: "the agent",
        sampler: Sampler::Own(|own, series| series.point(&[], own.discovery_seconds.get().into())),
    },
    Family {
        name: "gpulet_scrapes",
        kind: Kind::Counter,
        unit: None,
        help: "Scrapes answered, by format.",
        labels: &[LabelName::words("format", &["text", "openmetrics"])],
        source: "the agent",
        sampler: Sampler::Own(scrapes),
    },
    Family {
        name: "gpulet_scrape_seconds",
        kind: Kind::Counter,
        unit: Some("seconds"),
        help: "Time that it took to make those answers.",
        labels: &[],
        source: "the agent",
        sampler: Sampler::Own(|own, series| series.point(&[], own.scrape_seconds.get().into())),
    },
    Family {
        name: "gpulet_http_refused_connections",
        kind: Kind::Counter,
        unit: None,
        help: "Connections turned away because as many as allowed were open.",
        labels: &[],
        source: "the agent",
        sampler: Sampler::Own(|own, series| series.point(&[], own.refused_connections.get().into())),
    },
    Family {
        name: "gpulet_loop_restarts",
        kind: Kind::Counter,
        unit: None,
        help: "Times that one of the agent's loops ended and was started again.",
        labels: &[LabelName::any("loop")],
        source: "the agent",
        sampler: Sampler::Own(restarts),
    },
    Family {
        name: "gpulet_config_reloads",
        kind: Kind::Counter,
        unit: None,
        help: "Reloads of the configuration, by what they came to.",
        labels: &[LabelName::words("outcome", &["success", "failure"])],
        source: "the agent",
        sampler: Sampler::Own(reloads),
    },
    Family {
        name: "gpulet_config_last_reload_successful",
        kind: Kind::Gauge,
        unit: None,
        help: "Whether the last reload of the configuration succeeded; 1 before the first.",
        labels: &[],
        source: "the agent",
        sampler: Sampler::Own(|own, series| series.point(&[], Value::flag(own.last_reload_successful()))),
    },
];

fn build(own: &Own, series: &mut Series<'_>) {
    let build = &own.build;
    let labels = [Label::Text(&build.version), Label::Text(&build.revision), Label::Text(&build.rustc)];
    series.point(&labels, Value::flag(true));
}

fn scrapes(own: &Own, series: &mut Series<'_>) {
    for (word, format) in [("text", Format::Text004), ("openmetrics", Format::OpenMetrics100)] {
        series.point(&[Label::Text(word)], own.scrapes(format).get().into());
    }
}

fn restarts(own: &Own, series: &mut Series<'_>) {
    for (name, restarts) in own.loops() {
        series.point(&[Label::Text(name)], restarts.into());
    }
}

fn reloads(own: &Own, series: &mut Series<'_>) {
    for (word, outcome) in [("success", ReloadOutcome::Success), ("failure", ReloadOutcome::Failure)] {
        series.point(&[Label::Text(word)], own.reloads(outcome).get().into());
    }
}
