//! A node's snapshot of any size, for benchmarks and for the exporter's tests.

#![allow(clippy::expect_used, reason = "only tests and benchmarks build on it")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulet_inventory::gpu::{Architecture, Gpu, MaxClocks, PcieMax};
use gpulet_inventory::holders::Holders;
use gpulet_inventory::host::{Host, PciDevice, PciKind, PciPath};
use gpulet_inventory::link::{NvLink, RemoteKind};
use gpulet_inventory::mig::{MigMode, MigProfile, MigState, Placement};
use gpulet_inventory::numa::{NumaNode, NumaNodeId};
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::process::{GpuProcess, ProcessKind};
use gpulet_inventory::reading::Reading::{self, Supported};
use gpulet_inventory::sample::{
    Bar1, Clocks, ClocksHeld, Ecc, Fabric, Memory, Pcie, Power, RemappedRows, Sample, Temperature,
    Utilization,
};
use gpulet_inventory::snapshot::{
    CallStats, Condition, Driver, DriverInfo, GpuState, NodeGpus, Part, ProcessStats, Snapshot,
};
use gpulet_inventory::topology::{Finding, FindingReason, NodeTopology, Severity};
use gpulet_topology::{GpuView, largest_free_sets};

const GIB: u64 = 1 << 30;

/// A node with `gpus` GPUs of `links` NVLinks each, on two NUMA nodes, where every value could be read. The same
/// arguments make the same values.
pub fn snapshot(gpus: usize, links: usize) -> Snapshot {
    let now = Instant::now();
    let (gpus, links) = (number(gpus), number(links));
    let states = (0..gpus).map(|index| state(index, links, now)).collect();
    let node = NodeGpus { driver: driver(), gpus: states, unlisted: Vec::new(), calls: calls() };
    let topology = topology(&node);
    let all: Vec<usize> = (0..node.gpus.len()).collect();
    let free_sets = largest_free_sets(&topology.model, &all);
    Snapshot {
        taken: now,
        taken_unix: Duration::from_millis(1_700_000_000_250),
        gpus: Part::new(node, now),
        topology: Part::new(topology, now),
        free_sets,
        holders: Part::new(Holders::default(), now),
        process: Part::new(process(), now),
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).expect("a node that fits into a machine")
}

/// The address of the GPU with this index.
fn address(index: u32) -> PciAddress {
    PciAddress {
        domain: index / 200,
        bus: u8::try_from(index % 200 + 0x18).unwrap_or(u8::MAX),
        device: 0,
        function: 0,
    }
}

fn driver() -> Driver {
    Driver::Up(DriverInfo {
        driver_version: "580.105.08".into(),
        nvml_version: "13.580.105.08".into(),
        cuda_version: Some("13.0".into()),
        library: "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1".into(),
        epoch: 1,
    })
}

fn calls() -> CallStats {
    let failed = BTreeMap::from([("nvmlDeviceGetPowerUsage", BTreeMap::from([("TIMEOUT", 2)]))]);
    let unsupported = BTreeMap::from([("nvmlDeviceGetJpgUtilization", BTreeMap::from([("NO_SYMBOL", 8)]))]);
    CallStats { made: 123_456, failed, unsupported, stuck_threads: 0, opens: 1 }
}

fn process() -> ProcessStats {
    ProcessStats {
        cpu_seconds: 12.34,
        resident_bytes: 15 << 20,
        virtual_bytes: 80 << 20,
        open_fds: 42,
        max_fds: 1024,
        threads: 12,
        start_time_seconds: 1_699_999_000.5,
    }
}

/// What the kernel says of such a node: each GPU on a root port of its own.
fn host(gpus: u32) -> Host {
    let node = |id: u32, distances: Vec<u32>| NumaNode {
        id: NumaNodeId(id),
        cpus: (id * 56..(id + 1) * 56).collect(),
        memory_bytes: Some(1024 * GIB),
        distances,
    };
    Host {
        numa_nodes: vec![node(0, vec![10, 21]), node(1, vec![21, 10])],
        pci: (0..gpus).map(|index| device(index, u32::from(index >= gpus / 2))).collect(),
        ..Host::default()
    }
}

fn device(index: u32, numa_node: u32) -> PciDevice {
    PciDevice {
        address: address(index),
        kind: PciKind::Gpu,
        vendor: 0x10de,
        device: 0x2330,
        path: PciPath { root: format!("pci0000:{index:02x}"), bridges: Vec::new() },
        numa_node: Some(NumaNodeId(numa_node)),
        local_cpus: None,
        link: None,
        driver: Some("nvidia".into()),
        physical_function: None,
        acs_redirects: None,
    }
}

fn topology(node: &NodeGpus) -> NodeTopology {
    let host = host(number(node.gpus.len()));
    let gpus = GpuView::of(node, &host);
    let finding = Finding {
        reason: FindingReason::NvlinkDegraded,
        severity: Severity::Fault,
        subject: "GPU0".into(),
        evidence: "3 NVLinks are up, expected are 4".into(),
        remedy: "look for Xid 74 in the kernel log".into(),
    };
    let model = gpulet_topology::build(&host, &gpus, None);
    NodeTopology { model, findings: vec![finding] }
}

