//! What a real kubelet decided, step by step, to be decided again by the simulated one.

use std::collections::{BTreeMap, BTreeSet};

use gpulet_inventory::kubelet::{ContainerAllocation, KubeletDevice, MemoryBlock, PodAllocation};
use serde::{Deserialize, Deserializer, de};

use super::allocator::Allocator;
use super::devices::Device;
use super::machine::Machine;
use super::pod::Pod;
use super::rejection::Rejection;
use super::settings::{Settings, SettingsError};

/// A record of a real kubelet's decisions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transcript {
    /// Whose, in words.
    pub source: String,
    /// Its configuration.
    pub settings: Settings,
    /// Its machine.
    pub machine: Machine,
    /// What its plugins offered, by resource.
    pub devices: BTreeMap<String, Vec<Unit>>,
    /// What happened.
    pub steps: Vec<Step>,
    /// The state files at the end, by name; absent if they were not kept.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

/// A device that a plugin offered.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unit {
    /// Its name.
    pub id: String,
    /// Its NUMA nodes, if the plugin told.
    pub numa: Option<Vec<i64>>,
}

/// A Pod that came or went, and what the kubelet then said.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The manifest of a Pod that was to be admitted.
    pub admit: Option<Pod>,
    /// The name of one that was removed.
    pub remove: Option<String>,
    /// Why it was not admitted; absent if it was.
    pub verdict: Option<Verdict>,
    /// The devices that each container got, init containers too, of a Pod that was refused as well; by container and
    /// resource. Where this is not known, what the answer tells goes for it.
    #[serde(default)]
    pub given: BTreeMap<String, BTreeMap<String, Vec<String>>>,
    /// The answer to `List` afterwards, as protobuf in JSON.
    pub answer: Answer,
}

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Verdict {
    /// `status.reason`.
    pub reason: String,
    /// `status.message`, without the kubelet's prefix.
    pub message: String,
}

/// The answer to `List`: Pods in the order of their names, and everything of theirs in order, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer(pub Vec<PodAllocation>);

/// What the simulated kubelet does otherwise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Difference {
    /// It decides otherwise.
    #[error("step {step}, Pod {pod}: decided {here}, not {there}")]
    Verdict {
        /// Counted from 0.
        step: usize,
        /// The Pod.
        pod: String,
        /// Its own decision.
        here: String,
        /// The real kubelet's.
        there: String,
    },
    /// It decides likewise, but gives away something else.
    #[error("step {step}, Pod {pod}: gave {here:?}, not {there:?}")]
    Answer {
        /// Counted from 0.
        step: usize,
        /// The first Pod of which it tells otherwise.
        pod: String,
        /// Its own answer.
        here: Option<Box<PodAllocation>>,
        /// The real kubelet's.
        there: Option<Box<PodAllocation>>,
    },
}

impl Difference {
    /// The stable word for this difference.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Verdict { .. } => "OtherVerdict",
            Self::Answer { .. } => "OtherAnswer",
        }
    }
}

impl Transcript {
    /// Decides everything again, and gives what has come to be at the end. Which of several devices that are equally good a kubelet takes is chance: here those
    /// are taken that the real one took, as far as its rules allow; all else must come out by itself.
    ///
    /// # Errors
    /// Settings that are not simulated; the outer result. The first difference; the inner one.
    pub fn replay(&self) -> Result<Result<Allocator, Difference>, SettingsError> {
        let mut allocator = Allocator::new(&self.machine, &self.settings)?;
        for (resource, units) in &self.devices {
            let device = |unit: &Unit| Device { id: unit.id.clone(), numa: unit.numa.clone(), healthy: true };
            allocator.update_devices(resource, &units.iter().map(device).collect::<Vec<_>>());
        }
        for (number, step) in self.steps.iter().enumerate() {
            if let Err(difference) = again(&mut allocator, number, step) {
                return Ok(Err(difference));
            }
        }
        Ok(Ok(allocator))
    }
}

fn again(allocator: &mut Allocator, number: usize, step: &Step) -> Result<(), Difference> {
    if let Some(name) = &step.remove {
        allocator.remove("default", name);
    }
    if let Some(pod) = &step.admit {
        let decided = allocator
            .admit_with(pod.clone(), &|question| taken(step, question.container, question.resource))
            .err();
        let here = decided.map(|Rejection { reason, message }| Verdict { reason, message });
        if here.as_ref().map(|verdict| &verdict.reason)
            != step.verdict.as_ref().map(|verdict| &verdict.reason)
        {
            let words = |verdict: &Option<Verdict>| match verdict {
                None => "admitted".to_owned(),
                Some(Verdict { reason, message }) => format!("{reason} ({message})"),
            };
            let (here, there) = (words(&here), words(&step.verdict));
            return Err(Difference::Verdict { step: number, pod: pod.name.clone(), here, there });
        }
    }
    let here = Answer(allocator.allocation().pods).in_order();
    let of = |answer: &Answer, name: &str| answer.0.iter().find(|pod| pod.name == name).cloned();
    let names: BTreeSet<&str> = here.0.iter().chain(&step.answer.0).map(|pod| pod.name.as_str()).collect();
    let different = names.into_iter().find(|name| of(&here, name) != of(&step.answer, name));
    match different {
        None => Ok(()),
        Some(name) => Err(Difference::Answer {
            step: number,
            pod: name.to_owned(),
            here: of(&here, name).map(Box::new),
            there: of(&step.answer, name).map(Box::new),
        }),
    }
}

