//! Devices, the processes on them, the Pods of these, and what the kubelet gave to whom: one join.
//!
//! No process is left out. One whose origin is not known is held by [`Owner::Unknown`], so that the owners of a device
//! together have all of its processes.

use std::collections::HashMap;

use super::resolve::{Resolved, Resolver};
use super::{
    Allocated, CgroupOwner, DeviceId, HeldDevice, Holders, HoldingProcess, Instance, Owner, PodGroup,
    PodOwner, Processes, UnknownDevice,
};
use crate::kubelet::{ContainerAllocation, NodeAllocation, PodAllocation};
use crate::pod::Pod;
use crate::process::GpuProcess;
use crate::snapshot::NodeGpus;

/// The driver of NVIDIA's devices for dynamic resource allocation.
const CLAIM_DRIVER: &str = "gpu.nvidia.com";

/// What is joined.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// GPUs and the processes on them, by the driver.
    pub gpus: &'a NodeGpus,
    /// What these processes belong to, by the kernel.
    pub processes: &'a Processes,
    /// The node's Pods, by the API; absent where it has not told.
    pub pods: Option<&'a [Pod]>,
    /// What was given to whom, by the kubelet; absent where it has not told.
    pub allocation: Option<&'a NodeAllocation>,
}

/// Who holds what. `resolver` is kept from one time to the next for what it remembers; what comes out is the same
/// without, but for [`UnknownDevice::is_news`].
pub fn join(inputs: &Inputs<'_>, resolver: &mut Resolver) -> Holders {
    resolver.observe(inputs.gpus);
    let pods = Pods::new(inputs.pods.unwrap_or_default());
    let mut devices = Devices::default();
    for state in &inputs.gpus.gpus {
        let processes = state.sample.as_ref().and_then(|sample| sample.processes.value());
        for process in processes.into_iter().flatten() {
            let id = DeviceId { gpu: state.gpu.uuid.clone(), instance: instance(process) };
            devices.at(id).processes.push(holding(process, inputs.processes, &pods));
        }
    }
    let unknown = allocate(inputs, &pods, resolver, &mut devices);
    let position: HashMap<&str, usize> =
        inputs.gpus.gpus.iter().enumerate().map(|(at, state)| (state.gpu.uuid.as_str(), at)).collect();
    let mut devices: Vec<HeldDevice> = devices.0.into_values().collect();
    for device in &mut devices {
        device.owners = device.processes.iter().map(|process| process.owner.clone()).collect();
        device.owners.sort_unstable();
        device.owners.dedup();
    }
    devices.sort_by_key(|device| (position.get(device.id.gpu.as_str()).copied(), device.id.instance));
    Holders { devices, unknown, vanished: inputs.processes.vanished }
}

fn instance(process: &GpuProcess) -> Option<Instance> {
    process.gpu_instance.map(|gpu| Instance { gpu, compute: process.compute_instance })
}

fn holding(process: &GpuProcess, processes: &Processes, pods: &Pods<'_>) -> HoldingProcess {
    let origin = processes.known.get(&process.pid);
    HoldingProcess {
        pid: process.pid,
        start_ticks: origin.map(|origin| origin.start_ticks),
        kind: process.kind,
        memory_bytes: process.memory_bytes,
        owner: origin.map_or(Owner::Unknown, |origin| pods.owner(&origin.owner)),
    }
}

/// Devices in the making.
#[derive(Debug, Default)]
struct Devices(HashMap<DeviceId, HeldDevice>);

impl Devices {
    fn at(&mut self, id: DeviceId) -> &mut HeldDevice {
        let new =
            HeldDevice { id: id.clone(), processes: Vec::new(), owners: Vec::new(), allocated: Vec::new() };
        self.0.entry(id).or_insert(new)
    }
}

/// Pods by what cgroups call them, and by name.
struct Pods<'a> {
    by_uid: HashMap<&'a str, &'a Pod>,
    by_name: HashMap<(&'a str, &'a str), &'a Pod>,
}

