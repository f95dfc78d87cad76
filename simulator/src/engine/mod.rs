//! The hardware behind a simulated node: it lives on a clock of its own and obeys commands.
//!
//! ```text
//!   Node ──> Engine::new ──> NodeState ──> published to clients
//!                 ▲  │ advance: loads ─> demand ─> clocks, power, heat, traffic (ticks of 100 ms)
//!        commands ┘  └ apply: checks first, then changes; a refusal changes nothing
//! ```
//! The same node, seed and start always give the same states, however the time is cut into steps.

mod affinity;
mod birth;
mod commands;
mod driver;
mod faults;
mod load;
mod mig;
mod noise;
mod observers;
mod physics;
mod processes;
#[cfg(test)]
mod tests;
mod traffic;

use std::collections::BTreeSet;
use std::time::Duration;

use self::noise::{Channel, Noise};
use self::physics::{Body, TICK_SECONDS, TICK_US, whole};
pub(crate) use self::processes::program;
use self::traffic::Wiring;
use crate::command::{Load, Refusal};
use crate::node::Node;
use crate::state::{Event, GpuState, NodeState};

/// Most events that are kept; a client that is further behind has missed some and is not told. What the driver's bound is,
/// and whether it has one, is not documented.
pub const MAX_EVENTS: usize = 16_384;

/// Process ids of scripted loads start here, above what machines commonly give out.
pub const SCRIPTED_PID: u32 = 4_000_000;

/// A running node.
#[derive(Debug, Clone)]
pub struct Engine {
    node: Node,
    seed: u64,
    state: NodeState,
    lives: Vec<Life>,
    wiring: Wiring,
    ticks: u64,
    since_tick_us: u64,
    next_fault: u64,
    next_event: u64,
    pace: f64,
    clients: Vec<DriverUser>,
    /// Compute instances that were created so far.
    created: u64,
}

/// A process that has the driver open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverUser {
    /// Its number.
    pub pid: u32,
    /// GPUs that it has open, by index.
    pub gpus: BTreeSet<u32>,
}

/// What is behind one GPU's state.
#[derive(Debug, Clone)]
struct Life {
    body: Body,
    load: Load,
    load_since: u64,
}

impl Engine {
    /// A node at `start_us`, microseconds since the Unix epoch, with its default loads running.
    ///
    /// # Errors
    /// A default load that a GPU refuses.
    pub fn new(node: &Node, seed: u64, start_us: u64) -> Result<Self, Refusal> {
        let lives = node.gpus().iter().map(|gpu| Life {
            body: Body::at_rest(&gpu.board),
            load: Load::Idle,
            load_since: 0,
        });
        let mut engine = Self {
            node: node.clone(),
            seed,
            state: birth::state(node, start_us),
            lives: lives.collect(),
            wiring: Wiring::of(node),
            ticks: 0,
            since_tick_us: 0,
            next_fault: 1,
            next_event: 1,
            pace: 1.0,
            clients: Vec::new(),
            created: 0,
        };
        for entry in &node.description().loads {
            for gpu in entry.gpus.iter() {
                engine.load(Some(gpu), entry.load)?;
            }
        }
        // The first tick gives the gauges their values.
        engine.tick();
        Ok(engine)
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The present state.
    pub fn state(&self) -> &NodeState {
        &self.state
    }

    /// Simulated seconds per real second that whoever drives the clock should keep; 0 while it is paused.
    pub fn pace(&self) -> f64 {
        self.pace
    }

    /// Tells which processes have the driver open, in place of those told before: they keep it from unloading, and their
    /// GPUs from being reset.
    pub fn set_clients(&mut self, clients: Vec<DriverUser>) {
        self.clients = clients;
    }

    /// Moves the clock. Values change at ticks of 100 ms; the rest of a tick is kept for the next call.
    pub fn advance(&mut self, by: Duration) {
        let by_us = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.state.clock_us = self.state.clock_us.saturating_add(by_us);
        let due = self.since_tick_us.saturating_add(by_us);
        self.since_tick_us = due % TICK_US;
        for _ in 0..due / TICK_US {
            self.tick();
        }
    }

    fn tick(&mut self) {
        self.ticks = self.ticks.wrapping_add(1);
        let mut exchange = Vec::with_capacity(self.lives.len());
        let parts = self.node.gpus().iter().zip(&mut self.lives).zip(&mut self.state.gpus);
        for (index, ((gpu, life), state)) in (0..).zip(parts) {
            if !self.state.driver.loaded || !state.is_reachable() {
                life.body.cool();
                exchange.push(0.0);
                continue;
            }
            let noise = Noise::at(self.seed, index, self.ticks);
            let seconds = self.ticks.wrapping_sub(life.load_since) as f64 * TICK_SECONDS;
            let demand = life.load.demand(seconds, noise);
            if !demand.is_idle() {
                state.now.pcie_generation = gpu.function.link.generation;
            }
            life.body.tick(&gpu.board, state, &demand);
            utilization(state, index, &demand);
            traffic::pcie(state, &demand, noise.swing(Channel::Traffic));
            exchange.push(demand.nvlink);
        }
        self.wiring.exchange(&mut self.state.gpus, &exchange);
    }

    /// Reports an event. The oldest ones go when there are too many.
    fn report(&mut self, event: Event) {
        let sequence = self.next_event;
        self.next_event = self.next_event.wrapping_add(1);
        let surplus = (self.state.events.len() + 1).saturating_sub(MAX_EVENTS);
        self.state.events.drain(..surplus);
        self.state.events.push(Event { sequence, ..event });
    }
}

fn utilization(gpu: &mut GpuState, index: u64, demand: &load::Demand) {
    let percent = |share: f64| whole(share * 100.0).min(100);
    let [sm, memory, encoder, decoder] =
        [demand.sm, demand.memory, demand.encoder, demand.decoder].map(percent);
    gpu.now.utilization = [sm, memory, encoder, decoder, 0, 0];
    let scripted = u64::from(SCRIPTED_PID) + index;
    for process in &mut gpu.processes {
        let works = u64::from(process.pid) == scripted;
        process.utilization = if works { [sm, memory, encoder, decoder] } else { [0; 4] };
    }
}
