//! The node as JSON. Its shape is stable: keys may be added, and are not renamed or taken away.
//!
//! What is not known is `null`. Addresses are written as sysfs writes them, CPU lists as the kernel writes them,
//! memory in bytes.
//!
//! ```text
//! taken_unix_seconds   when this was true
//! driver               up, reason, message, remedy (while it is down);
//!                      version, nvml_version, cuda_version, library (while it is up)
//! topology             what `gpulet topo -o json` prints: numa_nodes[], gpus[], nics[], pcie_switches[], nvswitches[],
//!                      pairs[], nvlink_islands[], clique, oddities[], findings[]
//! free_sets            the largest sets of free GPUs: numa_node, pcie_switch, nvlink_island; positions in topology.gpus
//! numa_nodes[]         id, cpus, memory_bytes, distances[] (to the nodes of this list, in its order)
//! pci_gpus[]           NVIDIA GPUs that the kernel sees: pci_bus_id, numa_node, kernel_driver
//! gpus[]               GPUs that the driver knows: index, uuid, pci_bus_id, minor, model, serial, vbios, architecture,
//!                      compute_capability, numa_node, up, reason, call, since_seconds, age_seconds, memory_bytes, and
//!   pcie               generation, max_generation, width, max_width
//!   nvlinks[]          link, up, version, remote, remote_pci_bus_id; null where the driver did not say
//!   mig                enabled, pending, instances[]: id, profile_id, profile, start, size,
//!                      compute_instances[]: id, profile_id, uuid; null where the GPU has no MIG
//!   processes[]        pid, kind, memory_bytes, gpu_instance, compute_instance; null where the driver did not say
//! unlisted_gpus[]      GPUs that the driver counts and that have not said which they are: index, pci_bus_id, reason,
//!                      call (the one that hangs or was refused), since_seconds (how long it has hung)
//! ```

use gpulet_inventory::gpu::{Architecture, Gpu};
use gpulet_inventory::link::{NvLink, NvLinkVersion, RemoteKind};
use gpulet_inventory::mig::{ComputeInstance, GpuInstance, MigProfile, MigState};
use gpulet_inventory::numa::{NumaNode, NumaNodeId};
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::process::GpuProcess;
use gpulet_inventory::sample::Sample;
use gpulet_inventory::snapshot::{Condition, DownReason, Driver, GpuState, Snapshot, UnlistedGpu};
use gpulet_inventory::topology::{LargestFreeSets, NodeTopology, PlacedGpu, SeenBy};
use serde::Serialize;

/// The page's body.
pub(super) fn json(snapshot: &Snapshot) -> serde_json::Result<Vec<u8>> {
    let mut json = serde_json::to_vec_pretty(&Node::new(snapshot))?;
    json.push(b'\n');
    Ok(json)
}

#[derive(Serialize)]
struct Node<'a> {
    taken_unix_seconds: f64,
    driver: DriverView<'a>,
    topology: &'a NodeTopology,
    free_sets: &'a LargestFreeSets,
    numa_nodes: Vec<&'a NumaNode>,
    pci_gpus: Vec<PlaceView<'a>>,
    gpus: Vec<GpuView<'a>>,
    unlisted_gpus: Vec<UnlistedView>,
}

impl<'a> Node<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let topology = &*snapshot.topology.value;
        Self {
            taken_unix_seconds: snapshot.taken_unix.as_secs_f64(),
            driver: DriverView::new(&snapshot.gpus.value.driver),
            topology,
            free_sets: &snapshot.free_sets,
            numa_nodes: topology.model.numa_nodes.iter().map(|area| &area.node).collect(),
            pci_gpus: topology.model.gpus.iter().filter_map(PlaceView::new).collect(),
            gpus: snapshot.gpus.value.gpus.iter().map(|state| GpuView::new(snapshot, state)).collect(),
            unlisted_gpus: snapshot.gpus.value.unlisted.iter().map(UnlistedView::new).collect(),
        }
    }
}

#[derive(Default, Serialize)]
struct DriverView<'a> {
    up: bool,
    reason: Option<&'a str>,
    message: Option<&'a str>,
    remedy: Option<&'a str>,
    version: Option<&'a str>,
    nvml_version: Option<&'a str>,
    cuda_version: Option<&'a str>,
    library: Option<&'a str>,
}

impl<'a> DriverView<'a> {
    fn new(driver: &'a Driver) -> Self {
        match driver {
            Driver::Up(info) => Self {
                up: true,
                version: Some(&info.driver_version),
                nvml_version: Some(&info.nvml_version),
                cuda_version: info.cuda_version.as_deref(),
                library: Some(&info.library),
                ..Self::default()
            },
            Driver::Down(down) => Self {
                reason: Some(down.reason),
                message: Some(&down.message),
                remedy: Some(&down.remedy),
                ..Self::default()
            },
        }
    }
}

#[derive(Serialize)]
struct PlaceView<'a> {
    pci_bus_id: PciAddress,
    numa_node: Option<NumaNodeId>,
    kernel_driver: Option<&'a str>,
}

impl<'a> PlaceView<'a> {
    /// Absent for a GPU that the kernel does not see.
    fn new(gpu: &'a PlacedGpu) -> Option<Self> {
        let kernel_driver = gpu.kernel_driver.as_deref();
        let view = Self { pci_bus_id: gpu.place.pci, numa_node: gpu.place.numa.node, kernel_driver };
        (gpu.seen_by != SeenBy::Driver).then_some(view)
    }
}

