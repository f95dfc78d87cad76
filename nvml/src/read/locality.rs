//! Where a GPU sits, as the driver tells it: read once per epoch, and again only what could not be had.

use std::collections::BTreeMap;

use gpulet_inventory::locality::Level;
use gpulet_inventory::numa::CpuSet;
use gpulet_inventory::reading::{Answer, Cause, Reading};

use super::fields::{self, Batch, checked};
use super::{Asked, or};
use crate::plausible::{narrow, number};
use crate::raw::handle::Device;
use crate::raw::symbol;

/// What one GPU answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GpuAnswers {
    pub(crate) cpu_affinity: Reading<CpuSet>,
    pub(crate) memory_affinity: Reading<CpuSet>,
    pub(crate) own_numa_node: Reading<u32>,
    pub(crate) c2c_links: Reading<u32>,
    /// How near others are, by their number.
    pub(crate) levels: BTreeMap<u32, Reading<Level>>,
}

/// A GPU that another is asked about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) index: u32,
    pub(crate) device: Device,
}

impl GpuAnswers {
    /// For a GPU that could not be asked.
    pub(crate) fn none(cause: Cause) -> Self {
        Self {
            cpu_affinity: failed(symbol::CPU_AFFINITY_WITHIN.name, cause),
            memory_affinity: failed(symbol::MEMORY_AFFINITY.name, cause),
            own_numa_node: failed(symbol::NUMA_NODE.name, cause),
            c2c_links: failed(fields::C2C_LINKS.name, cause),
            levels: BTreeMap::new(),
        }
    }

    /// Whether asking again would bring nothing new about itself and these.
    pub(crate) fn is_settled(&self, peers: &[Peer]) -> bool {
        let about = |peer: &Peer| self.levels.get(&peer.index).is_some_and(is_settled);
        is_settled(&self.cpu_affinity)
            && is_settled(&self.memory_affinity)
            && is_settled(&self.own_numa_node)
            && is_settled(&self.c2c_links)
            && peers.iter().all(about)
    }

    /// Asks for what is not settled yet.
    pub(crate) fn complete(&mut self, asked: &mut Asked<'_>, peers: &[Peer]) {
        renew(&mut self.cpu_affinity, || cpu_affinity(asked));
        renew(&mut self.memory_affinity, || {
            asked.ask(symbol::MEMORY_AFFINITY.name, 0, |calls, device| {
                calls.set_within_node(&symbol::MEMORY_AFFINITY, device)
            })
        });
        renew(&mut self.own_numa_node, || asked.get(&symbol::NUMA_NODE, number));
        renew(&mut self.c2c_links, || c2c_links(asked));
        for peer in peers {
            let level = self.levels.entry(peer.index);
            renew(level.or_insert_with(|| unasked_level(Cause::NotOpen)), || level_to(asked, peer));
        }
    }
}

/// A level that could not be asked for.
pub(crate) fn unasked_level(cause: Cause) -> Reading<Level> {
    failed(symbol::COMMON_ANCESTOR.name, cause)
}

fn failed<T>(call: &'static str, cause: Cause) -> Reading<T> {
    Reading::Failed(Answer { call, cause })
}

fn is_settled<T>(reading: &Reading<T>) -> bool {
    !matches!(reading, Reading::Failed(_))
}

fn renew<T>(reading: &mut Reading<T>, ask: impl FnOnce() -> Reading<T>) {
    if !is_settled(reading) {
        *reading = ask();
    }
}

/// Old drivers know one scope only.
fn cpu_affinity(asked: &mut Asked<'_>) -> Reading<CpuSet> {
    let within = asked.ask(symbol::CPU_AFFINITY_WITHIN.name, 0, |calls, device| {
        calls.set_within_node(&symbol::CPU_AFFINITY_WITHIN, device)
    });
    or(within, || {
        asked.ask(symbol::CPU_AFFINITY.name, 0, |calls, device| calls.set(&symbol::CPU_AFFINITY, device))
    })
}

fn c2c_links(asked: &mut Asked<'_>) -> Reading<u32> {
    let mut batch = Batch::new();
    let at = batch.add(fields::C2C_LINKS, 0);
    batch.read(asked);
    checked(batch.value(at), fields::C2C_LINKS.name, narrow)
}

fn level_to(asked: &mut Asked<'_>, peer: &Peer) -> Reading<Level> {
    asked.ask(symbol::COMMON_ANCESTOR.name, peer.index, |calls, device| {
        Level::from_number(calls.common_ancestor(device, peer.device)?).ok_or(Cause::Implausible)
    })
}
