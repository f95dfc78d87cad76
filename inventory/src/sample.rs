//! Everything read from one GPU at one instant.
//!
//! Values are in the driver's own integers and units, stated at each field; whoever shows them converts.

use serde::{Deserialize, Serialize};

use crate::link::NvLink;
use crate::mig::MigState;
use crate::process::GpuProcess;
use crate::reading::Reading;

/// One GPU's readings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// How busy its engines were.
    pub utilization: Utilization,
    /// Its memory.
    pub memory: Reading<Memory>,
    /// Bytes used and in all of the window through which the CPU sees its memory.
    pub bar1: Reading<Bar1>,
    /// Power and energy.
    pub power: Power,
    /// Temperatures.
    pub temperature: Temperature,
    /// Clocks.
    pub clock: Clocks,
    /// The PCIe link.
    pub pcie: Pcie,
    /// Its NVLinks, by number; empty where the GPU has none.
    pub nvlinks: Reading<Vec<NvLink>>,
    /// Memory errors.
    pub ecc: Ecc,
    /// Row remapping (Ampere and later).
    pub remapped_rows: Reading<RemappedRows>,
    /// Processes that hold it.
    pub processes: Reading<Vec<GpuProcess>>,
    /// MIG.
    pub mig: Reading<MigState>,
    /// Performance state, 0 (fastest) to 15.
    pub performance_state: Reading<u32>,
    /// What the driver says must be done about it.
    pub recovery_action: Reading<u32>,
    /// NVSwitch fabric registration.
    pub fabric: Reading<Fabric>,
}

/// How busy the engines were over the driver's own window (1/6 s to 1 s by product), percent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Utilization {
    /// Share of time with a kernel running, percent (`nvmlDeviceGetUtilizationRates.gpu`).
    pub gpu: Reading<u32>,
    /// Share of time in which memory was read or written, percent (`nvmlDeviceGetUtilizationRates.memory`).
    pub memory: Reading<u32>,
    /// Video encoders, percent.
    pub encoder: Reading<u32>,
    /// Video decoders, percent.
    pub decoder: Reading<u32>,
    /// JPEG engines, percent.
    pub jpeg: Reading<u32>,
    /// Optical flow accelerators, percent.
    pub ofa: Reading<u32>,
}

/// GPU memory, bytes (`nvmlDeviceGetMemoryInfo_v2`; with a driver older than 510 `reserved` is part of `used`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// All of it, bytes.
    pub total: u64,
    /// Held by processes, bytes.
    pub used: u64,
    /// Left, bytes.
    pub free: u64,
    /// Held by driver and firmware, bytes; absent with a driver that does not tell it apart.
    pub reserved: Option<u64>,
}

/// The BAR1 window, bytes (`nvmlDeviceGetBAR1MemoryInfo`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bar1 {
    /// Its size, bytes.
    pub total: u64,
    /// In use, bytes.
    pub used: u64,
}

/// Power and energy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Power {
    /// Draw of the board as `nvmlDeviceGetPowerUsage` gives it, milliwatts: a 1 s average on Ampere (except GA100)
    /// and later, the instant before.
    pub usage: Reading<u32>,
    /// Draw at this instant, milliwatts (`NVML_FI_DEV_POWER_INSTANT`).
    pub instant: Reading<u32>,
    /// The limit in force, milliwatts (`nvmlDeviceGetEnforcedPowerLimit`).
    pub limit: Reading<u32>,
    /// Energy since the driver was loaded, millijoules (`nvmlDeviceGetTotalEnergyConsumption`).
    pub energy: Reading<u64>,
}

/// Temperatures, degrees Celsius.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Temperature {
    /// The GPU die, °C.
    pub gpu: Reading<u32>,
    /// Its memory, °C (HBM boards).
    pub memory: Reading<u32>,
}

/// Clocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Clocks {
    /// Graphics clock now, MHz.
    pub graphics: Reading<u32>,
    /// Streaming multiprocessor clock now, MHz.
    pub sm: Reading<u32>,
    /// Memory clock now, MHz.
    pub memory: Reading<u32>,
    /// Video clock now, MHz.
    pub video: Reading<u32>,
    /// Why clocks are held down now: bits of `nvmlClocksEventReason*`.
    pub event_reasons: Reading<u64>,
    /// Time that clocks were held down since the driver was loaded.
    pub held: ClocksHeld,
}

/// Time that clocks were held down since the driver was loaded, nanoseconds, by cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClocksHeld {
    /// Power cap set in software, ns (`NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP`).
    pub power_cap: Reading<u64>,
    /// Sync boost, ns (`NVML_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST`).
    pub sync_boost: Reading<u64>,
    /// Temperature, by software, ns (`NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN`).
    pub sw_thermal: Reading<u64>,
    /// Temperature, by hardware, ns (`NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN`).
    pub hw_thermal: Reading<u64>,
    /// Power brake, by hardware, ns (`NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN`).
    pub hw_power_brake: Reading<u64>,
}

/// The PCIe link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pcie {
    /// PCIe generation now; falls while idle to save power.
    pub generation: Reading<u32>,
    /// Lanes now.
    pub width: Reading<u32>,
    /// Replays since the driver was loaded; 32 bits, wraps.
    pub replays: Reading<u32>,
    /// Bytes sent since the driver was loaded (`NVML_FI_DEV_PCIE_COUNT_TX_BYTES`); may wrap.
    pub transmitted_bytes: Reading<u64>,
    /// Bytes received since the driver was loaded (`NVML_FI_DEV_PCIE_COUNT_RX_BYTES`); may wrap.
    pub received_bytes: Reading<u64>,
}

/// Memory errors counted by ECC.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ecc {
    /// Whether ECC is on now.
    pub enabled: Reading<bool>,
    /// Corrected since the driver was loaded.
    pub volatile_corrected: Reading<u64>,
    /// Uncorrected since the driver was loaded.
    pub volatile_uncorrected: Reading<u64>,
    /// Corrected in the board's life.
    pub aggregate_corrected: Reading<u64>,
    /// Uncorrected in the board's life.
    pub aggregate_uncorrected: Reading<u64>,
}

/// Rows of memory replaced by spare ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemappedRows {
    /// After correctable errors.
    pub correctable: u32,
    /// After uncorrectable errors.
    pub uncorrectable: u32,
    /// One waits for a reset.
    pub pending: bool,
    /// One failed: no spare rows left.
    pub failed: bool,
}

/// NVSwitch fabric registration (`nvmlDeviceGetGpuFabricInfoV`, Hopper and later).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fabric {
    /// 0 not supported, 1 not started, 2 in progress, 3 completed.
    pub state: u32,
    /// `nvmlReturn_t` of the registration; means something when completed.
    pub status: u32,
    /// The clique, if the registration is complete.
    pub clique_id: Option<u32>,
    /// UUID of the NVLink domain in hexadecimal, if it is part of one.
    pub cluster_uuid: Option<String>,
}
