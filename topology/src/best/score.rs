//! What a set of GPUs is worth.
//!
//! Points are whole numbers, so that equal sets are equal on every machine. The request comes first: one NVLink
//! inside the set weighs more than anything that PCIe and NUMA give to the same pair, and a NUMA node in common more
//! than an NVLink pair that stays whole among the GPUs that are left. What is left decides between sets of nearly the
//! same worth, so that a single takes a GPU without a partner.

use gpulet_inventory::locality::Level;
use gpulet_inventory::topology::{Device, Topology};
use serde::Serialize;

/// One NVLink between two GPUs of the set, NVSwitches included.
const NVLINK: u64 = 1_000;
/// Two GPUs of the set on one NUMA node.
const NUMA: u64 = 600;
/// Two GPUs of the set below one PCIe switch, below nested switches, at one root complex.
const PCIE: [(Level, u64); 3] = [(Level::Pix, 300), (Level::Pxb, 200), (Level::Phb, 100)];
/// A GPU of the set with a NIC of its own without a host bridge between, and at one root complex.
const NIC_NEAR: u64 = 160;
const NIC_AT_ROOT: u64 = 20;
/// Two GPUs that stay free with NVLinks between them, and each of these links.
const LEFT_LINKED: u64 = 200;
const LEFT_NVLINK: u64 = 10;
/// What two GPUs that stay free get of the points for NUMA (a twentieth) and PCIe (a tenth).
const LEFT_NUMA: u64 = NUMA / 20;
const LEFT_PCIE: u64 = 10;

/// The score of a set and the parts of it, in points.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Score {
    /// The sum of the parts.
    pub total: u64,
    /// NVLinks inside the set: 1,000 each.
    pub nvlink: u64,
    /// Pairs of one NUMA node inside the set: 600 each.
    pub numa: u64,
    /// Pairs that are near on PCIe inside the set: PIX 300, PXB 200, PHB 100.
    pub pcie: u64,
    /// GPUs that get a NIC of their own: 160 without a host bridge between, and 20 at one root complex.
    pub nic: u64,
    /// Pairs among the free GPUs that are not taken: 200 and 10 a link for NVLink, 30 for one NUMA node, PIX 30,
    /// PXB 20, PHB 10.
    pub left: u64,
}

/// Points of one pair.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PairPoints {
    nvlink: u64,
    numa: u64,
    pcie: u64,
    /// Where both stay free.
    pub(super) left: u64,
}

impl PairPoints {
    /// Where both are in the set.
    pub(super) fn inside(self) -> u64 {
        self.nvlink + self.numa + self.pcie
    }
}

/// What is needed of a topology to score sets.
pub(super) struct Scorer {
    pairs: Vec<Vec<PairPoints>>,
    near_nics: Vec<Vec<usize>>,
    root_nics: Vec<Vec<usize>>,
}

impl Scorer {
    pub(super) fn new(topology: &Topology) -> Self {
        let all = 0..topology.gpus.len();
        let row = |one: usize| all.clone().map(|other| pair_points(topology, one, other)).collect();
        let nics = |farthest: Level| all.clone().map(|gpu| nics_within(topology, gpu, farthest)).collect();
        Self {
            pairs: all.clone().map(row).collect(),
            near_nics: nics(Level::Pxb),
            root_nics: nics(Level::Phb),
        }
    }

    pub(super) fn pair(&self, one: usize, other: usize) -> PairPoints {
        self.pairs.get(one).and_then(|row| row.get(other)).copied().unwrap_or_default()
    }

    /// The score of a set of the free GPUs.
    pub(super) fn score(&self, set: &[usize], free: &[usize]) -> Score {
        let mut score = Score { nic: self.nic(set), ..Score::default() };
        for (one, other) in pairs_of(set) {
            let points = self.pair(one, other);
            score.nvlink += points.nvlink;
            score.numa += points.numa;
            score.pcie += points.pcie;
        }
        let rest: Vec<usize> = free.iter().copied().filter(|gpu| !set.contains(gpu)).collect();
        score.left = pairs_of(&rest).map(|(one, other)| self.pair(one, other).left).sum();
        score.total = score.nvlink + score.numa + score.pcie + score.nic + score.left;
        score
    }

