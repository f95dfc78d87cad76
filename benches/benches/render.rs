//! Rendering one scrape of more than 5,000 series: gpulet's encoder beside those of two client libraries, with the same
//! families, labels and values.
//!
//! The comparison is of what a scrape costs each: the `prometheus` crate gathers its registry first, the others read
//! where the values are.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, unused_crate_dependencies)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::AtomicU64;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use gpulet_exporter::{BuildInfo, Format, Own, render};
use prometheus::{CounterVec, Encoder, GaugeVec, Opts, TextEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_parse::{Sample, Scrape, Value};

/// One family as it was rendered.
struct Rendered {
    name: String,
    help: String,
    samples: Vec<(Vec<(String, String)>, f64)>,
}

impl Rendered {
    fn is_counter(&self) -> bool {
        self.name.ends_with("_total")
    }
}

fn labels(sample: &Sample) -> Vec<(String, String)> {
    let mut labels: Vec<_> =
        sample.labels.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    labels.sort();
    labels
}

/// The families of a document, so that all encoders are given the same.
fn families(document: &[u8]) -> Vec<Rendered> {
    let text = std::str::from_utf8(document).unwrap();
    let scrape = Scrape::parse(text.lines().map(|line| Ok(line.to_owned()))).unwrap();
    let mut families = BTreeMap::new();
    for sample in &scrape.samples {
        let (Value::Counter(value) | Value::Gauge(value)) = sample.value else { continue };
        let name = sample.metric.clone();
        let help = scrape.docs.get(&name).cloned().unwrap_or_default();
        let family =
            families.entry(name.clone()).or_insert_with(|| Rendered { name, help, samples: Vec::new() });
        family.samples.push((labels(sample), value));
    }
    families.into_values().collect()
}

fn prometheus_registry(families: &[Rendered]) -> prometheus::Registry {
    let registry = prometheus::Registry::new();
    for family in families {
        let opts = Opts::new(&family.name, &family.help);
        let names: Vec<&str> =
            family.samples.first().unwrap().0.iter().map(|(name, _)| name.as_str()).collect();
        let values =
            |labels: &[(String, String)]| labels.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>();
        if family.is_counter() {
            let counters = CounterVec::new(opts, &names).unwrap();
            for (labels, value) in &family.samples {
                counters.with_label_values(&values(labels)).inc_by(*value);
            }
            registry.register(Box::new(counters)).unwrap();
        } else {
            let gauges = GaugeVec::new(opts, &names).unwrap();
            for (labels, value) in &family.samples {
                gauges.with_label_values(&values(labels)).set(*value);
            }
            registry.register(Box::new(gauges)).unwrap();
        }
    }
    registry
}

type Labels = Vec<(String, String)>;

fn client_registry(families: &[Rendered]) -> prometheus_client::registry::Registry {
    let mut registry = prometheus_client::registry::Registry::default();
    for family in families {
        if family.is_counter() {
            let counters = Family::<Labels, Counter<f64, AtomicU64>>::default();
            for (labels, value) in &family.samples {
                counters.get_or_create(labels).inc_by(*value);
            }
            registry.register(family.name.trim_end_matches("_total"), &family.help, counters);
        } else {
            let gauges = Family::<Labels, Gauge<f64, AtomicU64>>::default();
            for (labels, value) in &family.samples {
                gauges.get_or_create(labels).set(*value);
            }
            registry.register(&family.name, &family.help, gauges);
        }
    }
    registry
}

fn lines(document: &[u8]) -> u64 {
    let text = std::str::from_utf8(document).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).count() as u64
}

fn rendering(criterion: &mut Criterion) {
    let snapshot = gpulet_benches::snapshot(32, 18);
    let build = BuildInfo { version: "0.1.0".into(), revision: "abcdef".into(), rustc: "1.90.0".into() };
    let own = Own::new(build, &["sample", "serve"]).unwrap();
    let mut ours = Vec::new();
    render(&snapshot, &own, Format::Text004, &mut ours);
    let series = lines(&ours);
    assert!(series >= 5000, "{series}");

    let families = families(&ours);
    let prometheus = prometheus_registry(&families);
    let client = client_registry(&families);
    let mut theirs = Vec::new();
    TextEncoder::new().encode(&prometheus.gather(), &mut theirs).unwrap();
    assert_eq!(lines(&theirs), series, "the prometheus crate has the same series");
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &client).unwrap();
    assert_eq!(lines(text.as_bytes()), series, "prometheus-client has the same series");

    let mut group = criterion.benchmark_group(format!("render {series} series"));
    group.throughput(Throughput::Elements(series));
    for (name, format) in [("gpulet, text", Format::Text004), ("gpulet, OpenMetrics", Format::OpenMetrics100)]
    {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                ours.clear();
                render(black_box(&snapshot), &own, format, &mut ours);
                black_box(ours.len())
            });
        });
    }
    group.bench_function("prometheus, text", |bencher| {
        bencher.iter(|| {
            theirs.clear();
            TextEncoder::new().encode(&black_box(&prometheus).gather(), &mut theirs).unwrap();
            black_box(theirs.len())
        });
    });
    group.bench_function("prometheus-client, OpenMetrics", |bencher| {
        bencher.iter(|| {
            text.clear();
            prometheus_client::encoding::text::encode(&mut text, black_box(&client)).unwrap();
            black_box(text.len())
        });
    });
    group.finish();
}

criterion_group!(benches, rendering);
criterion_main!(benches);
