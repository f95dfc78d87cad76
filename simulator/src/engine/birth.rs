//! The state of a node when it starts, from its description.

use std::collections::BTreeMap;

use gpulet_inventory::numa::CpuSet;

use super::traffic::Wiring;
use super::{affinity, processes};
use crate::node::board::{self, Board};
use crate::node::description::{FabricProgress, MigDescription};
use crate::node::units::DriverVersion;
use crate::node::{Gpu, Node, mig};
use crate::state::{
    BoardState, ComputeInstanceState, Counters, DriverState, FabricState, FieldNumbers, Gauges, GpuIdentity,
    GpuInstanceState, GpuState, MigState, NodeState,
};
use crate::uuid::{mix, uuid};

/// All healthy: no degraded bandwidth, no route recovery, no unhealthy route, no access timeout, no wrong
/// configuration (`NVML_GPU_FABRIC_HEALTH_MASK_*`).
const HEALTHY_FABRIC: u32 = 0b10 | 0b10 << 2 | 0b10 << 4 | 0b10 << 6 | 0b1 << 8;

/// A node as it starts.
pub(super) fn state(node: &Node, clock_us: u64) -> NodeState {
    let version = node.description().driver.as_ref();
    let wiring = Wiring::of(node);
    NodeState {
        clock_us,
        driver: version.map_or_else(absent_driver, |version| driver(version, 1)),
        gpus: node
            .gpus()
            .iter()
            .enumerate()
            .map(|(index, gpu)| gpu_state(node, &wiring, index, gpu))
            .collect(),
        faults: Vec::new(),
        events: Vec::new(),
        virtual_machine: node.description().virtual_machine,
        boots: 1,
    }
}

fn absent_driver() -> DriverState {
    DriverState {
        loaded: false,
        load: 0,
        version: String::new(),
        nvml_version: String::new(),
        cuda_version: 0,
        missing_symbols: Vec::new(),
        fields: FieldNumbers::default(),
        no_permission: false,
        modeset: false,
    }
}

/// A driver that has just been loaded.
pub(super) fn driver(version: &DriverVersion, load: u64) -> DriverState {
    DriverState {
        loaded: true,
        load,
        version: version.as_str().to_owned(),
        nvml_version: version.nvml(),
        cuda_version: version.cuda(),
        missing_symbols: version.missing_symbols(),
        fields: version.fields(),
        no_permission: false,
        modeset: false,
    }
}

fn gpu_state(node: &Node, wiring: &Wiring, index: usize, gpu: &Gpu) -> GpuState {
    let identity = identity(node, index, gpu);
    let mut state = GpuState {
        board: board_state(gpu),
        lost: false,
        bound: true,
        now: gauges(gpu),
        count: Counters::default(),
        nvlinks: wiring.links(index),
        processes: Vec::new(),
        observers: Vec::new(),
        changing_calls: 0,
        resets: 0,
        mig: gpu.board.mig.as_ref().map(|board| {
            let version = node.description().driver.as_ref();
            let profiles = version.map_or_else(BTreeMap::new, |version| mig::profiles(board, version));
            match &gpu.description.mig {
                None => MigState { profiles, ..MigState::default() },
                Some(wanted) => {
                    let instances = instances(board, wanted, &identity.uuid);
                    MigState { mode: (true, true), profiles, instances }
                }
            }
        }),
        fabric: gpu.board.fabric.then(|| fabric(node)),
        identity,
    };
    processes::recount(&mut state);
    state
}

fn identity(node: &Node, index: usize, gpu: &Gpu) -> GpuIdentity {
    let at = gpu.description.at;
    let text = format!("{}/{at}", node.name());
    let key = text.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)));
    GpuIdentity {
        uuid: format!("GPU-{}", uuid(&text)),
        pci_domain: at.domain,
        pci_bus: u32::from(at.bus),
        pci_device: u32::from(at.device),
        pci_device_id: gpu.board.pci_device_id(),
        pci_subsystem_id: gpu.board.pci_subsystem_id(),
        minor: gpu.minor,
        serial: gpu.board.serial.then(|| board::serial_number(key, at)),
        module_id: gpu.description.module,
        cpu_affinity: mask(affinity::cpus(node, gpu)),
        memory_affinity: mask(affinity::numa_nodes(node, gpu)),
        memory_numa_node: gpu.description.memory_nodes.iter().next(),
        told_levels: affinity::told_levels(node, index),
    }
}

fn mask(bits: CpuSet) -> Vec<u64> {
    let mut words: Vec<u64> = Vec::new();
    for bit in bits.iter() {
        let word = usize::try_from(bit / 64).unwrap_or(0);
        words.resize(words.len().max(word + 1), 0);
        if let Some(word) = words.get_mut(word) {
            *word |= 1 << (bit % 64);
        }
    }
    words
}

