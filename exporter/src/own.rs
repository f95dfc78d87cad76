//! What the agent counts about itself.
//!
//! Every value is a handle of the `prometheus` crate, counted into from anywhere and read with `get()`: nothing is
//! gathered, sorted or locked when a scrape is rendered.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus::{Counter, IntCounter, IntGauge};

use crate::encode::Format;
use crate::kubernetes::Kubernetes;

/// Which program this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildInfo {
    /// Version of the package, such as `0.1.0`.
    pub version: String,
    /// The commit that it was built from; empty where the build did not know it.
    pub revision: String,
    /// Version of the compiler, such as `1.90.0`; empty where the build did not know it.
    pub rustc: String,
}

/// What a reload of the configuration came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReloadOutcome {
    /// The new configuration is in force.
    Success,
    /// It was refused and the former one stays in force.
    Failure,
}

/// The agent's own counters.
pub struct Own {
    /// Which program this is.
    pub build: BuildInfo,
    /// Ticks of the sampling loop.
    pub samplings: IntCounter,
    /// Time that those ticks took, seconds.
    pub sampling_seconds: Counter,
    /// Discoveries of the topology.
    pub discoveries: IntCounter,
    /// Time that those discoveries took, seconds.
    pub discovery_seconds: Counter,
    /// Connections that were turned away because as many as allowed were open.
    pub refused_connections: IntCounter,
    /// Time spent to answer scrapes, seconds.
    pub scrape_seconds: Counter,
    /// Kubelet, API server, and what is published.
    pub kubernetes: Kubernetes,
    scrapes: [IntCounter; 2],
    loop_restarts: BTreeMap<&'static str, IntCounter>,
    reloads: [IntCounter; 2],
    last_reload_successful: IntGauge,
}

impl Own {
    /// Counters at zero. `loops` are the names of the agent's loops, the values of the label `loop`.
    ///
    /// # Errors
    ///
    /// None in practice: the `prometheus` crate refuses only names that are not metric names, and these are fixed.
    pub fn new(build: BuildInfo, loops: &[&'static str]) -> Result<Self, prometheus::Error> {
        let count = |name: &str| IntCounter::new(name, name);
        Ok(Self {
            build,
            samplings: count("samplings")?,
            sampling_seconds: Counter::new("sampling_seconds", "sampling_seconds")?,
            discoveries: count("discoveries")?,
            discovery_seconds: Counter::new("discovery_seconds", "discovery_seconds")?,
            refused_connections: count("refused_connections")?,
            scrape_seconds: Counter::new("scrape_seconds", "scrape_seconds")?,
            kubernetes: Kubernetes::default(),
            scrapes: [count("scrapes")?, count("scrapes")?],
            loop_restarts: loops
                .iter()
                .map(|name| Ok((*name, count("loop_restarts")?)))
                .collect::<Result<_, prometheus::Error>>()?,
            reloads: [count("reloads")?, count("reloads")?],
            last_reload_successful: {
                let gauge = IntGauge::new("last_reload_successful", "last_reload_successful")?;
                gauge.set(1);
                gauge
            },
        })
    }

    /// Counts one tick of the sampling loop.
    pub fn sampled(&self, took: Duration) {
        self.samplings.inc();
        self.sampling_seconds.inc_by(took.as_secs_f64());
    }

    /// Counts one discovery of the topology.
    pub fn discovered(&self, took: Duration) {
        self.discoveries.inc();
        self.discovery_seconds.inc_by(took.as_secs_f64());
    }

    /// Counts one scrape that was answered.
    pub fn scraped(&self, format: Format, took: Duration) {
        self.scrapes(format).inc();
        self.scrape_seconds.inc_by(took.as_secs_f64());
    }

    /// Scrapes answered in `format`.
    pub fn scrapes(&self, format: Format) -> &IntCounter {
        let [text, open_metrics] = &self.scrapes;
        match format {
            Format::Text004 => text,
            Format::OpenMetrics100 => open_metrics,
        }
    }

    /// Restarts of the loop `name`; absent for a name that was not given to [`Own::new`].
    pub fn loop_restarts(&self, name: &str) -> Option<&IntCounter> {
        self.loop_restarts.get(name)
    }

    /// Every loop and its restarts, by name.
    pub(crate) fn loops(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.loop_restarts.iter().map(|(name, restarts)| (*name, restarts.get()))
    }

    /// Counts one reload of the configuration.
    pub fn reloaded(&self, outcome: ReloadOutcome) {
        self.reloads(outcome).inc();
        self.last_reload_successful.set(i64::from(outcome == ReloadOutcome::Success));
    }

    /// What kept the last reload from success is over: all of the file is in force now. No reload is counted.
    pub fn reload_completed(&self) {
        self.last_reload_successful.set(1);
    }

    /// Reloads of the configuration that came to `outcome`.
    pub fn reloads(&self, outcome: ReloadOutcome) -> &IntCounter {
        let [success, failure] = &self.reloads;
        match outcome {
            ReloadOutcome::Success => success,
            ReloadOutcome::Failure => failure,
        }
    }

    /// Whether the configuration in force is the one in the file, as far as is known.
    pub fn last_reload_successful(&self) -> bool {
        self.last_reload_successful.get() == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Own {
        let build = BuildInfo { version: "1".into(), revision: String::new(), rustc: String::new() };
        Own::new(build, &["sample", "serve"]).unwrap()
    }

    #[test]
    fn each_scrape_counts_for_its_format() {
        let own = own();
        own.scraped(Format::OpenMetrics100, Duration::from_millis(250));
        own.scraped(Format::OpenMetrics100, Duration::from_millis(250));
        assert_eq!(own.scrapes(Format::OpenMetrics100).get(), 2);
        assert_eq!(own.scrapes(Format::Text004).get(), 0);
        assert!((own.scrape_seconds.get() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_failed_reload_shows_until_one_succeeds() {
        let own = own();
        assert!(own.last_reload_successful());
        own.reloaded(ReloadOutcome::Failure);
        assert!(!own.last_reload_successful());
        own.reload_completed();
        assert!(own.last_reload_successful());
        assert_eq!(own.reloads(ReloadOutcome::Success).get(), 0);
        own.reloaded(ReloadOutcome::Success);
        assert_eq!(
            (own.reloads(ReloadOutcome::Success).get(), own.reloads(ReloadOutcome::Failure).get()),
            (1, 1)
        );
    }

    #[test]
    fn only_loops_that_were_named_are_counted() {
        let own = own();
        own.loop_restarts("sample").unwrap().inc();
        assert!(own.loop_restarts("smaple").is_none());
        assert_eq!(own.loops().collect::<Vec<_>>(), [("sample", 1), ("serve", 0)]);
    }
}
