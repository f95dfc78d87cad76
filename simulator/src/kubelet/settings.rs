//! The kubelet's settings, as far as they decide where Pods lie, in the form of its configuration file
//! (`KubeletConfiguration`, `kubelet.config.k8s.io/v1beta1`).

use std::collections::BTreeMap;

use gpulet_inventory::numa::CpuSet;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::machine::Machine;
use super::pod::Amounts;
use super::quantity::Quantity;

/// Settings; what is left out is the kubelet's default. A file that a real kubelet takes can be read as it is: keys
/// that are not known here are kept and written on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Settings {
    /// How strictly CPUs, memory and devices are to lie on the same NUMA nodes.
    pub topology_manager_policy: TopologyPolicy,
    /// What is to lie together: each container, or the whole Pod.
    pub topology_manager_scope: TopologyScope,
    /// `prefer-closest-numa-nodes`, `max-allowable-numa-nodes`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub topology_manager_policy_options: BTreeMap<String, String>,
    /// Whether containers get CPUs of their own.
    pub cpu_manager_policy: CpuPolicy,
    /// `full-pcpus-only`, `distribute-cpus-across-numa`, `align-by-socket`, `distribute-cpus-across-cores`,
    /// `strict-cpu-reservation`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cpu_manager_policy_options: BTreeMap<String, String>,
    /// CPUs that no container gets for itself; takes the place of the CPU time reserved by the two maps.
    #[serde(
        rename = "reservedSystemCPUs",
        serialize_with = "cpu_list",
        deserialize_with = "cpus",
        skip_serializing_if = "Option::is_none"
    )]
    pub reserved_system_cpus: Option<CpuSet>,
    /// Kept for the Kubernetes parts.
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    pub kube_reserved: Amounts,
    /// Kept for the rest of the system.
    #[serde(skip_serializing_if = "Amounts::is_empty")]
    pub system_reserved: Amounts,
    /// Hard eviction thresholds by signal; 100Mi of `memory.available` unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eviction_hard: Option<BTreeMap<String, String>>,
    /// Whether containers get memory of NUMA nodes of their own.
    pub memory_manager_policy: MemoryPolicy,
    /// Memory that is kept on each NUMA node.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reserved_memory: Vec<ReservedMemory>,
    /// Most Pods.
    pub max_pods: u32,
    /// All other keys of the file.
    #[serde(flatten)]
    pub others: BTreeMap<String, serde_json::Value>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            topology_manager_policy: TopologyPolicy::None,
            topology_manager_scope: TopologyScope::Container,
            topology_manager_policy_options: BTreeMap::new(),
            cpu_manager_policy: CpuPolicy::None,
            cpu_manager_policy_options: BTreeMap::new(),
            reserved_system_cpus: None,
            kube_reserved: Amounts::new(),
            system_reserved: Amounts::new(),
            eviction_hard: None,
            memory_manager_policy: MemoryPolicy::None,
            reserved_memory: Vec::new(),
            max_pods: 110,
            others: BTreeMap::new(),
        }
    }
}

/// `topologyManagerPolicy`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopologyPolicy {
    /// Nothing is aligned.
    None,
    /// Aligned where it can be.
    BestEffort,
    /// Refused unless on as few NUMA nodes as such a machine could do.
    Restricted,
    /// Refused unless on one NUMA node.
    SingleNumaNode,
}

/// `topologyManagerScope`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TopologyScope {
    /// Each container by itself.
    Container,
    /// All containers of a Pod together.
    Pod,
}

/// `cpuManagerPolicy`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuPolicy {
    /// All share all CPUs.
    None,
    /// Containers of `Guaranteed` Pods that ask for whole CPUs have them for themselves.
    Static,
}

/// `memoryManagerPolicy`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryPolicy {
    /// Memory comes from anywhere.
    None,
    /// Containers of `Guaranteed` Pods have theirs on NUMA nodes of their own.
    Static,
}

impl TopologyPolicy {
    /// The kubelet's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::BestEffort => "best-effort",
            Self::Restricted => "restricted",
            Self::SingleNumaNode => "single-numa-node",
        }
    }
}

/// Memory that is kept on one NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReservedMemory {
    /// The kernel's number.
    pub numa_node: u32,
    /// By kind: `memory`, `hugepages-2Mi`.
    pub limits: Amounts,
}

