//! How much a kubelet can tell: counted before anything is made of it, for making something of a million devices would hold
//! up everything else.

use std::collections::HashSet;

use super::v1;

/// The most devices, claimed ones included, of one answer. The kubelet's devices are whole or shared ones of some plugins:
/// tens as a rule, and thousands where each Pod gets one of a resource that costs nothing.
const MAX_DEVICES: usize = 65_536;
/// The most kinds of device resources of one answer.
const MAX_RESOURCES: usize = 1024;
/// The most Pods and the most containers of one answer. Kubelets are told to run some hundreds of Pods at most.
const MAX_CONTAINERS: usize = 65_536;
/// The most CPUs of one answer, eight times the kernel's own limit.
const MAX_CPUS: usize = 65_536;
/// The most blocks of memory of one answer.
const MAX_BLOCKS: usize = 65_536;

/// There is more of something than any node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Excess {
    /// Of what.
    pub(super) what: &'static str,
    pub(super) found: usize,
    pub(super) limit: usize,
}

/// Whether there can be so much to give away.
pub(super) fn allocatable(answer: &v1::AllocatableResourcesResponse) -> Result<(), Excess> {
    let mut count = Count { cpus: answer.cpu_ids.len(), blocks: answer.memory.len(), ..Count::default() };
    count.devices(&answer.devices);
    count.checked()
}

/// Whether Pods can have so much.
pub(super) fn pods<'a>(pods: impl IntoIterator<Item = &'a v1::PodResources>) -> Result<(), Excess> {
    let mut count = Count::default();
    for pod in pods {
        count.pods += 1;
        count.containers += pod.containers.len();
        for container in &pod.containers {
            count.cpus += container.cpu_ids.len();
            count.blocks += container.memory.len();
            count.devices(&container.devices);
            let claimed = container.dynamic_resources.iter().map(|claim| claim.claim_resources.len());
            count.devices += claimed.sum::<usize>();
        }
    }
    count.checked()
}

#[derive(Debug, Default)]
struct Count<'a> {
    pods: usize,
    containers: usize,
    devices: usize,
    resources: HashSet<&'a str>,
    cpus: usize,
    blocks: usize,
}

impl<'a> Count<'a> {
    fn devices(&mut self, listed: &'a [v1::ContainerDevices]) {
        for entry in listed {
            self.devices += entry.device_ids.len();
            // One more is enough to know.
            if self.resources.len() <= MAX_RESOURCES {
                self.resources.insert(&entry.resource_name);
            }
        }
    }

    fn checked(&self) -> Result<(), Excess> {
        let found = [
            ("Pods", self.pods, MAX_CONTAINERS),
            ("containers", self.containers, MAX_CONTAINERS),
            ("devices", self.devices, MAX_DEVICES),
            ("kinds of devices", self.resources.len(), MAX_RESOURCES),
            ("CPUs", self.cpus, MAX_CPUS),
            ("blocks of memory", self.blocks, MAX_BLOCKS),
        ];
        match found.into_iter().find(|(_, found, limit)| found > limit) {
            Some((what, found, limit)) => Err(Excess { what, found, limit }),
            None => Ok(()),
        }
    }
}