/// The devices that the real kubelet gave to a container.
fn taken(step: &Step, container: &str, resource: &str) -> Vec<String> {
    if !step.given.is_empty() {
        let ids = step.given.get(container).and_then(|resources| resources.get(resource));
        return ids.cloned().unwrap_or_default();
    }
    let name = step.admit.as_ref().map(|pod| pod.name.as_str());
    let pods = step.answer.0.iter().filter(|pod| Some(pod.name.as_str()) == name);
    let containers = pods.flat_map(|pod| &pod.containers).filter(|known| known.name == container);
    let devices = containers.flat_map(|container| &container.devices);
    devices.filter(|device| device.resource == resource).map(|device| device.id.clone()).collect()
}

impl Answer {
    /// Nothing depends on the order in which a kubelet tells.
    fn in_order(mut self) -> Self {
        self.0.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        for container in self.0.iter_mut().flat_map(|pod| &mut pod.containers) {
            container.devices.sort_by(|a, b| (&a.resource, &a.id).cmp(&(&b.resource, &b.id)));
            container.memory.sort_by(|a, b| (&a.kind, &a.numa_nodes).cmp(&(&b.kind, &b.numa_nodes)));
        }
        self
    }
}

/// The answer as tools print it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Printed {
    #[serde(default)]
    pod_resources: Vec<PrintedPod>,
}

#[derive(Deserialize)]
struct PrintedPod {
    name: String,
    namespace: String,
    #[serde(default)]
    containers: Vec<PrintedContainer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PrintedContainer {
    name: String,
    #[serde(default)]
    devices: Vec<PrintedDevices>,
    #[serde(default)]
    cpu_ids: Vec<Number>,
    #[serde(default)]
    memory: Vec<PrintedMemory>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PrintedDevices {
    resource_name: String,
    device_ids: Vec<String>,
    topology: Option<PrintedTopology>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PrintedMemory {
    memory_type: String,
    size: Number,
    topology: Option<PrintedTopology>,
}

#[derive(Deserialize)]
struct PrintedTopology {
    #[serde(default)]
    nodes: Vec<PrintedNode>,
}

#[derive(Deserialize)]
struct PrintedNode {
    #[serde(rename = "ID", default)]
    id: Number,
}

/// A 64-bit number, which protobuf writes as a text in JSON.
#[derive(Default)]
struct Number(u64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(de::Error::custom)
    }
}

impl PrintedTopology {
    fn nodes(&self) -> Vec<i64> {
        let mut nodes: Vec<i64> =
            self.nodes.iter().filter_map(|node| i64::try_from(node.id.0).ok()).collect();
        nodes.sort_unstable();
        nodes
    }
}

impl<'de> Deserialize<'de> for Answer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let printed = Printed::deserialize(deserializer)?;
        let pod = |pod: PrintedPod| PodAllocation {
            namespace: pod.namespace,
            name: pod.name,
            containers: pod.containers.into_iter().map(container).collect(),
        };
        Ok(Self(printed.pod_resources.into_iter().map(pod).collect()).in_order())
    }
}

fn container(printed: PrintedContainer) -> ContainerAllocation {
    let mut devices: BTreeMap<(String, String), Option<Vec<i64>>> = BTreeMap::new();
    for entry in &printed.devices {
        for id in &entry.device_ids {
            let nodes = devices.entry((entry.resource_name.clone(), id.clone())).or_default();
            if let Some(topology) = &entry.topology {
                let nodes = nodes.get_or_insert_default();
                nodes.extend(topology.nodes());
                nodes.sort_unstable();
            }
        }
    }
    let device = |((resource, id), numa_nodes)| KubeletDevice { resource, id, numa_nodes };
    let block = |memory: PrintedMemory| MemoryBlock {
        kind: memory.memory_type,
        bytes: memory.size.0,
        numa_nodes: memory.topology.map(|topology| topology.nodes()).unwrap_or_default(),
    };
    ContainerAllocation {
        name: printed.name,
        devices: devices.into_iter().map(device).collect(),
        cpus: printed.cpu_ids.iter().filter_map(|cpu| u32::try_from(cpu.0).ok()).collect(),
        memory: printed.memory.into_iter().map(block).collect(),
        claims: Vec::new(),
    }
}