/// Why a kubelet does not start with these settings on this machine.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("cannot read the kubelet's settings in {}: check the path and its permissions", .path.display())]
    Read {
        /// Which file.
        path: std::path::PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The text is no such file.
    #[error("{file} is no kubelet configuration")]
    Syntax {
        /// Which file.
        file: String,
        /// Where and why.
        #[source]
        source: Box<serde_saphyr::Error>,
    },
    /// An option that there is not, or that is not simulated.
    #[error("{manager} has no option `{option}` here: use {known}")]
    UnknownOption {
        /// Whose option.
        manager: &'static str,
        /// As given.
        option: String,
        /// Those there are.
        known: &'static str,
    },
    /// An option's value makes no sense.
    #[error("`{value}` is no value of `{option}`: use {expected}")]
    BadValue {
        /// Which option or setting.
        option: String,
        /// As given.
        value: String,
        /// What it should be.
        expected: &'static str,
    },
    /// Two settings exclude each other.
    #[error("`{one}` and `{other}` cannot be used together: leave out one of them")]
    Exclusive {
        /// One of them.
        one: &'static str,
        /// The other.
        other: &'static str,
    },
    /// More NUMA nodes than the managers go through.
    #[error(
        "the machine has {nodes} NUMA nodes, {setting} goes up to {most}: raise max-allowable-numa-nodes or use policy none"
    )]
    TooManyNodes {
        /// How many.
        nodes: usize,
        /// Whose limit.
        setting: &'static str,
        /// The limit.
        most: usize,
    },
    /// Nothing is kept, but something must be.
    #[error("the static policy needs {what} to be kept: set {setting}")]
    NothingReserved {
        /// Of what.
        what: &'static str,
        /// Where it is set.
        setting: &'static str,
    },
    /// As many CPUs as are to be kept cannot be.
    #[error(
        "{wanted} CPUs are to be kept, but {found} can be: correct reservedSystemCPUs or the reserved CPU time"
    )]
    ReservedCpus {
        /// To be kept.
        wanted: usize,
        /// What there is of them.
        found: usize,
    },
    /// Memory is kept on a NUMA node that is not there.
    #[error("memory is kept on NUMA node {node}, which is not there: correct reservedMemory")]
    UnknownNode {
        /// The kernel's number.
        node: u32,
    },
    /// The memory kept on NUMA nodes is not what is kept in all.
    #[error(
        "reservedMemory keeps {nodes} bytes of {kind}, but systemReserved, kubeReserved and evictionHard keep {total}: make them equal"
    )]
    ReservedMemory {
        /// Which kind.
        kind: String,
        /// On the NUMA nodes together.
        nodes: u64,
        /// In all.
        total: u64,
    },
}

impl SettingsError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Read { .. } => "UnreadableSettings",
            Self::Syntax { .. } => "InvalidSettings",
            Self::UnknownOption { .. } => "UnknownOption",
            Self::BadValue { .. } => "InvalidOption",
            Self::Exclusive { .. } => "ExclusiveOptions",
            Self::TooManyNodes { .. } => "TooManyNodes",
            Self::NothingReserved { .. } => "NothingReserved",
            Self::ReservedCpus { .. } => "ReservedCpus",
            Self::UnknownNode { .. } => "UnknownNode",
            Self::ReservedMemory { .. } => "ReservedMemory",
        }
    }
}