fn board_state(gpu: &Gpu) -> BoardState {
    let board = &gpu.board;
    let (generation, width) = gpu.function.path_max;
    BoardState {
        name: board.name.clone(),
        brand: board.brand_number(),
        architecture: board.architecture_number(),
        compute_capability: board.compute_capability,
        vbios: board.firmware.vbios.clone(),
        inforom: board.firmware.inforom.clone(),
        part_number: board.firmware.part_number.clone(),
        memory_bytes: board.memory.total.0,
        reserved_bytes: board.memory.reserved.0,
        bar1_bytes: board.memory.bar1.0,
        memory_bus_bits: board.memory.bus_bits,
        cores: board.cores,
        multiprocessors: board.multiprocessors,
        pcie_max_generation: generation,
        pcie_gpu_max_generation: board.pcie.generation,
        pcie_max_width: width,
        max_clocks_mhz: board.max_clocks_mhz,
        power_limit_mw: milli(board.power.limit),
        power_limit_range_mw: (milli(board.power.min_limit), milli(board.power.max_limit)),
        shutdown_c: board.temperature.shutdown,
        slowdown_c: board.temperature.slowdown,
        memory_temperature: board.memory.temperature,
        ecc: board.memory.ecc,
        ecc_default: board.memory.ecc_default,
        row_remapping: board.row_remapping,
        nvlink_version: board.nvlink.as_ref().map_or(0, |nvlink| nvlink.version),
        nvlink_link_mbps: board.nvlink.as_ref().map_or(0, |nvlink| nvlink.link_mbps),
        c2c_links: board.c2c.as_ref().map_or(0, |c2c| c2c.links),
        c2c_link_mbps: board.c2c.as_ref().map_or(0, |c2c| c2c.link_mbps),
        gpm: board.gpm,
        jpeg_engines: board.jpeg_engines,
        ofa_engines: board.ofa_engines,
        fans: board.fans,
        resetless_mig: board.mig.as_ref().is_some_and(|mig| mig.resetless),
        display: board.display,
    }
}

/// Thousandths.
pub(super) fn milli(units: u32) -> u32 {
    units.saturating_mul(1000)
}

/// Gauges of a GPU that has just been reset.
pub(super) fn gauges(gpu: &Gpu) -> Gauges {
    let board: &Board = &gpu.board;
    let ecc = board.memory.ecc && board.memory.ecc_default;
    Gauges {
        power_limit_mw: milli(board.power.limit),
        clocks_mhz: board.idle.clocks_mhz,
        pcie_generation: gpu.function.link.generation.min(board.idle.pcie_generation),
        pcie_width: gpu.function.link.width,
        performance_state: board.idle.performance_state,
        ecc_mode: (ecc, ecc),
        persistence: true,
        ..Gauges::default()
    }
}

fn fabric(node: &Node) -> FabricState {
    let Some(described) = &node.description().fabric else { return FabricState::default() };
    let (state, health_mask) = match described.state {
        FabricProgress::NotStarted => (1, 0),
        FabricProgress::InProgress => (2, 0),
        FabricProgress::Completed => (3, HEALTHY_FABRIC),
    };
    let cluster_uuid = described.cluster_uuid.0;
    FabricState { state, status: 0, clique_id: described.clique, cluster_uuid, health_mask }
}

fn instances(board: &board::Mig, wanted: &MigDescription, gpu_uuid: &str) -> Vec<GpuInstanceState> {
    let mut instances = Vec::new();
    for instance in &wanted.instances {
        let Some(profile) = board.profiles.iter().find(|profile| profile.name == instance.profile) else {
            continue;
        };
        let id = instance_id(board.slices, profile.size, instance.start);
        let sizes = instance.compute.clone().unwrap_or_else(|| vec![profile.slices]);
        let compute = mig::place_compute(board, profile, &sizes).unwrap_or_default();
        let compute = (0..).zip(compute).map(|(compute_id, (enumerator, placement))| ComputeInstanceState {
            id: compute_id,
            profile: enumerator,
            placement,
            uuid: format!("MIG-{}", uuid(&format!("{gpu_uuid}/{id}/{compute_id}"))),
        });
        instances.push(GpuInstanceState {
            id,
            profile: profile.enumerator,
            placement: (instance.start, profile.size),
            compute: compute.collect(),
            memory_used_bytes: 0,
        });
    }
    instances
}

/// The driver numbers instances like the nodes of a binary tree over the grid: the whole is 0, halves are 1 and
/// 2, quarters 3 to 6, eighths from 7.
pub(super) fn instance_id(slices: u32, size: u32, start: u32) -> u32 {
    let parts = slices / size.max(1);
    parts.saturating_sub(1) + start / size.max(1)
}