#[derive(Serialize)]
struct GpuView<'a> {
    index: u32,
    uuid: &'a str,
    pci_bus_id: PciAddress,
    minor: Option<u32>,
    model: Option<&'a str>,
    serial: Option<&'a str>,
    vbios: Option<&'a str>,
    architecture: Option<&'static str>,
    compute_capability: Option<String>,
    numa_node: Option<NumaNodeId>,
    up: bool,
    reason: Option<&'static str>,
    #[serde(flatten)]
    silence: Silence,
    age_seconds: f64,
    memory_bytes: Option<u64>,
    pcie: PcieView,
    nvlinks: Option<Vec<LinkView>>,
    mig: Option<MigView<'a>>,
    processes: Option<&'a [GpuProcess]>,
}

impl<'a> GpuView<'a> {
    fn new(snapshot: &'a Snapshot, state: &'a GpuState) -> Self {
        let gpu = &*state.gpu;
        let sample = state.sample.as_deref();
        let nvlinks = sample.and_then(|sample| sample.nvlinks.value());
        Self {
            index: gpu.index,
            uuid: gpu.uuid.as_str(),
            pci_bus_id: gpu.pci,
            minor: gpu.minor.value().copied(),
            model: gpu.name.value().map(String::as_str),
            serial: gpu.serial.value().map(String::as_str),
            vbios: gpu.vbios.value().map(String::as_str),
            architecture: gpu.architecture.value().copied().map(Architecture::as_str),
            compute_capability: gpu
                .compute_capability
                .value()
                .map(|(major, minor)| format!("{major}.{minor}")),
            numa_node: snapshot.topology.value.model.numa_node_of(gpu.pci),
            up: state.condition == Condition::Up,
            reason: snapshot.gpus.value.down_reason(state.condition),
            silence: Silence::new(state.condition),
            age_seconds: snapshot.taken.saturating_duration_since(state.sampled).as_secs_f64(),
            memory_bytes: sample.and_then(|sample| sample.memory.value()).map(|memory| memory.total),
            pcie: PcieView::new(gpu, sample),
            nvlinks: nvlinks.map(|links| links.iter().map(LinkView::new).collect()),
            mig: sample.and_then(|sample| sample.mig.value()).map(MigView::new),
            processes: sample.and_then(|sample| sample.processes.value()).map(Vec::as_slice),
        }
    }
}

/// Which call a GPU that is down did not answer, and for how long.
#[derive(Default, Serialize)]
struct Silence {
    call: Option<&'static str>,
    since_seconds: Option<f64>,
}

impl Silence {
    fn new(condition: Condition) -> Self {
        match condition {
            Condition::Up => Self::default(),
            Condition::Down(DownReason::Unresponsive { call, since }) => {
                Self { call: Some(call), since_seconds: Some(since.as_secs_f64()) }
            }
            Condition::Down(reason) => Self { call: reason.call(), since_seconds: None },
        }
    }
}

#[derive(Serialize)]
struct UnlistedView {
    index: u32,
    pci_bus_id: Option<PciAddress>,
    reason: &'static str,
    #[serde(flatten)]
    silence: Silence,
}

impl UnlistedView {
    fn new(gpu: &UnlistedGpu) -> Self {
        let silence = Silence::new(Condition::Down(gpu.reason));
        Self { index: gpu.index, pci_bus_id: gpu.pci, reason: gpu.reason.reason(), silence }
    }
}

#[derive(Serialize)]
struct PcieView {
    generation: Option<u32>,
    max_generation: Option<u32>,
    width: Option<u32>,
    max_width: Option<u32>,
}

impl PcieView {
    fn new(gpu: &Gpu, sample: Option<&Sample>) -> Self {
        Self {
            generation: sample.and_then(|sample| sample.pcie.generation.value()).copied(),
            max_generation: gpu.pcie_max.generation.value().copied(),
            width: sample.and_then(|sample| sample.pcie.width.value()).copied(),
            max_width: gpu.pcie_max.width.value().copied(),
        }
    }
}

#[derive(Serialize)]
struct LinkView {
    link: u32,
    up: bool,
    version: Option<String>,
    remote: Option<&'static str>,
    remote_pci_bus_id: Option<PciAddress>,
}

impl LinkView {
    fn new(link: &NvLink) -> Self {
        Self {
            link: link.link,
            up: link.active,
            version: link.version.value().map(|version| NvLinkVersion(*version).to_string()),
            remote: link.remote_kind.value().copied().map(RemoteKind::as_str),
            remote_pci_bus_id: link.remote_pci.value().copied(),
        }
    }
}

#[derive(Serialize)]
struct MigView<'a> {
    enabled: bool,
    pending: bool,
    instances: Option<Vec<InstanceView<'a>>>,
}

impl<'a> MigView<'a> {
    fn new(mig: &'a MigState) -> Self {
        let profiles: &[MigProfile] = mig.profiles.value().map(Vec::as_slice).unwrap_or_default();
        let instances = mig.instances.value();
        Self {
            enabled: mig.mode.current,
            pending: mig.mode.pending,
            instances: instances
                .map(|instances| instances.iter().map(|one| InstanceView::new(one, profiles)).collect()),
        }
    }
}

#[derive(Serialize)]
struct InstanceView<'a> {
    id: u32,
    profile_id: u32,
    profile: Option<&'a str>,
    start: u32,
    size: u32,
    compute_instances: &'a [ComputeInstance],
}

impl<'a> InstanceView<'a> {
    fn new(instance: &'a GpuInstance, profiles: &'a [MigProfile]) -> Self {
        let profile = profiles.iter().find(|profile| profile.id == instance.profile_id);
        Self {
            id: instance.id.0,
            profile_id: instance.profile_id,
            profile: profile.and_then(|profile| profile.name.as_deref()),
            start: instance.placement.start,
            size: instance.placement.size,
            compute_instances: &instance.compute_instances,
        }
    }
}