impl Settings {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// A file that cannot be read or is none.
    pub fn load(path: &std::path::Path) -> Result<Self, SettingsError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| SettingsError::Read { path: path.to_owned(), source })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Reads the text of a configuration file; `file` names it in errors.
    ///
    /// # Errors
    /// A text that is none.
    pub fn parse(file: &str, text: &str) -> Result<Self, SettingsError> {
        serde_saphyr::from_str(text)
            .map_err(|source| SettingsError::Syntax { file: file.to_owned(), source: Box::new(source) })
    }

    /// The strictest there is: `static` CPUs, `Static` memory, `single-numa-node`; on a machine, for which one CPU and
    /// 1 GiB are kept (half of the first NUMA node's memory, if it is smaller).
    pub fn strict(machine: &Machine) -> Self {
        const EVICTION: u64 = 100 << 20;
        let with_memory = machine.numa.iter().find(|numa| numa.memory_bytes > 0);
        let (node, memory) = with_memory.map_or((0, 0), |numa| (numa.id, numa.memory_bytes));
        let kept = (1_u64 << 30).min(memory / 2);
        let amounts = |list: &[(&str, u64)]| {
            list.iter().map(|(name, amount)| ((*name).to_owned(), Quantity::of(*amount))).collect::<Amounts>()
        };
        Self {
            topology_manager_policy: TopologyPolicy::SingleNumaNode,
            cpu_manager_policy: CpuPolicy::Static,
            memory_manager_policy: MemoryPolicy::Static,
            system_reserved: amounts(&[("cpu", 1), ("memory", kept.saturating_sub(EVICTION))]),
            eviction_hard: Some([("memory.available".to_owned(), format!("{EVICTION}"))].into()),
            reserved_memory: vec![ReservedMemory { numa_node: node, limits: amounts(&[("memory", kept)]) }],
            ..Self::default()
        }
    }

    /// What is kept of a resource of which the machine has `capacity`, the hard eviction threshold included.
    ///
    /// # Errors
    /// A threshold that is no amount.
    pub(super) fn reserved(&self, resource: &str, capacity: Quantity) -> Result<Quantity, SettingsError> {
        if let (Some(cpus), "cpu") = (&self.reserved_system_cpus, resource) {
            return Ok(Quantity::of(cpus.len() as u64));
        }
        let of = |amounts: &Amounts| amounts.get(resource).copied().unwrap_or_default();
        let mut sum = of(&self.kube_reserved);
        sum += of(&self.system_reserved);
        if resource == "memory" {
            sum += self.eviction_threshold(capacity)?;
        }
        Ok(sum)
    }

    fn eviction_threshold(&self, capacity: Quantity) -> Result<Quantity, SettingsError> {
        const SIGNAL: &str = "memory.available";
        let Some(thresholds) = &self.eviction_hard else { return Ok(Quantity::of(100 << 20)) };
        let Some(text) = thresholds.get(SIGNAL) else { return Ok(Quantity::default()) };
        let bad = || SettingsError::BadValue {
            option: format!("evictionHard {SIGNAL}"),
            value: text.clone(),
            expected: "an amount such as 100Mi, or a percentage such as 5%",
        };
        match text.strip_suffix('%') {
            None => text.parse().map_err(|_| bad()),
            Some(percent) => {
                let percent =
                    percent.parse::<f64>().ok().filter(|p| (0.0..=100.0).contains(p)).ok_or_else(bad)?;
                Ok(Quantity::of((capacity.value() as f64 * percent / 100.0) as u64))
            }
        }
    }
}

/// The value of an option that is on or off.
pub(super) fn switch(option: &str, value: &str) -> Result<bool, SettingsError> {
    match value {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => Ok(true),
        "0" | "f" | "F" | "false" | "False" | "FALSE" => Ok(false),
        _ => Err(SettingsError::BadValue {
            option: option.to_owned(),
            value: value.to_owned(),
            expected: "true or false",
        }),
    }
}

fn cpu_list<S: Serializer>(cpus: &Option<CpuSet>, serializer: S) -> Result<S::Ok, S::Error> {
    match cpus {
        Some(cpus) => serializer.collect_str(cpus),
        None => serializer.serialize_none(),
    }
}

fn cpus<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<CpuSet>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    let text = text.as_deref().map(str::trim).filter(|text| !text.is_empty());
    text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_kubelets_file_is_read_and_written_on() {
        let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
                    topologyManagerPolicy: single-numa-node\ncpuManagerPolicy: static\n\
                    cpuManagerPolicyOptions: {full-pcpus-only: \"true\"}\nreservedSystemCPUs: 0,4\n\
                    memoryManagerPolicy: Static\nsystemReserved: {memory: 412Mi}\n\
                    evictionHard: {memory.available: 100Mi}\n\
                    reservedMemory: [{numaNode: 0, limits: {memory: 512Mi}}]\n\
                    authentication: {anonymous: {enabled: false}}\n";
        let settings = Settings::parse("config.yaml", text).unwrap();
        assert_eq!(settings.topology_manager_policy, TopologyPolicy::SingleNumaNode);
        assert_eq!(settings.reserved("cpu", Quantity::of(8)).unwrap(), Quantity::of(2));
        assert_eq!(settings.reserved("memory", Quantity::of(1 << 40)).unwrap(), Quantity::of(512 << 20));
        let again = Settings::parse("again", &serde_saphyr::to_string(&settings).unwrap()).unwrap();
        assert_eq!(again, settings);
        assert_eq!(again.others["authentication"]["anonymous"]["enabled"], false);
    }

    #[test]
    fn thresholds_may_be_percentages() {
        let with = |text: &str| Settings {
            eviction_hard: Some([("memory.available".to_owned(), text.to_owned())].into()),
            ..Settings::default()
        };
        assert_eq!(with("5%").reserved("memory", Quantity::of(1000)).unwrap(), Quantity::of(50));
        let error = with("much").reserved("memory", Quantity::of(1000)).unwrap_err();
        assert_eq!(error.reason(), "InvalidOption");
        assert_eq!(Settings::default().reserved("memory", Quantity::of(1)).unwrap(), Quantity::of(100 << 20));
    }
}