impl<'a> Pods<'a> {
    fn new(pods: &'a [Pod]) -> Self {
        let hashes = pods.iter().filter_map(|pod| Some((pod.config_hash.as_deref()?, pod)));
        // Whoever makes a Pod gives it annotations, also with the UID of another one: that one's own counts.
        let uids = pods.iter().map(|pod| (pod.uid.as_str(), pod));
        Self {
            by_uid: hashes.chain(uids).collect(),
            by_name: pods.iter().map(|pod| ((pod.namespace.as_str(), pod.name.as_str()), pod)).collect(),
        }
    }

    fn owner(&self, owner: &CgroupOwner) -> Owner {
        match owner {
            CgroupOwner::Host(unit) => Owner::Host(unit.clone()),
            CgroupOwner::Pods(groups) => self.pod(groups).map_or(Owner::Unknown, Owner::Pod),
        }
    }

    /// The Pod of groups that lie in one another: the outermost one that this node's kubelet runs, for below itself a Pod
    /// may make groups that look like another's. Of a node in a Pod that is the Pod in which it is; a gpulet of that node
    /// itself knows the inner Pods only. Where none is known, the innermost is as good as any.
    fn pod(&self, groups: &[PodGroup]) -> Option<PodOwner> {
        let known = groups.iter().find_map(|group| Some((group, *self.by_uid.get(group.uid.as_str())?)));
        let Some((PodGroup { container, .. }, pod)) = known else {
            let uid = groups.last()?.uid.clone();
            return Some(PodOwner { uid, namespace: None, name: None, container: None });
        };
        let container = container.as_ref().and_then(|id| {
            let container = pod.containers.iter().find(|container| container.id.as_ref() == Some(id))?;
            Some(container.name.clone())
        });
        Some(PodOwner {
            uid: pod.uid.clone(),
            namespace: Some(pod.namespace.clone()),
            name: Some(pod.name.clone()),
            container,
        })
    }

    /// Whether a Pod has ended. Kubelets before 1.34 go on listing what such a one had.
    fn has_ended(&self, pod: &PodAllocation) -> bool {
        let known = self.by_name.get(&(pod.namespace.as_str(), pod.name.as_str()));
        known.is_some_and(|pod| pod.phase.is_terminal())
    }
}

/// Adds what the kubelet gave away; returns what is no device of this node.
fn allocate(
    inputs: &Inputs<'_>,
    pods: &Pods<'_>,
    resolver: &mut Resolver,
    devices: &mut Devices,
) -> Vec<UnknownDevice> {
    let mut unknown = Vec::new();
    let given = inputs.allocation.into_iter().flat_map(|allocation| &allocation.pods);
    for pod in given.filter(|pod| !pods.has_ended(pod)) {
        for container in &pod.containers {
            for (resource, name) in names(container) {
                let mut allocated = Allocated {
                    namespace: pod.namespace.clone(),
                    pod: pod.name.clone(),
                    container: container.name.clone(),
                    resource: resource.to_owned(),
                    name: name.to_owned(),
                    replica: None,
                };
                match resolver.resolve(name) {
                    Resolved::Known(id, replica) => {
                        allocated.replica = replica;
                        devices.at(id).allocated.push(allocated);
                    }
                    Resolved::Unknown { is_news } => unknown.push(UnknownDevice { allocated, is_news }),
                }
            }
        }
    }
    unknown
}

/// Names of devices of a container that must be NVIDIA's GPUs or instances, each with what it counts as.
fn names(container: &ContainerAllocation) -> impl Iterator<Item = (&str, &str)> {
    let plugin = container.devices.iter().map(|device| (device.resource.as_str(), device.id.as_str()));
    let claimed = container.claims.iter().filter(|claim| claim.driver == CLAIM_DRIVER);
    let claimed = claimed.map(|claim| (claim.driver.as_str(), claim.device.as_str()));
    plugin.filter(|(resource, name)| is_gpu(resource, name)).chain(claimed)
}

/// `nvidia.com/gpu`, `nvidia.com/gpu.shared`, `nvidia.com/mig-1g.10gb`; and what is called by a UUID of the driver,
/// since resources can be renamed.
fn is_gpu(resource: &str, name: &str) -> bool {
    let ours = resource.strip_prefix("nvidia.com/").unwrap_or_default();
    ours == "gpu"
        || ours.starts_with("gpu.")
        || ours.starts_with("mig-")
        || name.starts_with("GPU-")
        || name.starts_with("MIG-")
}
