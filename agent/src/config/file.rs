//! The keys of the configuration file.

use gpulet_inventory::yaml::{self, Notes, Problems, Section, Value};

use super::duration::Span;
use super::partition::{labels, partition};
use super::settings::{Kubelet, Kubernetes, Log, Sampling, Settings, TopologySettings, Web};

/// Reads the settings from the text of a file.
///
/// # Errors
/// Everything that is wrong with it, in the order of the file.
pub(crate) fn parse(text: &str) -> Result<Settings, Problems> {
    let document = yaml::document(text)?;
    let notes = Notes::default();
    let settings = settings(Section::top(&document, &notes));
    let problems = notes.into_problems();
    if problems.first.is_empty() { Ok(settings) } else { Err(problems) }
}

fn settings(mut top: Section<'_>) -> Settings {
    let default = Settings::default();
    let settings = Settings {
        node_name: top.value("node-name", yaml::parsed),
        log: top.section("log").map_or(default.log, log),
        sampling: top.section("sampling").map_or(default.sampling, sampling),
        web: top.section("web").map_or(default.web, web),
        topology: top.section("topology").map_or(default.topology, topology),
        kubernetes: top.section("kubernetes").map_or(default.kubernetes, kubernetes),
        kubelet: top.section("kubelet").map_or(default.kubelet, kubelet),
        labels: top.section("labels").map_or(default.labels, labels),
        partition: top.section("partition").map_or(default.partition, partition),
    };
    top.finish();
    settings
}

fn log(mut section: Section<'_>) -> Log {
    let default = Log::default();
    let log = Log {
        level: section.value("level", yaml::parsed).unwrap_or(default.level),
        format: section.value("format", yaml::parsed).unwrap_or(default.format),
    };
    section.finish();
    log
}

fn sampling(mut section: Section<'_>) -> Sampling {
    let default = Sampling::default();
    let sampling = Sampling {
        interval: section.value("interval", span("100ms", "1h")).unwrap_or(default.interval),
        slow_interval: section.value("slow-interval", span("100ms", "24h")).unwrap_or(default.slow_interval),
        deadline: section.value("deadline", span("50ms", "1m")).unwrap_or(default.deadline),
    };
    if sampling.slow_interval < sampling.interval {
        let key = if section.line_of("slow-interval") > 0 { "slow-interval" } else { "interval" };
        section.wrong(
            key,
            &format!(
                "slow-interval ({}) must not be shorter than interval ({})",
                Span(sampling.slow_interval),
                Span(sampling.interval)
            ),
        );
    }
    section.finish();
    sampling
}

fn web(mut section: Section<'_>) -> Web {
    let Web { address, limits } = Web::default();
    let web = Web {
        address: section.value("address", yaml::parsed).unwrap_or(address),
        limits: gpulet_exporter::Limits {
            connections: section
                .value("max-connections", yaml::count(1, 10_000))
                .unwrap_or(limits.connections),
            header_bytes: section
                .value("max-header-bytes", yaml::count(8192, 1 << 20))
                .unwrap_or(limits.header_bytes),
            header_timeout: section
                .value("header-timeout", span("100ms", "10m"))
                .unwrap_or(limits.header_timeout),
            request_timeout: section
                .value("request-timeout", span("100ms", "10m"))
                .unwrap_or(limits.request_timeout),
            drain_timeout: limits.drain_timeout,
        },
    };
    section.finish();
    web
}

fn topology(mut section: Section<'_>) -> TopologySettings {
    let topology =
        TopologySettings { expected_profile: section.value("expected-profile", yaml::absolute_path) };
    section.finish();
    topology
}

fn kubernetes(mut section: Section<'_>) -> Kubernetes {
    let default = Kubernetes::default();
    let kubernetes = Kubernetes {
        kubeconfig: section.value("kubeconfig", yaml::absolute_path),
        publish: section.value("publish", yaml::parsed).unwrap_or(default.publish),
        take_over: section.value("take-over", yaml::flag).unwrap_or(default.take_over),
        file: section.value("file", yaml::absolute_path).unwrap_or(default.file),
    };
    section.finish();
    kubernetes
}

fn kubelet(mut section: Section<'_>) -> Kubelet {
    let default = Kubelet::default();
    let kubelet = Kubelet {
        root: section.value("root", yaml::absolute_path).unwrap_or(default.root),
        socket: section.value("socket", yaml::absolute_path),
        address: section.value("address", yaml::parsed).unwrap_or(default.address),
        interval: section.value("interval", span("1s", "1h")).unwrap_or(default.interval),
    };
    section.finish();
    kubelet
}

pub(super) fn span(
    least: &'static str,
    most: &'static str,
) -> impl Fn(&Value) -> Result<std::time::Duration, String> {
    let check = Span::between(least, most);
    move |value| yaml::parsed::<Span>(value).and_then(&check)
}

#[cfg(test)]
mod tests;