    /// Points for NICs: how many GPUs of the set can have a near one each to themselves.
    pub(super) fn nic(&self, set: &[usize]) -> u64 {
        NIC_NEAR * matched(set, &self.near_nics) + NIC_AT_ROOT * matched(set, &self.root_nics)
    }

    /// How many of a set can have a NIC each to themselves without a host bridge between.
    pub(super) fn with_near_nic(&self, set: &[usize]) -> u64 {
        matched(set, &self.near_nics)
    }

    /// The most that [`Scorer::nic`] can give for a set of this size.
    pub(super) fn most_nic(&self, size: usize) -> u64 {
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        size.saturating_mul(NIC_NEAR + NIC_AT_ROOT)
    }
}

/// Every two of a list.
pub(super) fn pairs_of(gpus: &[usize]) -> impl Iterator<Item = (usize, usize)> {
    gpus.iter().enumerate().flat_map(|(at, one)| gpus.iter().skip(at + 1).map(|other| (*one, *other)))
}

fn pair_points(topology: &Topology, one: usize, other: usize) -> PairPoints {
    let Some(pair) = topology.pair(Device::Gpu(one), Device::Gpu(other)) else {
        return PairPoints::default();
    };
    let node = |gpu: usize| topology.gpus.get(gpu).and_then(|gpu| gpu.place.numa.node);
    let together = node(one).is_some() && node(one) == node(other);
    let level = pair.best_known_level();
    let links = u64::from(topology.nvlinks(one, other));
    let numa = if together { NUMA } else { 0 };
    let pcie = PCIE.iter().find(|(near, _)| Some(*near) == level).map_or(0, |(_, points)| *points);
    let left_linked = if links > 0 { LEFT_LINKED + LEFT_NVLINK * links } else { 0 };
    let left_numa = if together { LEFT_NUMA } else { 0 };
    PairPoints { nvlink: NVLINK * links, numa, pcie, left: left_linked + left_numa + pcie / LEFT_PCIE }
}

fn nics_within(topology: &Topology, gpu: usize, farthest: Level) -> Vec<usize> {
    let near = |nic: &usize| {
        let pair = topology.pair(Device::Gpu(gpu), Device::Nic(*nic));
        pair.and_then(|pair| pair.level).is_some_and(|level| level <= farthest)
    };
    let rdma = topology.nics.iter().enumerate().filter(|(_, nic)| nic.rdma.is_some());
    rdma.map(|(at, _)| at).filter(near).collect()
}

/// The size of a largest matching of the set's GPUs to NICs, by augmenting paths.
fn matched(set: &[usize], nics: &[Vec<usize>]) -> u64 {
    let mut taken: Vec<(usize, usize)> = Vec::new();
    let mut count = 0;
    for gpu in set {
        if give_nic(*gpu, nics, &mut taken, &mut Vec::new()) {
            count += 1;
        }
    }
    count
}

/// Gives `gpu` a NIC, moving GPUs that have one to another where needed. `taken` has (NIC, GPU).
fn give_nic(
    gpu: usize,
    nics: &[Vec<usize>],
    taken: &mut Vec<(usize, usize)>,
    tried: &mut Vec<usize>,
) -> bool {
    for nic in nics.get(gpu).into_iter().flatten() {
        if tried.contains(nic) {
            continue;
        }
        tried.push(*nic);
        let holder = taken.iter().find(|(held, _)| held == nic).map(|(_, holder)| *holder);
        if holder.is_none_or(|holder| give_nic(holder, nics, taken, tried)) {
            taken.retain(|(held, _)| held != nic);
            taken.push((*nic, gpu));
            return true;
        }
    }
    false
}
