//! Kubernetes: what is published, and what it costs the kubelet and the API server.

use gpulet_topology::nrt::NoteReason;
use gpulet_topology::nrt::publisher::{State, Why};

use super::{Family, Kind, Label, LabelName, Sampler, Series};
use crate::kubernetes::{ApiCount, ApiRequest, Kubelet, WAITING, states};
use crate::own::Own;

const REQUEST: &[LabelName] = &[LabelName::any("verb"), LabelName::any("resource"), LabelName::any("code")];

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "gpulet_topology_publication_state",
        kind: Kind::Gauge,
        unit: None,
        help: "How publishing the NodeResourceTopology object gets on: 1 for the state that holds. `NoAccess`: no credentials for \
               an API server; `NoNode`: it has no Node of this name; `NoKubelet`: the kubelet has not answered yet; \
               `Unwritable`: the file cannot be written; the others as in the condition GpuTopologyPublished.",
        labels: &[LabelName::listed("state", states)],
        source: "the agent",
        sampler: Sampler::Own(state),
    },
    Family {
        name: "gpulet_topology_publications",
        kind: Kind::Counter,
        unit: None,
        help: "Writes of the NodeResourceTopology object, by why it was written.",
        labels: &[LabelName::listed("why", || Why::ALL.map(Why::as_str).into())],
        source: "the agent",
        sampler: Sampler::Own(writes),
    },
    Family {
        name: "gpulet_topology_publication_failures",
        kind: Kind::Counter,
        unit: None,
        help: "Reads and writes of the object that failed, by reason.",
        labels: &[LabelName::any("reason")],
        source: "the agent",
        sampler: Sampler::Own(failures),
    },
    Family {
        name: "gpulet_topology_publications_unchanged",
        kind: Kind::Counter,
        unit: None,
        help: "Times that the object was put together anew and was what it had been, so that nothing was written.",
        labels: &[],
        source: "the agent",
        sampler: Sampler::Own(unchanged),
    },
    Family {
        name: "gpulet_topology_publication_timestamp_seconds",
        kind: Kind::Gauge,
        unit: Some("seconds"),
        help: "When the object was last written, since the Unix epoch.",
        labels: &[],
        source: "the agent",
        sampler: Sampler::Own(published),
    },
    Family {
        name: "gpulet_topology_publication_notes",
        kind: Kind::Gauge,
        unit: None,
        help: "What was left out of the object or is odd about it, by reason; `gpulet topo -o nrt --why` has the details.",
        labels: &[LabelName::listed("reason", || NoteReason::ALL.map(NoteReason::as_str).into())],
        source: "the agent",
        sampler: Sampler::Own(notes),
    },
    Family {
        name: "gpulet_kubelet_answers",
        kind: Kind::Counter,
        unit: None,
        help: "Answers of the kubelet on who has which devices, CPUs and memory.",
        labels: &[],
        source: "the kubelet",
        sampler: Sampler::Own(|own, series| kubelet(own, series, |kubelet| kubelet.answers)),
    },
    Family {
        name: "gpulet_kubelet_answer_age_seconds",
        kind: Kind::Gauge,
        unit: Some("seconds"),
        help: "How old the kubelet's last good answer is, which stands until there is a newer one.",
        labels: &[],
        source: "the kubelet",
        sampler: Sampler::Own(age),
    },
    Family {
        name: "gpulet_kubelet_failures",
        kind: Kind::Counter,
        unit: None,
        help: "Questions to the kubelet that were not answered, by reason.",
        labels: &[LabelName::any("reason")],
        source: "the kubelet",
        sampler: Sampler::Own(kubelet_failures),
    },
    Family {
        name: "gpulet_kubelet_socket_changes",
        kind: Kind::Counter,
        unit: None,
        help: "Times that the kubelet's socket came or went: it was started or ended.",
        labels: &[],
        source: "the kubelet's directory",
        sampler: Sampler::Own(|own, series| kubelet(own, series, |kubelet| kubelet.restarts)),
    },
    Family {
        name: "gpulet_api_requests",
        kind: Kind::Counter,
        unit: None,
        help: "Requests to the API server by verb, resource and HTTP status, which is empty without an answer.",
        labels: REQUEST,
        source: "the API client",
        sampler: Sampler::Own(|own, series| requests(own, series, |count| count.requests)),
    },
    Family {
        name: "gpulet_api_sent_bytes",
        kind: Kind::Counter,
        unit: Some("bytes"),
        help: "Bytes of their bodies.",
        labels: REQUEST,
        source: "the API client",
        sampler: Sampler::Own(|own, series| requests(own, series, |count| count.sent_bytes)),
    },
    Family {
        name: "gpulet_api_received_bytes",
        kind: Kind::Counter,
        unit: Some("bytes"),
        help: "Bytes of the answers' bodies, those of watches as they come.",
        labels: REQUEST,
        source: "the API client",
        sampler: Sampler::Own(|own, series| requests(own, series, |count| count.received_bytes)),
    },
];

fn state(own: &Own, series: &mut Series<'_>) {
    let inner = own.kubernetes.lock();
    let Some(now) = inner.state else { return };
    series.one_of(&State::REASONS, now);
    series.one_of(&WAITING, now);
}

fn writes(own: &Own, series: &mut Series<'_>) {
    let inner = own.kubernetes.lock();
    if inner.state.is_none() {
        return;
    }
    for why in Why::ALL {
        let count = inner.writes.get(why.as_str()).copied().unwrap_or_default();
        series.point(&[Label::Text(why.as_str())], count.into());
    }
}

