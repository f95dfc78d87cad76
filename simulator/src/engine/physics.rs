//! How a GPU answers a demand: clocks, power, heat. One tick at a time, from figures of its board.

use std::collections::VecDeque;

use super::load::Demand;
use crate::node::board::Board;
use crate::state::{Gauges, GpuState};

/// Seconds of one tick, and ticks of one second.
pub(super) const TICK_SECONDS: f64 = 0.1;
pub(super) const TICKS_PER_SECOND: usize = 10;

/// Microseconds of one tick.
pub(super) const TICK_US: u64 = 100_000;

/// Temperature around at which boards are rated, °C.
const RATED_AMBIENT: f64 = 25.0;

/// Seconds in which the die makes 63 % of the way to its final temperature; the memory is slower.
const DIE_SECONDS: f64 = 25.0;
const MEMORY_SECONDS: f64 = 45.0;

/// Share of the dynamic power that streaming multiprocessors draw at full clock; the memory draws the rest.
const SM_POWER: f64 = 0.8;

/// Lowest share of the highest clock to which a limit pushes a busy GPU.
const LOWEST_CLOCK: f64 = 0.2;

/// Clocks are multiples of this, MHz.
const CLOCK_STEP: u32 = 15;

/// Ticks without work after which the GPU rests.
const REST_AFTER: u32 = 50;

const REASON_IDLE: u64 = 0x1;
const REASON_POWER_CAP: u64 = 0x4;
const REASON_HW_SLOWDOWN: u64 = 0x8;
const REASON_SW_THERMAL: u64 = 0x20;
const REASON_HW_THERMAL: u64 = 0x40;

/// What is behind the gauges of one GPU.
#[derive(Debug, Clone)]
pub(super) struct Body {
    /// Temperature of what cools it, °C.
    pub(super) ambient: f64,
    die: f64,
    memory: f64,
    /// Energy that does not make up a millijoule yet, microjoules.
    energy_rest_uj: u64,
    recent_mw: VecDeque<u32>,
    idle_ticks: u32,
}

impl Body {
    /// A GPU that has rested for long.
    pub(super) fn at_rest(board: &Board) -> Self {
        let warmth = f64::from(board.power.idle) * resistance(board);
        Self {
            ambient: RATED_AMBIENT,
            die: RATED_AMBIENT + warmth,
            memory: RATED_AMBIENT + warmth,
            energy_rest_uj: 0,
            recent_mw: VecDeque::new(),
            idle_ticks: REST_AFTER,
        }
    }

    /// Forgets what the driver forgets when it is loaded.
    pub(super) fn reset(&mut self) {
        self.energy_rest_uj = 0;
        self.recent_mw.clear();
    }

    /// One tick without a driver or off the bus: it only cools down.
    pub(super) fn cool(&mut self) {
        self.warm(0.0, 0.0);
    }

    /// One tick under `demand`.
    pub(super) fn tick(&mut self, board: &Board, gpu: &mut GpuState, demand: &Demand) {
        self.idle_ticks = if demand.is_idle() { self.idle_ticks.saturating_add(1) } else { 0 };
        let rests = self.idle_ticks > REST_AFTER;
        let (clock, reasons) = match rests {
            true => (1.0, REASON_IDLE),
            false => self.clock(board, gpu.now.power_limit_mw, demand),
        };
        let watts = match rests {
            true => f64::from(board.power.idle),
            false => power(board, demand, clock).min(f64::from(gpu.now.power_limit_mw) / 1000.0),
        };
        let milliwatts = whole(watts * 1000.0);
        self.account(gpu, milliwatts, reasons);
        self.warm(watts * resistance(board), watts * resistance(board) * 1.15);
        set_clocks(&mut gpu.now, board, clock, rests, self.idle_ticks == 0);
        gpu.now.temperature_c = whole(self.die.max(0.0));
        gpu.now.memory_temperature_c = whole(self.memory.max(0.0));
        gpu.now.clocks_event_reasons = reasons;
        gpu.now.fan_percent = match board.fans {
            0 => 0,
            _ => whole(((self.die - 30.0) * 1.6).clamp(30.0, 100.0)),
        };
    }

