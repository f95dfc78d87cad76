//! The settings that the program runs by, and what each is when nothing is said.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use gpulet_partition::protocol::WhenBusy;
use gpulet_partition::reboot::Permission;

use super::address::ListenAddress;
use super::drift::Drift;
use super::kubelet_address::KubeletAddress;
use super::level::{LogFormat, LogLevel};
use super::node_name::NodeName;
use super::publish::Publish;

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
    /// The API server, and what it is told.
    pub(crate) kubernetes: Kubernetes,
    /// The kubelet of this node.
    pub(crate) kubelet: Kubelet,
    /// What is declared of this node where no Node of the API server does it.
    pub(crate) labels: BTreeMap<String, String>,
    /// How GPUs are divided.
    pub(crate) partition: Partition,
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

/// The API server, and what it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kubernetes {
    /// How to reach it; absent: the Pod's service account, else what the kubelet has.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Where the NodeResourceTopology object goes.
    pub(crate) publish: Publish,
    /// Whether the object of another publisher is taken over.
    pub(crate) take_over: bool,
    /// Where the object goes without API server, below the host's root.
    pub(crate) file: PathBuf,
}

impl Default for Kubernetes {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            publish: Publish::default(),
            take_over: false,
            file: "/run/gpulet/noderesourcetopology.yaml".into(),
        }
    }
}

/// The kubelet of this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kubelet {
    /// Its root directory, below the host's root.
    pub(crate) root: PathBuf,
    /// Its PodResources socket, below the host's root; absent: where it is in its root directory.
    pub(crate) socket: Option<PathBuf>,
    /// Where it answers by HTTPS.
    pub(crate) address: KubeletAddress,
    /// Between two questions to it while nothing tells of a change.
    pub(crate) interval: Duration,
}

impl Default for Kubelet {
    fn default() -> Self {
        Self {
            root: "/var/lib/kubelet".into(),
            socket: None,
            address: KubeletAddress::default(),
            interval: Duration::from_secs(5),
        }
    }
}

impl Kubelet {
    /// Its PodResources socket, below the host's root.
    pub(crate) fn socket(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(|| self.root.join("pod-resources/kubelet.sock"))
    }
}

/// How GPUs are divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Partition {
    /// The partition file; absent: the usual one, and where there is none, layouts made from what the GPUs report.
    pub(crate) file: Option<PathBuf>,
    /// What happens while something is in use that would have to go, where no label says it.
    pub(crate) when_busy: WhenBusy,
    /// Whether the machine may be rebooted for a change of mode.
    pub(crate) reboot: Permission,
    /// What happens with what someone else has changed.
    pub(crate) drift: Drift,
    /// How long it is waited for who is in the way.
    pub(crate) wait: Duration,
}

impl Default for Partition {
    fn default() -> Self {
        Self {
            file: None,
            when_busy: WhenBusy::default(),
            reboot: Permission::default(),
            drift: Drift::default(),
            wait: Duration::from_secs(3600),
        }
    }
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
    /// `--kubeconfig`
    pub(crate) kubeconfig: Option<PathBuf>,
    /// `--publish`
    pub(crate) publish: Option<Publish>,
    /// `--take-over`
    pub(crate) take_over: Option<bool>,
    /// `--kubelet-root`
    pub(crate) kubelet_root: Option<PathBuf>,
    /// `--kubelet-socket`
    pub(crate) kubelet_socket: Option<PathBuf>,
    /// `--kubelet-address`
    pub(crate) kubelet_address: Option<KubeletAddress>,
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
        self.kubernetes.overridden_by(overrides);
        self.kubelet.overridden_by(overrides);
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
        let (old, new) = ((&self.kubernetes, &self.kubelet), (&new.kubernetes, &new.kubelet));
        let fixed = [
            ("kubernetes.kubeconfig", old.0.kubeconfig != new.0.kubeconfig),
            ("kubernetes.publish", old.0.publish != new.0.publish),
            ("kubernetes.file", old.0.file != new.0.file),
            ("kubelet.root", old.1.root != new.1.root),
            ("kubelet.socket", old.1.socket != new.1.socket),
            ("kubelet.address", old.1.address != new.1.address),
        ];
        keys.extend(fixed.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key));
        keys
    }
}

impl Kubernetes {
    fn overridden_by(&mut self, overrides: &Overrides) {
        if let Some(kubeconfig) = &overrides.kubeconfig {
            self.kubeconfig = Some(kubeconfig.clone());
        }
        self.publish = overrides.publish.unwrap_or(self.publish);
        self.take_over = overrides.take_over.unwrap_or(self.take_over);
    }
}

impl Kubelet {
    fn overridden_by(&mut self, overrides: &Overrides) {
        if let Some(root) = &overrides.kubelet_root {
            self.root = root.clone();
        }
        if let Some(socket) = &overrides.kubelet_socket {
            self.socket = Some(socket.clone());
        }
        self.address = overrides.kubelet_address.unwrap_or(self.address);
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
        let mut new = old.clone();
        new.kubernetes.take_over = true;
        new.kubelet.interval *= 2;
        assert!(old.fixed_until_restart(&new).is_empty());
        new.kubernetes.publish = Publish::Never;
        new.kubelet.root = "/elsewhere".into();
        assert_eq!(old.fixed_until_restart(&new), ["kubernetes.publish", "kubelet.root"]);
    }
}
