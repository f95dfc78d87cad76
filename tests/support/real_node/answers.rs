//! What the kubelet's PodResources service says, by the kubelet's own client (`tests/node/podresources`): nothing of
//! gpulet's has a hand in it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The answers to `List` and to `GetAllocatableResources`.
#[derive(Debug, Clone, PartialEq)]
pub struct Answers {
    /// What each Pod has, by namespace and name.
    pub pods: BTreeMap<(String, String), Holding>,
    /// What there is to give.
    pub allocatable: Holding,
    /// The answers as they came.
    pub raw: Value,
}

/// CPUs, memory and devices that somebody has, or that there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Holding {
    /// CPUs by number.
    pub cpus: BTreeSet<u64>,
    /// Memory and huge pages.
    pub memory: Vec<Memory>,
    /// Devices.
    pub devices: Vec<Device>,
}

/// Memory of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// `memory`, or `hugepages-` and a size.
    pub kind: String,
    /// How much.
    pub bytes: u64,
    /// The NUMA nodes on which it lies.
    pub nodes: Vec<u64>,
}

/// A device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The resource that it counts as.
    pub resource: String,
    /// Its plugin's name for it.
    pub id: String,
    /// The NUMA nodes that it is at.
    pub nodes: Vec<u64>,
}

impl Answers {
    /// Parses a line that `podresources` prints.
    pub fn parse(line: &str) -> Self {
        let raw: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let pods = list(&raw["list"]["podResources"]).iter().map(|pod| {
            let containers = list(&pod["containers"]).iter().map(Holding::parse);
            let all = containers.fold(Holding::default(), Holding::and);
            ((text(&pod["namespace"]), text(&pod["name"])), all)
        });
        Self { pods: pods.collect(), allocatable: Holding::parse(&raw["allocatable"]), raw }
    }

    /// What all Pods have together.
    pub fn given(&self) -> Holding {
        self.pods.values().cloned().fold(Holding::default(), Holding::and)
    }
}

impl Holding {
    /// How much of `resource` there is on NUMA node `node`, which has the CPUs `cpus`. What lies on several nodes is an
    /// error: no test has any.
    pub fn amount(&self, resource: &str, node: u64, cpus: &BTreeSet<u64>) -> u64 {
        let here = |nodes: &[u64]| {
            assert_eq!(nodes.len(), 1, "{self:?}");
            nodes[0] == node
        };
        let count = |count: usize| u64::try_from(count).unwrap();
        match resource {
            "cpu" => count(self.cpus.intersection(cpus).count()),
            "memory" => {
                self.memory.iter().filter(|m| m.kind == "memory" && here(&m.nodes)).map(|m| m.bytes).sum()
            }
            hugepages if hugepages.starts_with("hugepages-") => {
                self.memory.iter().filter(|m| m.kind == hugepages && here(&m.nodes)).map(|m| m.bytes).sum()
            }
            device => count(self.devices.iter().filter(|d| d.resource == device && here(&d.nodes)).count()),
        }
    }

    fn parse(value: &Value) -> Self {
        let devices = list(&value["devices"]).iter().flat_map(|devices| {
            list(&devices["deviceIds"]).iter().map(|id| Device {
                resource: devices["resourceName"].as_str().unwrap().to_owned(),
                id: id.as_str().unwrap().to_owned(),
                nodes: nodes(devices),
            })
        });
        let memory = list(&value["memory"]).iter().map(|memory| Memory {
            kind: memory["memoryType"].as_str().unwrap().to_owned(),
            bytes: number(&memory["size"]),
            nodes: nodes(memory),
        });
        Self {
            cpus: list(&value["cpuIds"]).iter().map(number).collect(),
            memory: memory.collect(),
            devices: devices.collect(),
        }
    }

    fn and(mut self, other: Self) -> Self {
        self.cpus.extend(other.cpus);
        self.memory.extend(other.memory);
        self.devices.extend(other.devices);
        self
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn nodes(value: &Value) -> Vec<u64> {
    list(&value["topology"]["nodes"]).iter().map(|node| number(&node["ID"])).collect()
}

/// 64-bit numbers are text in the JSON form of protocol buffers.
fn number(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}