fn failures(own: &Own, series: &mut Series<'_>) {
    for (reason, count) in &own.kubernetes.lock().write_failures {
        series.point(&[Label::Text(reason)], (*count).into());
    }
}

fn unchanged(own: &Own, series: &mut Series<'_>) {
    let inner = own.kubernetes.lock();
    if inner.state.is_some() {
        series.point(&[], inner.unchanged.into());
    }
}

fn published(own: &Own, series: &mut Series<'_>) {
    if let Some(at) = own.kubernetes.lock().published {
        series.point(&[], at.as_secs_f64().into());
    }
}

fn notes(own: &Own, series: &mut Series<'_>) {
    let inner = own.kubernetes.lock();
    if inner.state.is_none() {
        return;
    }
    for reason in NoteReason::ALL {
        let count = inner.notes.get(reason.as_str()).copied().unwrap_or_default();
        series.point(&[Label::Text(reason.as_str())], count.into());
    }
}

fn kubelet(own: &Own, series: &mut Series<'_>, value: fn(&Kubelet) -> u64) {
    let kubelet = &own.kubernetes.lock().kubelet;
    if kubelet.asked {
        series.point(&[], value(kubelet).into());
    }
}

fn age(own: &Own, series: &mut Series<'_>) {
    let answered = own.kubernetes.lock().kubelet.answered;
    if let Some(answered) = answered {
        series.point(&[], answered.elapsed().as_secs_f64().into());
    }
}

fn kubelet_failures(own: &Own, series: &mut Series<'_>) {
    for (reason, count) in &own.kubernetes.lock().kubelet.failures {
        series.point(&[Label::Text(reason)], (*count).into());
    }
}

fn requests(own: &Own, series: &mut Series<'_>, value: fn(&ApiCount) -> u64) {
    for (ApiRequest { verb, resource, code }, count) in &own.kubernetes.lock().requests {
        let code = code.map_or(Label::NONE, |code| Label::Number(code.into()));
        series.point(&[Label::Text(verb), Label::Text(resource), code], value(count).into());
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::encode::{Format, render};
    use crate::own::BuildInfo;

    fn scrape(count: impl FnOnce(&Own)) -> String {
        let build = BuildInfo { version: "1".into(), revision: String::new(), rustc: String::new() };
        let own = Own::new(build, &[]).unwrap();
        count(&own);
        let mut text = Vec::new();
        render(&gpulet_benches::snapshot(1, 0), &own, Format::Text004, &mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn without_kubernetes_there_are_no_series_of_it() {
        let text = scrape(|_| {});
        for family in FAMILIES {
            assert!(!text.contains(&format!("\n{}", family.name)), "{}", family.name);
        }
    }

    #[test]
    fn one_state_holds_and_each_has_its_series() {
        let text = scrape(|own| own.kubernetes.publication("OtherPublisher"));
        for state in states() {
            let flag = u8::from(state == "OtherPublisher");
            let line = format!("gpulet_topology_publication_state{{state=\"{state}\"}} {flag}\n");
            assert!(text.contains(&line), "{line}{text}");
        }
        assert!(text.contains("gpulet_topology_publications_total{why=\"changed\"} 0\n"), "{text}");
    }

    #[test]
    fn what_was_counted_is_told() {
        let request = ApiRequest { verb: "apply", resource: "noderesourcetopologies", code: Some(200) };
        let unanswered = ApiRequest { code: None, ..request };
        let count = ApiCount { requests: 2, sent_bytes: 7, received_bytes: 9 };
        let text = scrape(|own| {
            let kubernetes = &own.kubernetes;
            kubernetes.publication("Published");
            kubernetes.wrote(Why::Changed, Duration::from_secs(1_700_000_000));
            kubernetes.not_written("Conflict");
            kubernetes.unchanged();
            kubernetes.notes([NoteReason::DeviceGone, NoteReason::DeviceGone].into_iter());
            kubernetes.kubelet_asked();
            kubernetes.kubelet_answered(Instant::now());
            kubernetes.kubelet_failed("TimedOut");
            kubernetes.kubelet_restarted();
            kubernetes.requests([(request, count), (unanswered, count)].into_iter());
        });
        for line in [
            "gpulet_topology_publications_total{why=\"changed\"} 1",
            "gpulet_topology_publication_failures_total{reason=\"Conflict\"} 1",
            "gpulet_topology_publications_unchanged_total 1",
            "gpulet_topology_publication_timestamp_seconds 1700000000",
            "gpulet_topology_publication_notes{reason=\"DeviceGone\"} 2",
            "gpulet_kubelet_answers_total 1",
            "gpulet_kubelet_failures_total{reason=\"TimedOut\"} 1",
            "gpulet_kubelet_socket_changes_total 1",
            "gpulet_api_requests_total{verb=\"apply\",resource=\"noderesourcetopologies\",code=\"200\"} 2",
            "gpulet_api_requests_total{verb=\"apply\",resource=\"noderesourcetopologies\",code=\"\"} 2",
            "gpulet_api_sent_bytes_total{verb=\"apply\",resource=\"noderesourcetopologies\",code=\"200\"} 7",
        ] {
            assert!(text.contains(&format!("\n{line}")), "{line}\n{text}");
        }
        assert!(text.contains("\ngpulet_kubelet_answer_age_seconds "), "{text}");
    }
}
