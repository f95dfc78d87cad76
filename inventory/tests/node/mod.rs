//! A node's GPUs with processes and MIG instances, and nothing else of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulet_inventory::gpu::{Gpu, MaxClocks, PcieMax};
use gpulet_inventory::mig::{
    ComputeInstance, ComputeInstanceId, GpuInstance, GpuInstanceId, MigMode, MigState, Placement,
};
use gpulet_inventory::process::{GpuProcess, ProcessKind};
use gpulet_inventory::reading::{Answer, Cause, Reading};
use gpulet_inventory::sample::{Clocks, ClocksHeld, Ecc, Pcie, Power, Sample, Temperature, Utilization};
use gpulet_inventory::snapshot::{Condition, Driver, DriverDown, GpuState, NodeGpus};

const NO: Answer = Answer { call: "nvmlDeviceGetMigMode", cause: Cause::Code(3) };

fn no<T>() -> Reading<T> {
    Reading::Unsupported(NO)
}

pub(crate) fn uuid(index: u32) -> String {
    format!("GPU-00000000-0000-0000-0000-{index:012x}")
}

pub(crate) fn mig_uuid(index: u32, instance: u32) -> String {
    format!("MIG-00000000-0000-0000-{index:04x}-{instance:012x}")
}

/// GPUs with their processes; the minor numbers run the other way round.
pub(crate) fn node(gpus: Vec<Sample>) -> NodeGpus {
    let last = u32::try_from(gpus.len()).unwrap();
    let driver =
        Driver::Down(DriverDown { reason: "NotOpen", message: String::new(), remedy: String::new() });
    let gpus = (0..).zip(gpus).map(|(index, sample)| state(index, last - 1 - index, sample)).collect();
    NodeGpus { driver, gpus, unlisted: Vec::new(), calls: Default::default() }
}

#[allow(clippy::disallowed_methods, reason = "the snapshot carries an instant that nobody looks at")]
fn state(index: u32, minor: u32, sample: Sample) -> GpuState {
    let gpu = Gpu {
        index,
        uuid: uuid(index).parse().unwrap(),
        pci: format!("0000:{:02x}:00.0", index + 3).parse().unwrap(),
        minor: Reading::Supported(minor),
        name: no(),
        serial: no(),
        vbios: no(),
        architecture: no(),
        compute_capability: no(),
        pcie_max: PcieMax { generation: no(), width: no() },
        max_clock: MaxClocks { graphics: no(), sm: no(), memory: no(), video: no() },
    };
    GpuState {
        gpu: Arc::new(gpu),
        condition: Condition::Up,
        sample: Some(Arc::new(sample)),
        sampled: Instant::now(),
        took: Duration::ZERO,
        xids: Reading::Supported(BTreeMap::new()),
    }
}

pub(crate) fn process(pid: u32, instance: Option<(u32, u32)>) -> GpuProcess {
    GpuProcess {
        pid,
        kind: ProcessKind::Compute,
        memory_bytes: Some(u64::from(pid) << 20),
        gpu_instance: instance.map(|(gpu, _)| GpuInstanceId(gpu)),
        compute_instance: instance.map(|(_, compute)| ComputeInstanceId(compute)),
    }
}

/// A GPU instance of profile 19 with as many compute instances.
pub(crate) fn instance(gpu: u32, id: u32, start: u32, computes: u32) -> GpuInstance {
    let compute = |number| ComputeInstance {
        id: ComputeInstanceId(number),
        profile_id: 0,
        uuid: Some(mig_uuid(gpu, id * 8 + number)),
    };
    GpuInstance {
        id: GpuInstanceId(id),
        profile_id: 19,
        placement: Placement { start, size: 1 },
        compute_instances: (0..computes).map(compute).collect(),
    }
}

/// What is read of a GPU with these processes and, in MIG mode, these instances.
pub(crate) fn gpu(processes: Vec<GpuProcess>, instances: Option<Vec<GpuInstance>>) -> Sample {
    let mig = instances.map(|instances| MigState {
        mode: MigMode { current: true, pending: true },
        profiles: no(),
        instances: Reading::Supported(instances),
    });
    Sample {
        utilization: Utilization {
            gpu: no(),
            memory: no(),
            encoder: no(),
            decoder: no(),
            jpeg: no(),
            ofa: no(),
        },
        memory: no(),
        bar1: no(),
        power: Power { usage: no(), instant: no(), limit: no(), energy: no() },
        temperature: Temperature { gpu: no(), memory: no() },
        clock: Clocks {
            graphics: no(),
            sm: no(),
            memory: no(),
            video: no(),
            event_reasons: no(),
            held: ClocksHeld {
                power_cap: no(),
                sync_boost: no(),
                sw_thermal: no(),
                hw_thermal: no(),
                hw_power_brake: no(),
            },
        },
        pcie: Pcie {
            generation: no(),
            width: no(),
            replays: no(),
            transmitted_bytes: no(),
            received_bytes: no(),
        },
        nvlinks: no(),
        ecc: Ecc {
            enabled: no(),
            volatile_corrected: no(),
            volatile_uncorrected: no(),
            aggregate_corrected: no(),
            aggregate_uncorrected: no(),
        },
        remapped_rows: no(),
        processes: Reading::Supported(processes),
        mig: mig.map_or_else(no, Reading::Supported),
        performance_state: no(),
        recovery_action: no(),
        fabric: no(),
    }
}
