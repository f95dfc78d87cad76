//! Who gets what: the kubelet's decisions, without a socket, a file or a clock.
//!
//! ```text
//! Pod ─▶ opinions of devices, CPUs, memory ─▶ topology manager ─▶ allocate: devices, CPUs, memory ─▶ capacity ─▶ admitted
//!        (per container, or for the Pod)       └─▶ TopologyAffinityError       └─▶ UnexpectedAdmissionError, OutOf…
//! ```

use std::collections::BTreeMap;

use gpulet_inventory::kubelet::PodAllocation;

use super::capacity::Capacity;
use super::cpus::CpuManager;
use super::devices::{Choice, Device, DeviceManager};
use super::hints::{Hint, Opinion};
use super::machine::Machine;
use super::memory::MemoryManager;
use super::pod::{Container, Pod};
use super::rejection::Rejection;
use super::settings::{Settings, SettingsError, TopologyPolicy, TopologyScope};
use super::topology_manager::TopologyManager;
use crate::uuid::uuid;

/// How far a Pod is that the kubelet knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It is being admitted: its memory is not decided yet.
    Admitting,
    /// It runs.
    Running,
    /// It has ended or was refused, but is still there in the API.
    Ended,
}

/// A Pod that the kubelet knows.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) pod: Pod,
    pub(super) stage: Stage,
    /// What it had when it ended.
    pub(super) had: Option<PodAllocation>,
}

/// The kubelet's managers of one machine, with what they have given away.
#[derive(Debug, Clone)]
pub struct Allocator {
    topology: TopologyManager,
    pub(super) devices: DeviceManager,
    pub(super) cpus: CpuManager,
    pub(super) memory: MemoryManager,
    capacity: Capacity,
    pub(super) pods: Vec<Known>,
    admissions: u64,
}

impl Allocator {
    /// With nothing given away.
    ///
    /// # Errors
    /// Settings with which a kubelet would not start on the machine, or that are not simulated.
    pub fn new(machine: &Machine, settings: &Settings) -> Result<Self, SettingsError> {
        Ok(Self {
            topology: TopologyManager::new(machine, settings)?,
            devices: DeviceManager::new(machine.numa.iter().map(|numa| numa.id).collect()),
            cpus: CpuManager::new(machine, settings)?,
            memory: MemoryManager::new(machine, settings)?,
            capacity: Capacity::new(machine, settings)?,
            pods: Vec::new(),
            admissions: 0,
        })
    }

    /// A plugin registers, or tells anew which devices it has.
    pub fn update_devices(&mut self, resource: &str, devices: &[Device]) {
        self.devices.update(resource, devices);
    }

    /// A plugin's connection ends.
    pub fn disconnect(&mut self, resource: &str) {
        self.devices.disconnect(resource);
    }

    /// The kubelet starts anew: what was given away stays, devices are unknown until their plugins register.
    pub fn restart(&mut self) {
        self.devices.restart();
    }

    /// Decides on a Pod. A Pod that is refused stays known as one that has ended, until it is removed.
    ///
    /// # Errors
    /// The refusal, in the kubelet's words; nothing is given away then.
    pub fn admit(&mut self, pod: Pod) -> Result<(), Rejection> {
        self.admit_with(pod, &|_| Vec::new())
    }

    /// As [`Allocator::admit`], with a say in which of equally good devices are taken.
    ///
    /// # Errors
    /// As there.
    pub fn admit_with(&mut self, pod: Pod, choice: Choice<'_>) -> Result<(), Rejection> {
        self.begin(pod.clone(), choice)?;
        self.complete(&pod.namespace, &pod.name);
        Ok(())
    }

    /// Decides on a Pod, but leaves it in the midst of its admission until [`Allocator::complete`].
    ///
    /// # Errors
    /// As [`Allocator::admit`].
    pub fn begin(&mut self, mut pod: Pod, choice: Choice<'_>) -> Result<(), Rejection> {
        self.admissions += 1;
        if pod.uid.is_empty() {
            pod.uid = uuid(&format!("{}/{}/{}", pod.namespace, pod.name, self.admissions));
        }
        // One of the same name is only gone when the new one comes.
        self.pods.retain(|known| known.pod.name != pod.name || known.pod.namespace != pod.namespace);
        self.pods.push(Known { pod: pod.clone(), stage: Stage::Admitting, had: None });
        self.collect();
        let decided = self.decide(&pod, choice).and_then(|()| {
            let others =
                self.pods.iter().filter(|known| known.stage != Stage::Ended && known.pod.uid != pod.uid);
            let others = others.map(|known| &known.pod);
            self.capacity.admit(&pod, &others.collect::<Vec<_>>(), &self.devices)
        });
        if decided.is_err() {
            self.set_stage(&pod.namespace, &pod.name, Stage::Ended);
        }
        decided
    }

