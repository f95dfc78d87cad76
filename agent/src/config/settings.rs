//! The settings that the program runs by, and what each is when nothing is said.

use std::path::PathBuf;
use std::time::Duration;

use super::address::ListenAddress;
use super::level::{LogFormat, LogLevel};
use super::node_name::NodeName;

/// Everything that the configuration file can say.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Settings {
    /// Name of this node; absent: the host name.
    pub(crate) node_name: Option<NodeName>,
    /// What is logged, and how.
    pub(crate) log: Log,
    /// How often the driver is asked.
    pub(crate) sampling: Sampling,
    /// The pages over HTTP.
    pub(crate) web: Web,
    /// What the topology is held against.
    pub(crate) topology: TopologySettings,
}

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Log {
    /// From which level on.
    pub(crate) level: LogLevel,
    /// In which form.
    pub(crate) format: LogFormat,
}

/// How often the driver is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sampling {
    /// Between two readings of the values that change quickly.
    pub(crate) interval: Duration,
    /// Between two readings of the others, and of the topology.
    pub(crate) slow_interval: Duration,
    /// How long one call to the driver may take before its GPU counts as unresponsive.
    pub(crate) deadline: Duration,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(1),
            slow_interval: Duration::from_secs(10),
            deadline: gpulet_nvml::Options::default().deadline,
        }
    }
}

/// The pages over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Web {
    /// Where they are.
    pub(crate) address: ListenAddress,
    /// What clients may take.
    pub(crate) limits: gpulet_exporter::Limits,
}

impl Default for Web {
    fn default() -> Self {
        Self { address: ListenAddress { ip: None, port: 9410 }, limits: gpulet_exporter::Limits::default() }
    }
}

/// What the topology is held against.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TopologySettings {
    /// File of the expected profile; absent: none is expected.
    pub(crate) expected_profile: Option<PathBuf>,
}

/// What flags and environment say, which goes before the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Overrides {
    /// `--node-name`
    pub(crate) node_name: Option<NodeName>,
    /// `--log-level`
    pub(crate) log_level: Option<LogLevel>,
    /// `--log-format`
    pub(crate) log_format: Option<LogFormat>,
    /// `--listen`
    pub(crate) listen: Option<ListenAddress>,
}

impl Settings {
    /// The settings of the file with what flags and environment say instead.
    pub(crate) fn overridden_by(mut self, overrides: &Overrides) -> Self {
        if let Some(node_name) = &overrides.node_name {
            self.node_name = Some(node_name.clone());
        }
        if let Some(level) = &overrides.log_level {
            self.log.level = level.clone();
        }
        if let Some(format) = overrides.log_format {
            self.log.format = format;
        }
        if let Some(address) = overrides.listen {
            self.web.address = address;
        }
        self
    }

    /// The keys whose change from `self` to `new` takes effect at the next start only.
    pub(crate) fn fixed_until_restart(&self, new: &Self) -> Vec<&'static str> {
        let mut keys = Vec::new();
        if self.node_name != new.node_name {
            keys.push("node-name");
        }
        if self.log.format != new.log.format {
            keys.push("log.format");
        }
        if self.sampling.deadline != new.sampling.deadline {
            keys.push("sampling.deadline");
        }
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_flags_say_goes_before_the_file() {
        let file = Settings {
            web: Web { address: ":1".parse().unwrap(), ..Web::default() },
            node_name: Some("file".parse().unwrap()),
            ..Settings::default()
        };
        let overrides = Overrides { listen: Some(":2".parse().unwrap()), ..Overrides::default() };
        let settings = file.clone().overridden_by(&overrides);
        assert_eq!(settings.web.address.port, 2);
        assert_eq!(settings.node_name, file.node_name, "what no flag names stays");
        assert_eq!(file.clone().overridden_by(&Overrides::default()), file);
    }

    #[test]
    fn what_needs_a_restart_is_told() {
        let old = Settings::default();
        let mut new = old.clone();
        new.sampling.interval *= 2;
        new.web.address.port = 1;
        assert!(old.fixed_until_restart(&new).is_empty());
        new.sampling.deadline *= 2;
        new.node_name = Some("other".parse().unwrap());
        assert_eq!(old.fixed_until_restart(&new), ["node-name", "sampling.deadline"]);
    }
}
