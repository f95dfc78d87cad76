//! GPUs as a snapshot has them: one that answers, one that is lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulet_inventory::gpu::{Gpu, MaxClocks, PcieMax};
use gpulet_inventory::link::NvLink;
use gpulet_inventory::reading::Reading;
use gpulet_inventory::sample::{
    Clocks, ClocksHeld, Ecc, Fabric, Pcie, Power, Sample, Temperature, Utilization,
};
use gpulet_inventory::snapshot::{Condition, DownReason, GpuState};

use super::machine::{LOST, UNSUPPORTED};

fn no<T>() -> Reading<T> {
    Reading::Unsupported(UNSUPPORTED)
}

pub fn of_two(links: Vec<NvLink>, fabric: Fabric) -> [GpuState; 2] {
    let up = state(0, Condition::Up, Some(sample(links, fabric)));
    [up, state(1, Condition::Down(DownReason::Lost(LOST)), None)]
}

#[allow(clippy::disallowed_methods, reason = "the snapshot carries an instant that nobody looks at")]
fn state(index: u32, condition: Condition, sample: Option<Sample>) -> GpuState {
    let name = if sample.is_some() { Reading::Supported("NVIDIA H100".to_owned()) } else { no() };
    let gpu = Gpu {
        index,
        uuid: format!("GPU-00000000-0000-0000-0000-{index:012x}").parse().unwrap(),
        pci: format!("0000:{:02x}:00.0", index + 3).parse().unwrap(),
        minor: no(),
        name,
        serial: no(),
        vbios: no(),
        architecture: no(),
        compute_capability: no(),
        pcie_max: PcieMax { generation: no(), width: no() },
        max_clock: MaxClocks { graphics: no(), sm: no(), memory: no(), video: no() },
    };
    GpuState {
        gpu: Arc::new(gpu),
        condition,
        sample: sample.map(Arc::new),
        sampled: Instant::now(),
        took: Duration::ZERO,
        xids: Reading::Supported(BTreeMap::new()),
    }
}

fn sample(links: Vec<NvLink>, fabric: Fabric) -> Sample {
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
        nvlinks: Reading::Supported(links),
        ecc: Ecc {
            enabled: no(),
            volatile_corrected: no(),
            volatile_uncorrected: no(),
            aggregate_corrected: no(),
            aggregate_uncorrected: no(),
        },
        remapped_rows: no(),
        processes: no(),
        mig: no(),
        performance_state: no(),
        recovery_action: no(),
        fabric: Reading::Supported(fabric),
    }
}