    /// A Pod in the midst of its admission gets through; its init containers have ended.
    pub fn complete(&mut self, namespace: &str, name: &str) -> bool {
        let Some(known) = self.known(namespace, name).filter(|known| known.stage == Stage::Admitting) else {
            return false;
        };
        let pod = known.pod.clone();
        self.memory.started(&pod);
        self.set_stage(namespace, name, Stage::Running)
    }

    /// A Pod ends by itself; it stays known.
    pub fn end(&mut self, namespace: &str, name: &str) -> bool {
        let had = self.known(namespace, name).filter(|known| known.had.is_none()).map(|known| self.of(known));
        let mut known = self.pods.iter_mut();
        if let Some(known) = known.find(|known| known.pod.namespace == namespace && known.pod.name == name) {
            known.had = known.had.take().or(had);
        }
        self.set_stage(namespace, name, Stage::Ended)
    }

    /// A Pod is deleted.
    pub fn remove(&mut self, namespace: &str, name: &str) -> bool {
        let before = self.pods.len();
        self.pods.retain(|known| known.pod.name != name || known.pod.namespace != namespace);
        self.collect();
        self.pods.len() < before
    }

    fn known(&self, namespace: &str, name: &str) -> Option<&Known> {
        self.pods.iter().find(|known| known.pod.namespace == namespace && known.pod.name == name)
    }

    fn set_stage(&mut self, namespace: &str, name: &str, stage: Stage) -> bool {
        let mut known = self.pods.iter_mut();
        let known = known.find(|known| known.pod.namespace == namespace && known.pod.name == name);
        let found = known.map(|known| known.stage = stage).is_some();
        self.collect();
        found
    }

    /// Takes back what Pods have that are not active any more. A real kubelet does this before each decision and every
    /// few seconds; this one at once.
    fn collect(&mut self) {
        let active = self.pods.iter().filter(|known| known.stage != Stage::Ended);
        let active: BTreeMap<&str, ()> = active.map(|known| (known.pod.uid.as_str(), ())).collect();
        let is_active = |uid: &str| active.contains_key(uid);
        self.devices.retain(is_active);
        self.cpus.retain(is_active);
        self.memory.retain(is_active);
    }

    fn decide(&mut self, pod: &Pod, choice: Choice<'_>) -> Result<(), Rejection> {
        let per_container = match (self.topology.policy, self.topology.scope) {
            (TopologyPolicy::None, _) => None,
            (_, TopologyScope::Container) => Some(true),
            (_, TopologyScope::Pod) => Some(false),
        };
        let mut hint = Hint::default();
        if per_container == Some(false) {
            hint = self.agree(self.pod_opinions(pod))?;
        }
        for container in pod.all_containers() {
            if per_container == Some(true) {
                hint = self.agree(self.container_opinions(pod, container))?;
            }
            self.devices.allocate(pod, container, hint.affinity, choice)?;
            self.cpus.allocate(pod, container, hint.affinity)?;
            self.memory.allocate(pod, container, hint)?;
        }
        Ok(())
    }

    fn agree(&self, opinions: Vec<Opinion>) -> Result<Hint, Rejection> {
        self.topology.decide(opinions).ok_or_else(Rejection::topology)
    }

    fn pod_opinions(&self, pod: &Pod) -> Vec<Opinion> {
        vec![self.devices.pod_opinion(pod), self.cpus.pod_opinion(pod), self.memory.pod_opinion(pod)]
    }

    fn container_opinions(&self, pod: &Pod, container: &Container) -> Vec<Opinion> {
        vec![
            self.devices.container_opinion(pod, container),
            self.cpus.container_opinion(pod, container),
            self.memory.container_opinion(pod, container),
        ]
    }
}
