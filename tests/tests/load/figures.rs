//! What is counted, and how it is told.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use gpulet_tests::{ControlPlane, Scrape};

use crate::agents::{Agents, Asked};

/// Everything that is counted, at one time.
pub(crate) struct Mark {
    at: Instant,
    asked: Asked,
    server: Scrape,
    pods: (u64, u64),
}

/// What was counted between two times.
pub(crate) struct Phase {
    took: Duration,
    /// What the agents asked, by their own counts.
    pub(crate) asked: Asked,
    /// Pods that have started.
    pub(crate) started: u64,
    /// Pods that have ended.
    pub(crate) ended: u64,
    /// The API server's own counters, as they grew, and its gauges as they stand.
    server: BTreeMap<&'static str, f64>,
}

/// What it is called here, the API server's family, and the labels that count.
type Series = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// The API server's counters.
const COUNTERS: [Series; 9] = [
    ("CPU seconds", "process_cpu_seconds_total", &[]),
    ("requests", "apiserver_request_total", &[]),
    (
        "requests of the kind NodeResourceTopology",
        "apiserver_request_total",
        &[("resource", "noderesourcetopologies")],
    ),
    ("bytes of answers", "apiserver_response_sizes_sum", &[]),
    ("watch events", "apiserver_watch_events_total", &[]),
    ("bytes of watch events", "apiserver_watch_events_sizes_sum", &[]),
    (
        "requests that waited or ran at priority workload-low",
        "apiserver_flowcontrol_dispatched_requests_total",
        &[("priority_level", "workload-low")],
    ),
    (
        "requests at priority system",
        "apiserver_flowcontrol_dispatched_requests_total",
        &[("priority_level", "system")],
    ),
    ("rejected by priority and fairness", "apiserver_flowcontrol_rejected_requests_total", &[]),
];

/// Its gauges.
const GAUGES: [Series; 2] = [
    ("resident memory, bytes", "process_resident_memory_bytes", &[]),
    ("watches that stand", "apiserver_longrunning_requests", &[("verb", "WATCH")]),
];

impl Mark {
    /// Counts now.
    pub(crate) fn now(plane: &ControlPlane, agents: Option<&mut Agents>) -> Self {
        let asked = agents.map(Agents::asked).unwrap_or_default();
        Self { at: Instant::now(), asked, server: plane.metrics(), pods: (0, 0) }
    }

    /// With so many Pods that have started and ended.
    pub(crate) fn with(self, pods: (u64, u64)) -> Self {
        Self { pods, ..self }
    }
}

impl Phase {
    /// What was counted between two times.
    pub(crate) fn between(before: &Mark, after: &Mark) -> Self {
        let mut asked = after.asked.clone();
        for (kind, sums) in &mut asked {
            let earlier = before.asked.get(kind).copied().unwrap_or_default();
            *sums = std::array::from_fn(|which| sums[which] - earlier[which]);
        }
        asked.retain(|_, sums| *sums != [0; 3]);
        let grown = |(what, name, labels): &(&'static str, &str, &[(&str, &str)])| {
            (*what, after.server.total(name, labels) - before.server.total(name, labels))
        };
        let stands = |(what, name, labels): &(&'static str, &str, &[(&str, &str)])| {
            (*what, after.server.total(name, labels))
        };
        Self {
            took: after.at - before.at,
            asked,
            started: after.pods.0 - before.pods.0,
            ended: after.pods.1 - before.pods.1,
            server: COUNTERS.iter().map(grown).chain(GAUGES.iter().map(stands)).collect(),
        }
    }

    /// How often the agents asked for what begins with `verb`, however it was answered.
    pub(crate) fn asked_of(&self, verb: &str) -> u64 {
        let of_verb = self.asked.iter().filter(|(kind, _)| kind.split(' ').next() == Some(verb));
        of_verb.map(|(_, [requests, ..])| requests).sum()
    }

    /// All of it, in lines, for `nodes` nodes.
    pub(crate) fn told(&self, nodes: usize) -> String {
        let each = |count: u64| count as f64 / nodes as f64;
        let seconds = self.took.as_secs_f64();
        let mut told = format!("  {seconds:.0} s, {} Pods started and {} ended\n", self.started, self.ended);
        let mut sum = [0; 3];
        for (kind, sums) in &self.asked {
            sum = std::array::from_fn(|which| sum[which] + sums[which]);
            line(&mut told, kind, sums.map(each));
        }
        line(&mut told, "all, per node", sum.map(each));
        line(&mut told, "all, per node and hour at this pace", sum.map(|sum| each(sum) * 3600.0 / seconds));
        for (what, value) in &self.server {
            let _ = writeln!(told, "  API server: {what}: {value:.1}");
        }
        told
    }
}

fn line(told: &mut String, what: &str, [requests, sent, received]: [f64; 3]) {
    let _ = writeln!(told, "  {what}: {requests:.2} requests, {sent:.0} bytes sent, {received:.0} received");
}
