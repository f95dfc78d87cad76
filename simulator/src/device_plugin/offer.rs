//! Which devices a node offers, under which names, and where they are.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::host_tree::capability_nodes;
use crate::kubelet::Device;
use crate::state::{GpuState, MigState, NodeState};

/// Devices by resource.
pub type Offer = BTreeMap<String, Vec<Device>>;

/// How GPUs become devices, as NVIDIA's plugin has it, and what else does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naming {
    /// The resource of whole GPUs.
    pub resource: String,
    /// Time slicing: each device is offered as often, as `ID::0` and so on; 1 is as it is.
    pub replicas: u32,
    /// What GPUs in MIG mode are offered as.
    pub mig: MigStrategy,
    /// NUMA nodes to tell in place of the true ones, by GPU index: for a machine that has other NUMA nodes than the
    /// simulated one. The last one goes for all that follow.
    pub numa: Vec<i64>,
    /// The resource as which RDMA devices are offered; none unless given.
    pub nics: Option<String>,
}

/// What GPUs in MIG mode are offered as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MigStrategy {
    /// As whole GPUs.
    #[default]
    None,
    /// Each MIG device as a GPU.
    Single,
    /// Each MIG device as `nvidia.com/mig-PROFILE`.
    Mixed,
}

impl Default for Naming {
    fn default() -> Self {
        Self {
            resource: "nvidia.com/gpu".to_owned(),
            replicas: 1,
            mig: MigStrategy::None,
            numa: Vec::new(),
            nics: None,
        }
    }
}

/// Why it cannot be told what a node offers.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {}: is this the host tree of a simulated node?", .path.display())]
pub struct OfferError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

impl OfferError {
    /// The stable word for this error.
    pub fn reason(&self) -> &'static str {
        "UnreadableHostTree"
    }
}

/// What a node offers now. Where its devices are is the kernel's word in its host tree.
///
/// # Errors
/// A host tree that cannot be read.
pub fn offer(state: &NodeState, host_root: &Path, naming: &Naming) -> Result<Offer, OfferError> {
    let mut offer = Offer::from([(naming.resource.clone(), Vec::new())]);
    for (index, gpu) in state.gpus.iter().filter(|gpu| gpu.bound).enumerate() {
        let numa = match naming.numa.get(index).or(naming.numa.last()) {
            Some(node) => Some(*node),
            None => numa_node(&host_root.join("sys/bus/pci/devices").join(address(gpu)))?,
        };
        // Without a driver nothing is healthy.
        let healthy = state.driver.loaded && gpu.is_reachable();
        let mut add = |resource: String, id: &str| {
            let devices = offer.entry(resource).or_default();
            let device = |id| Device { id, numa: numa.map(|node| vec![node]), healthy };
            devices.extend(replicas(id, naming.replicas).map(device));
        };
        let divided = gpu.mig.as_ref().filter(|mig| mig.mode.0 && naming.mig != MigStrategy::None);
        match divided {
            None => add(naming.resource.clone(), &gpu.identity.uuid),
            Some(mig) => mig_devices(mig).for_each(|(profile, uuid)| match naming.mig {
                MigStrategy::Mixed => add(format!("nvidia.com/mig-{}", resource_part(&profile)), uuid),
                _ => add(naming.resource.clone(), uuid),
            }),
        }
    }
    if let Some(resource) = &naming.nics {
        offer.insert(resource.clone(), nics(host_root)?);
    }
    Ok(offer)
}

fn replicas(id: &str, count: u32) -> impl Iterator<Item = String> {
    let plain = (count <= 1).then(|| id.to_owned());
    let numbered = (0..count).filter(move |_| count > 1).map(move |number| format!("{id}::{number}"));
    plain.into_iter().chain(numbered)
}

/// The driver's name of the device behind a replica.
pub(super) fn without_replica(id: &str) -> &str {
    id.split_once("::").map_or(id, |(device, _)| device)
}

/// The device files of each GPU and MIG device, named as in `/dev`, by the device's name. A MIG device has its GPU's and
/// those of its capabilities.
pub(super) fn files(state: &NodeState) -> BTreeMap<String, Vec<String>> {
    let of_gpu = |gpu: &GpuState| {
        let minor = gpu.identity.minor;
        let whole = format!("nvidia{minor}");
        let divided = gpu.mig.iter().flat_map(|mig| &mig.instances).flat_map(|instance| {
            instance.compute.iter().map(|compute| (instance.id, compute.id, compute.uuid.clone()))
        });
        let files = |(gi, ci, uuid): (u32, u32, String)| {
            let capabilities = capability_nodes(minor, gi, Some(ci));
            let names = capabilities.map(|node| node.trim_start_matches("dev/").to_owned());
            (uuid, std::iter::once(whole.clone()).chain(names).collect())
        };
        let mut all: Vec<(String, Vec<String>)> = divided.map(files).collect();
        all.push((gpu.identity.uuid.clone(), vec![whole.clone()]));
        all
    };
    state.gpus.iter().flat_map(of_gpu).collect()
}

/// Profile and UUID of each MIG device.
fn mig_devices(mig: &MigState) -> impl Iterator<Item = (String, &str)> {
    mig.instances.iter().flat_map(move |instance| {
        let profile = mig.profiles.get(&instance.profile);
        instance.compute.iter().map(move |compute| {
            let whole = profile.map(|profile| profile.name.clone()).unwrap_or_default();
            // A compute instance of the whole GPU instance goes by the GPU instance's profile.
            let part = profile.and_then(|profile| {
                let of = profile.compute.get(&compute.profile)?;
                (of.slices < profile.slices).then(|| of.name.clone())
            });
            (part.unwrap_or(whole), compute.uuid.as_str())
        })
    })
}

