//! Values that move: read at the fast interval.

use gpulet_inventory::process::GpuProcess;
use gpulet_inventory::reading::Reading;
use gpulet_inventory::sample::{Bar1, Clocks, ClocksHeld, Memory, Pcie, Power, Temperature, Utilization};
use nvml_wrapper_sys::bindings as sys;

use super::fields::{self, Batch, checked};
use super::{Asked, clocks, memory, or, processes};
use crate::plausible::{celsius, narrow, number, percent, wide};
use crate::raw::plain::{Plain, version_of};
use crate::raw::symbol;

/// The fast part of a sample.
#[derive(Debug, Clone)]
pub(crate) struct Fast {
    pub(crate) utilization: Utilization,
    pub(crate) memory: Reading<Memory>,
    pub(crate) bar1: Reading<Bar1>,
    pub(crate) power: Power,
    pub(crate) temperature: Temperature,
    pub(crate) clock: Clocks,
    pub(crate) pcie: Pcie,
    pub(crate) processes: Reading<Vec<GpuProcess>>,
    pub(crate) performance_state: Reading<u32>,
}

/// Reads it, with buffers that are kept.
pub(crate) struct FastReader {
    batch: Batch,
    held: [usize; 5],
    memory_temperature: usize,
    power_instant: usize,
    pcie: [usize; 2],
    processes: Vec<sys::nvmlProcessInfo_t>,
}

impl FastReader {
    /// For a driver of this version.
    pub(crate) fn new(driver_version: &str) -> Self {
        let mut batch = Batch::new();
        let [sw_thermal, hw_thermal, hw_power_brake] = fields::held_by_driver(driver_version);
        let held = [fields::HELD_POWER_CAP, fields::HELD_SYNC_BOOST, sw_thermal, hw_thermal, hw_power_brake];
        Self {
            held: held.map(|field| batch.add(field, 0)),
            memory_temperature: batch.add(fields::MEMORY_TEMPERATURE, 0),
            power_instant: batch.add(fields::POWER_INSTANT, 0),
            pcie: [fields::PCIE_TRANSMITTED, fields::PCIE_RECEIVED].map(|field| batch.add(field, 0)),
            batch,
            processes: Vec::new(),
        }
    }

    /// Reads all of it.
    pub(crate) fn read(&mut self, asked: &mut Asked<'_>) -> Fast {
        self.batch.read(asked);
        let batch = &self.batch;
        let [power_cap, sync_boost, sw_thermal, hw_thermal, hw_power_brake] =
            self.held.map(|at| batch.value(at));
        let held = ClocksHeld { power_cap, sync_boost, sw_thermal, hw_thermal, hw_power_brake };
        Fast {
            utilization: utilization(asked),
            memory: memory::read(asked),
            bar1: memory::bar1(asked),
            power: Power {
                usage: asked.get(&symbol::POWER, number),
                instant: checked(batch.value(self.power_instant), fields::POWER_INSTANT.name, narrow),
                limit: asked.get(&symbol::POWER_LIMIT, number),
                energy: asked.get(&symbol::ENERGY, wide),
            },
            temperature: Temperature {
                gpu: temperature(asked),
                memory: checked(
                    batch.value(self.memory_temperature),
                    fields::MEMORY_TEMPERATURE.name,
                    |value| narrow(value).and_then(celsius),
                ),
            },
            clock: clocks::read(asked, held),
            pcie: self.pcie(asked),
            processes: processes::read(asked, &mut self.processes),
            performance_state: asked.get(&symbol::PERFORMANCE_STATE, performance_state),
        }
    }

    fn pcie(&self, asked: &mut Asked<'_>) -> Pcie {
        let [transmitted_bytes, received_bytes] = self.pcie.map(|at| self.batch.value(at));
        Pcie {
            generation: asked.get(&symbol::PCIE_GENERATION, number),
            width: asked.get(&symbol::PCIE_WIDTH, number),
            replays: asked.get(&symbol::PCIE_REPLAYS, number),
            transmitted_bytes,
            received_bytes,
        }
    }
}

fn utilization(asked: &mut Asked<'_>) -> Utilization {
    // One call, two values, of which one can be impossible and the other not.
    let rates = asked.get(&symbol::UTILIZATION, Ok);
    let name = symbol::UTILIZATION.name;
    let share = |of: fn(&sys::nvmlUtilization_t) -> u32| {
        checked(rates.as_ref().map(|rates| u64::from(of(rates))), name, |value| {
            narrow(value).and_then(percent)
        })
    };
    Utilization {
        gpu: share(|rates| rates.gpu),
        memory: share(|rates| rates.memory),
        encoder: asked.first_of_two(&symbol::ENCODER, percent),
        decoder: asked.first_of_two(&symbol::DECODER, percent),
        jpeg: asked.first_of_two(&symbol::JPEG, percent),
        ofa: asked.first_of_two(&symbol::OFA, percent),
    }
}

/// By the classic call, or by its successor where that is gone.
fn temperature(asked: &mut Asked<'_>) -> Reading<u32> {
    let classic = asked.get_at(&symbol::TEMPERATURE, symbol::TEMPERATURE.name, 0, celsius);
    or(classic, || {
        asked.ask(symbol::TEMPERATURE_V.name, 0, |calls, device| {
            let mut query = sys::nvmlTemperature_t::zeroed();
            query.version = version_of::<sys::nvmlTemperature_t>(1);
            let answer = calls.get_into(&symbol::TEMPERATURE_V, device, query)?;
            celsius(answer.temperature.cast_unsigned())
        })
    })
}

/// 0 to 15; 32 is `NVML_PSTATE_UNKNOWN`.
fn performance_state(state: u32) -> Result<u32, gpulet_inventory::reading::Cause> {
    use gpulet_inventory::reading::Cause;
    match state {
        0..=15 => Ok(state),
        32 => Err(Cause::Blank),
        _ => number(state).and(Err(Cause::Implausible)),
    }
}