fn state(index: u32, links: u32, now: Instant) -> GpuState {
    GpuState {
        gpu: Arc::new(gpu(index)),
        condition: Condition::Up,
        sample: Some(Arc::new(sample(index, links))),
        sampled: now,
        took: Duration::from_micros(1500 + u64::from(index)),
        xids: Reading::Supported(BTreeMap::from([(13, 2), (79, 1)])),
    }
}

fn gpu(index: u32) -> Gpu {
    Gpu {
        index,
        uuid: format!("GPU-8f6d2c3a-0000-1111-2222-{index:012x}").parse().expect("a UUID"),
        pci: address(index),
        minor: Supported(index),
        name: Supported("NVIDIA H100 80GB HBM3".into()),
        serial: Supported(format!("16536230{index:05}")),
        vbios: Supported("96.00.74.00.01".into()),
        architecture: Supported(Architecture::Hopper),
        compute_capability: Supported((9, 0)),
        pcie_max: PcieMax { generation: Supported(5), width: Supported(16) },
        max_clock: MaxClocks {
            graphics: Supported(1980),
            sm: Supported(1980),
            memory: Supported(2619),
            video: Supported(1545),
        },
    }
}

fn sample(index: u32, links: u32) -> Sample {
    let varied = u64::from(index) + 1;
    Sample {
        utilization: Utilization {
            gpu: Supported(93 - index % 90),
            memory: Supported(41),
            encoder: Supported(0),
            decoder: Supported(7),
            jpeg: Supported(0),
            ofa: Supported(0),
        },
        memory: Supported(Memory {
            total: 80 * GIB,
            used: 61 * GIB + varied,
            free: 18 * GIB - varied,
            reserved: Some(GIB),
        }),
        bar1: Supported(Bar1 { total: 128 * GIB, used: GIB }),
        power: power(index, varied),
        temperature: Temperature { gpu: Supported(40 + index % 30), memory: Supported(52) },
        clock: clock(varied),
        pcie: pcie(varied),
        nvlinks: Supported((0..links).map(|link| nvlink(index, link)).collect()),
        ecc: ecc(varied),
        remapped_rows: Supported(RemappedRows {
            correctable: 1,
            uncorrectable: 0,
            pending: false,
            failed: false,
        }),
        processes: Supported(vec![GpuProcess {
            pid: 4000 + index,
            kind: ProcessKind::Compute,
            memory_bytes: Some(60 * GIB),
            gpu_instance: None,
            compute_instance: None,
        }]),
        mig: Supported(mig()),
        performance_state: Supported(0),
        recovery_action: Supported(0),
        fabric: Supported(Fabric {
            state: 3,
            status: 0,
            clique_id: Some(0),
            cluster_uuid: Some("00000000000000000000000000000000".into()),
        }),
    }
}

fn power(index: u32, varied: u64) -> Power {
    Power {
        usage: Supported(612_345 + index),
        instant: Supported(655_001 + index),
        limit: Supported(700_000),
        energy: Supported(987_654_321_000 + varied),
    }
}

fn clock(varied: u64) -> Clocks {
    Clocks {
        graphics: Supported(1755),
        sm: Supported(1755),
        memory: Supported(2619),
        video: Supported(1365),
        event_reasons: Supported(0x4),
        held: ClocksHeld {
            power_cap: Supported(123_456_789_012 * varied),
            sync_boost: Supported(0),
            sw_thermal: Supported(1_000_000),
            hw_thermal: Supported(0),
            hw_power_brake: Supported(0),
        },
    }
}

fn pcie(varied: u64) -> Pcie {
    Pcie {
        generation: Supported(5),
        width: Supported(16),
        replays: Supported(3),
        transmitted_bytes: Supported(9_876_543_210 * varied),
        received_bytes: Supported(1_234_567_890 * varied),
    }
}

fn nvlink(index: u32, link: u32) -> NvLink {
    let bytes = u64::from(index * 32 + link + 1) * 77_777_777_777;
    NvLink {
        link,
        active: true,
        version: Supported(6),
        remote_kind: Supported(RemoteKind::Switch),
        remote_pci: Supported(PciAddress { domain: 0, bus: 0x05, device: 0, function: 0 }),
        transmitted_bytes: Supported(bytes),
        received_bytes: Supported(bytes / 2),
    }
}

fn ecc(varied: u64) -> Ecc {
    Ecc {
        enabled: Supported(true),
        volatile_corrected: Supported(varied),
        volatile_uncorrected: Supported(0),
        aggregate_corrected: Supported(varied * 3),
        aggregate_uncorrected: Supported(1),
    }
}

fn mig() -> MigState {
    MigState {
        mode: MigMode { current: false, pending: false },
        profiles: Supported(vec![MigProfile {
            id: 19,
            name: Some("1g.10gb".into()),
            slices: 1,
            memory_bytes: 10 * GIB,
            multiprocessors: 16,
            max_instances: 7,
            placements: Supported((0..7).map(|start| Placement { start, size: 1 }).collect()),
        }]),
        instances: Reading::Supported(Vec::new()),
    }
}