/// A profile's name as part of a resource's name: `1g.10gb+me` is `1g.10gb.me`.
fn resource_part(profile: &str) -> String {
    profile.replace('+', ".")
}

fn address(gpu: &GpuState) -> String {
    let identity = &gpu.identity;
    format!("{:04x}:{:02x}:{:02x}.0", identity.pci_domain, identity.pci_bus, identity.pci_device)
}

/// A device's NUMA node, unless the firmware does not tell.
fn numa_node(device: &Path) -> Result<Option<i64>, OfferError> {
    let path = device.join("numa_node");
    let text = std::fs::read_to_string(&path).map_err(|source| OfferError { path: path.clone(), source })?;
    let node = text
        .trim()
        .parse::<i64>()
        .map_err(|error| OfferError { path, source: io::Error::new(io::ErrorKind::InvalidData, error) })?;
    Ok((node >= 0).then_some(node))
}

/// RDMA devices by name.
fn nics(host_root: &Path) -> Result<Vec<Device>, OfferError> {
    let class = host_root.join("sys/class/infiniband");
    let failed = |source| OfferError { path: class.clone(), source };
    let mut devices = Vec::new();
    for entry in std::fs::read_dir(&class).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let numa = numa_node(&entry.path().join("device"))?;
        let id = entry.file_name().to_string_lossy().into_owned();
        devices.push(Device { id, numa: numa.map(|node| vec![node]), healthy: true });
    }
    devices.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(devices)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClockMode, SimulatedNode};

    fn offered(node: &str, naming: &Naming) -> Offer {
        let dir = tempfile::tempdir().unwrap();
        let node = SimulatedNode::start(node, dir.path(), ClockMode::Stepped).unwrap();
        offer(&node.state(), &node.host_root(), naming).unwrap()
    }

    #[test]
    fn gpus_are_offered_by_uuid_with_the_kernels_numa_nodes() {
        let offer = offered("dgx-h100", &Naming::default());
        let gpus = &offer["nvidia.com/gpu"];
        assert_eq!(gpus.len(), 8);
        assert!(gpus.iter().all(|gpu| gpu.id.starts_with("GPU-") && gpu.healthy));
        let nodes: Vec<_> = gpus.iter().map(|gpu| gpu.numa.as_ref().unwrap()[0]).collect();
        assert_eq!(nodes, [0, 0, 0, 0, 1, 1, 1, 1]);
    }

    #[test]
    fn a_gpu_of_which_the_firmware_tells_nothing_has_no_numa_node() {
        let offer = offered("consumer-numa-unknown", &Naming::default());
        assert!(offer["nvidia.com/gpu"].iter().all(|gpu| gpu.numa.is_none()));
    }

    #[test]
    fn mig_devices_are_offered_by_profile_with_the_files_of_their_capabilities() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("divided.yaml");
        let description = "\
about: A GPU in two halves
driver: 580.105.08
cpu: {model: CPU, packages: 1, cores-per-package: 2, threads-per-core: 1}
numa: [{id: 0, cpus: '0-1', memory: 8GiB, distances: [10]}]
pci:
- root: 0000:10
  numa: 0
  devices:
  - bridge: {at: 10:01.0, devices: [gpu: {at: 11:00.0, board: h100-sxm-80gb,
      mig: {instances: [{profile: 3g.40gb, start: 0}, {profile: 3g.40gb, start: 4}]}}]}
";
        std::fs::write(&path, description).unwrap();
        let node = SimulatedNode::start(path.to_str().unwrap(), &dir.path().join("node"), ClockMode::Stepped)
            .unwrap();
        let naming = Naming { mig: MigStrategy::Mixed, ..Naming::default() };
        let offer = offer(&node.state(), &node.host_root(), &naming).unwrap();
        assert!(offer["nvidia.com/gpu"].is_empty());
        let halves = &offer["nvidia.com/mig-3g.40gb"];
        assert!(halves.len() == 2 && halves.iter().all(|half| half.id.starts_with("MIG-") && half.healthy));
        let files = files(&node.state());
        let of = |half: &Device| files[&half.id].clone();
        assert!(of(&halves[0]).len() == 3 && of(&halves[0])[1].starts_with("nvidia-caps/nvidia-cap"));
        assert_ne!(of(&halves[0]), of(&halves[1]));
    }

    #[test]
    fn replicas_other_numa_nodes_and_nics_can_be_asked_for() {
        let naming = Naming {
            replicas: 2,
            numa: vec![0, 1],
            nics: Some("example.com/rdma".to_owned()),
            ..Naming::default()
        };
        let offer = offered("dgx-h100", &naming);
        let gpus = &offer["nvidia.com/gpu"];
        assert_eq!(gpus.len(), 16);
        assert!(gpus[1].id.ends_with("::1") && gpus[1].numa == Some(vec![0]));
        assert_eq!(gpus[15].numa, Some(vec![1]));
        assert_eq!(without_replica(&gpus[1].id), without_replica(&gpus[0].id));
        assert!(offer["example.com/rdma"].iter().any(|nic| nic.id == "mlx5_0"));
    }
}
