//! The agent's own process, under the names that every Prometheus client uses.

use gpulet_inventory::snapshot::ProcessStats;

use super::{Family, Kind, Sampler, Series, Value};

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "process_cpu_seconds",
        kind: Kind::Counter,
        unit: Some("seconds"),
        help: "User and system CPU time.",
        labels: &[],
        source: "/proc/self/stat",
        sampler: Sampler::Node(|node, series| one(series, &node.process.value, |own| own.cpu_seconds.into())),
    },
    Family {
        name: "process_resident_memory_bytes",
        kind: Kind::Gauge,
        unit: Some("bytes"),
        help: "Resident memory.",
        labels: &[],
        source: "/proc/self/stat",
        sampler: Sampler::Node(|node, series| {
            one(series, &node.process.value, |own| own.resident_bytes.into())
        }),
    },
    Family {
        name: "process_virtual_memory_bytes",
        kind: Kind::Gauge,
        unit: Some("bytes"),
        help: "Virtual memory.",
        labels: &[],
        source: "/proc/self/stat",
        sampler: Sampler::Node(|node, series| {
            one(series, &node.process.value, |own| own.virtual_bytes.into())
        }),
    },
    Family {
        name: "process_open_fds",
        kind: Kind::Gauge,
        unit: None,
        help: "Open file descriptors.",
        labels: &[],
        source: "/proc/self/fd",
        sampler: Sampler::Node(|node, series| one(series, &node.process.value, |own| own.open_fds.into())),
    },
    Family {
        name: "process_max_fds",
        kind: Kind::Gauge,
        unit: None,
        help: "Limit on open file descriptors.",
        labels: &[],
        source: "/proc/self/limits",
        sampler: Sampler::Node(|node, series| one(series, &node.process.value, |own| own.max_fds.into())),
    },
    Family {
        name: "process_threads",
        kind: Kind::Gauge,
        unit: None,
        help: "Threads.",
        labels: &[],
        source: "/proc/self/stat",
        sampler: Sampler::Node(|node, series| one(series, &node.process.value, |own| own.threads.into())),
    },
    Family {
        name: "process_start_time_seconds",
        kind: Kind::Gauge,
        unit: Some("seconds"),
        help: "Start of the process, since the Unix epoch.",
        labels: &[],
        source: "/proc/self/stat",
        sampler: Sampler::Node(|node, series| {
            one(series, &node.process.value, |own| own.start_time_seconds.into());
        }),
    },
];

fn one(series: &mut Series<'_>, stats: &ProcessStats, value: fn(&ProcessStats) -> Value) {
    series.point(&[], value(stats));
}