    /// Share of the highest clock that limits leave, and the reasons for it.
    fn clock(&self, board: &Board, limit_mw: u32, demand: &Demand) -> (f64, u64) {
        let (mut clock, mut reasons) = (1.0, 0);
        let limit = f64::from(limit_mw) / 1000.0;
        if power(board, demand, 1.0) > limit {
            // Power grows with the square of the clock here, so the clock is a root (which is exact everywhere).
            let room = limit - power(board, demand, 0.0);
            let want = power(board, demand, 1.0) - power(board, demand, 0.0);
            clock = (room.max(0.0) / want.max(1e-9)).sqrt().clamp(LOWEST_CLOCK, 1.0);
            reasons |= REASON_POWER_CAP;
        }
        let over = self.die - f64::from(board.temperature.slowdown);
        if over >= 0.0 {
            clock = clock.min(0.5);
            reasons |= REASON_SW_THERMAL;
        }
        if over >= 3.0 {
            clock = LOWEST_CLOCK;
            reasons |= REASON_HW_THERMAL | REASON_HW_SLOWDOWN;
        }
        (clock, reasons)
    }

    fn account(&mut self, gpu: &mut GpuState, milliwatts: u32, reasons: u64) {
        if self.recent_mw.len() >= TICKS_PER_SECOND {
            self.recent_mw.pop_front();
        }
        self.recent_mw.push_back(milliwatts);
        let sum: u64 = self.recent_mw.iter().copied().map(u64::from).sum();
        let count = u64::try_from(self.recent_mw.len()).unwrap_or(1).max(1);
        gpu.now.power_instant_mw = milliwatts;
        gpu.now.power_average_mw = u32::try_from(sum / count).unwrap_or(u32::MAX);
        // mW × µs are nJ.
        let energy_uj = self.energy_rest_uj + u64::from(milliwatts) * TICK_US / 1000;
        self.energy_rest_uj = energy_uj % 1000;
        gpu.count.energy_mj = gpu.count.energy_mj.wrapping_add(energy_uj / 1000);
        let held = [REASON_POWER_CAP, 0x10, REASON_SW_THERMAL, REASON_HW_THERMAL, 0x80];
        for (counter, reason) in gpu.count.clocks_held_ns.iter_mut().zip(held) {
            if reasons & reason != 0 {
                *counter = counter.saturating_add(TICK_US * 1000);
            }
        }
    }

    /// Moves the temperatures towards `die` and `memory` degrees above what is around.
    fn warm(&mut self, die: f64, memory: f64) {
        self.die += (self.ambient + die - self.die) * TICK_SECONDS / DIE_SECONDS;
        self.memory += (self.ambient + memory - self.memory) * TICK_SECONDS / MEMORY_SECONDS;
    }
}

/// Degrees per watt: at its default limit the board settles at its rated temperature.
fn resistance(board: &Board) -> f64 {
    (f64::from(board.temperature.full) - RATED_AMBIENT) / f64::from(board.power.limit.max(1))
}

/// Watts of a GPU that is awake. A GPU between two pieces of work draws more than one at rest.
fn power(board: &Board, demand: &Demand, clock: f64) -> f64 {
    let idle = f64::from(board.power.idle);
    let dynamic = f64::from(board.power.peak) - idle;
    let awake = 0.04;
    let sm = SM_POWER * demand.sm * clock * clock;
    idle + dynamic * (awake + (1.0 - awake) * (sm + (1.0 - SM_POWER) * demand.memory.max(0.5 * demand.sm)))
}

fn set_clocks(now: &mut Gauges, board: &Board, clock: f64, rests: bool, busy: bool) {
    let scale = |max: u32| ((f64::from(max) * clock) as u32 / CLOCK_STEP * CLOCK_STEP).max(CLOCK_STEP);
    let [graphics, sm, memory, video] = board.max_clocks_mhz;
    if rests {
        now.clocks_mhz = board.idle.clocks_mhz;
        now.performance_state = board.idle.performance_state;
        now.pcie_generation = now.pcie_generation.min(board.idle.pcie_generation);
    } else {
        now.clocks_mhz = [scale(graphics), scale(sm), memory, if busy { video } else { scale(video) }];
        now.performance_state = 0;
    }
}

/// To a whole number; what is above or below the type ends at its ends.
pub(super) fn whole(number: f64) -> u32 {
    number.round() as u32
}
