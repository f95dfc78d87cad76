//! A scrape, read by a parser that is not ours.

use prometheus_parse::{Sample, Value};

/// What `/metrics` answered in text format 0.0.4.
#[derive(Debug)]
pub struct Scrape(prometheus_parse::Scrape);

impl Scrape {
    /// Parses `text`; panics when it is not the text format.
    pub fn parse(text: &str) -> Self {
        Self(prometheus_parse::Scrape::parse(text.lines().map(|line| Ok(line.to_owned()))).unwrap())
    }

    /// All series of `name` that have every one of `labels`.
    pub fn series(&self, name: &str, labels: &[(&str, &str)]) -> Vec<&Sample> {
        let matches = |sample: &&Sample| {
            sample.metric == name
                && labels.iter().all(|(label, value)| sample.labels.get(label) == Some(value))
        };
        self.0.samples.iter().filter(matches).collect()
    }

    /// The value of the one series of `name` that has every one of `labels`; `None` without one, a panic with several.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let series = self.series(name, labels);
        assert!(series.len() <= 1, "{name} {labels:?} is not one series: {series:?}");
        series.first().map(|sample| match sample.value {
            Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value) => value,
            ref other => panic!("{name} is not a plain number: {other:?}"),
        })
    }

    /// The sum of all series of `name` that have every one of `labels`; plain numbers only.
    pub fn total(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let number = |sample: &Sample| match sample.value {
            Value::Counter(value) | Value::Gauge(value) | Value::Untyped(value) => value,
            ref other => panic!("{name} is not a plain number: {other:?}"),
        };
        self.series(name, labels).into_iter().map(number).sum()
    }

    /// Label `label` of the one series of `name` that has every one of `labels`.
    pub fn label(&self, name: &str, labels: &[(&str, &str)], label: &str) -> Option<String> {
        let series = self.series(name, labels);
        assert!(series.len() <= 1, "{name} {labels:?} is not one series: {series:?}");
        series.first().and_then(|sample| sample.labels.get(label)).map(ToOwned::to_owned)
    }

    /// How many different GPUs `name` has series of.
    pub fn gpus(&self, name: &str) -> usize {
        let gpus = self.series(name, &[]).into_iter().filter_map(|sample| sample.labels.get("gpu"));
        gpus.collect::<std::collections::BTreeSet<_>>().len()
    }
}
