//! What goes over PCIe and NVLink in a tick.

use gpulet_inventory::pci::PciAddress;

use super::load::Demand;
use super::physics::{TICK_SECONDS, TICKS_PER_SECOND};
use crate::node::Node;
use crate::node::description::{Baseboard, Wiring as Described};
use crate::node::tree::Kind;
use crate::state::{GpuState, NvLinkState};

/// `nvmlIntNvLinkDeviceType_t`.
const REMOTE_GPU: u32 = 0;
const REMOTE_SWITCH: u32 = 2;
const REMOTE_UNKNOWN: u32 = 0xff;

/// Where the NVLinks of a node lead.
#[derive(Debug, Clone)]
pub(super) struct Wiring {
    /// Per GPU and link, GPU and link of the other end where that is a GPU.
    peers: Vec<Vec<Option<(usize, usize)>>>,
    /// Links as they are when both ends are there.
    links: Vec<Vec<NvLinkState>>,
    /// Whether switches carry any GPU's data to any other.
    switched: bool,
    /// Per GPU, KiB that one link moves each way in a tick.
    link_kib: Vec<f64>,
}

impl Wiring {
    /// As described.
    pub(super) fn of(node: &Node) -> Self {
        let boards = node.gpus().iter().map(|gpu| gpu.board.nvlink.as_ref());
        let dark = NvLinkState { remote_type: REMOTE_UNKNOWN, ..NvLinkState::default() };
        let count = |links: u32| usize::try_from(links).unwrap_or(0);
        let links: Vec<Vec<NvLinkState>> =
            boards.clone().map(|b| vec![dark.clone(); b.map_or(0, |b| count(b.links))]).collect();
        let mut wiring = Self {
            peers: links.iter().map(|links| vec![None; links.len()]).collect(),
            links,
            switched: false,
            link_kib: boards
                .map(|b| b.map_or(0.0, |b| f64::from(b.link_mbps) * 1e6 / 1024.0 * TICK_SECONDS))
                .collect(),
        };
        match &node.description().nvlink {
            None => {}
            Some(Described::Switched(counts)) => wiring.wire_switches(&switches(node), counts, |_| true),
            Some(Described::Baseboards(baseboards)) => {
                for Baseboard { gpus, links } in baseboards {
                    let on_it = |gpu: usize| u32::try_from(gpu).is_ok_and(|gpu| gpus.contains(gpu));
                    wiring.wire_switches(&switches(node), links, on_it);
                }
            }
            Some(Described::HiddenSwitches(links)) => wiring.wire_hidden_switches(count(*links)),
            Some(Described::Direct(pairs)) => {
                for pair in pairs {
                    wiring.join(node, count(pair.gpus.0), count(pair.gpus.1), count(pair.links));
                }
            }
        }
        for (index, gpu) in node.gpus().iter().enumerate() {
            gpu.description.dark_nvlinks.iter().for_each(|link| wiring.plug(index, count(link), false));
        }
        wiring
    }

    /// Pulls a link or plugs it in, with its other end where that is a GPU.
    pub(super) fn plug(&mut self, gpu: usize, link: usize, up: bool) {
        let other = self.peer(gpu, link);
        for (gpu, link) in [(gpu, link)].into_iter().chain(other) {
            if let Some(end) = self.links.get_mut(gpu).and_then(|links| links.get_mut(link)) {
                end.up = up;
            }
        }
    }

    /// Links of a GPU as they are at first.
    pub(super) fn links(&self, gpu: usize) -> Vec<NvLinkState> {
        self.links.get(gpu).cloned().unwrap_or_default()
    }

    /// Whether a link comes up when its two ends are there: none does that was pulled.
    pub(super) fn works(&self, gpu: usize, link: usize) -> bool {
        self.links.get(gpu).and_then(|links| links.get(link)).is_some_and(|link| link.up)
    }

    /// The other end of a link, where that is a GPU.
    pub(super) fn peer(&self, gpu: usize, link: usize) -> Option<(usize, usize)> {
        *self.peers.get(gpu)?.get(link)?
    }

    fn wire_switches(&mut self, switches: &[PciAddress], counts: &[u32], concerned: impl Fn(usize) -> bool) {
        self.switched = true;
        let ends = switches.iter().zip(counts);
        let ends: Vec<PciAddress> = ends
            .flat_map(|(at, count)| std::iter::repeat_n(*at, usize::try_from(*count).unwrap_or(0)))
            .collect();
        let gpus = self.links.iter_mut().enumerate().filter(|(gpu, _)| concerned(*gpu));
        for (link, at) in gpus.flat_map(|(_, links)| links.iter_mut().zip(&ends)) {
            *link = NvLinkState {
                up: true,
                remote_type: REMOTE_SWITCH,
                remote_pci: numbers(*at),
                ..NvLinkState::default()
            };
        }
    }

    fn wire_hidden_switches(&mut self, count: usize) {
        self.switched = true;
        for link in self.links.iter_mut().flat_map(|links| links.iter_mut().take(count)) {
            // Nothing is known of a switch outside the node but that it is one.
            *link = NvLinkState { up: true, remote_type: REMOTE_SWITCH, ..NvLinkState::default() };
        }
    }

    fn join(&mut self, node: &Node, a: usize, b: usize, count: usize) {
        for _ in 0..count {
            let (Some(link_a), Some(link_b)) = (self.unused(a), self.unused(b)) else { return };
            for (gpu, link, peer, peer_link) in [(a, link_a, b, link_b), (b, link_b, a, link_a)] {
                let at = node.gpus().get(peer).map(|gpu| numbers(gpu.description.at)).unwrap_or_default();
                if let Some(end) = self.links.get_mut(gpu).and_then(|links| links.get_mut(link)) {
                    *end = NvLinkState {
                        up: true,
                        remote_type: REMOTE_GPU,
                        remote_pci: at,
                        ..NvLinkState::default()
                    };
                }
                if let Some(end) = self.peers.get_mut(gpu).and_then(|peers| peers.get_mut(link)) {
                    *end = Some((peer, peer_link));
                }
            }
        }
    }

    fn unused(&self, gpu: usize) -> Option<usize> {
        self.peers.get(gpu)?.iter().position(Option::is_none)
    }

    /// Moves one tick's data over the links. Each byte sent is received by someone.
    pub(super) fn exchange(&self, gpus: &mut [GpuState], shares: &[f64]) {
        let takes_part = |gpu: &GpuState, share: f64| share > 0.0 && gpu.nvlinks.iter().any(|link| link.up);
        let partners: Vec<usize> = (0..gpus.len())
            .filter(|i| gpus.get(*i).zip(shares.get(*i)).is_some_and(|(g, s)| takes_part(g, *s)))
            .collect();
        if partners.len() < 2 {
            return;
        }
        let per_link = |gpu: usize| {
            let kib = self.link_kib.get(gpu).zip(shares.get(gpu)).map_or(0.0, |(kib, share)| kib * share);
            kib as u64
        };
        if self.switched {
            ring(gpus, &partners, per_link);
        } else {
            self.neighbours(gpus, &partners, per_link);
        }
    }

    /// Over direct links, between those who take part.
    fn neighbours(&self, gpus: &mut [GpuState], partners: &[usize], per_link: impl Fn(usize) -> u64) {
        for gpu in partners {
            let kib = per_link(*gpu);
            for link in 0..self.peers.get(*gpu).map_or(0, Vec::len) {
                let Some((peer, peer_link)) =
                    self.peer(*gpu, link).filter(|(peer, _)| partners.contains(peer))
                else {
                    continue;
                };
                let Some(end) = link_of(gpus, *gpu, link).filter(|end| end.up) else { continue };
                end.data_kib.0 = end.data_kib.0.wrapping_add(kib);
                if let Some(end) = link_of(gpus, peer, peer_link) {
                    end.data_kib.1 = end.data_kib.1.wrapping_add(kib);
                }
            }
        }
    }
}

/// Through switches, each to the next of those who take part, spread over the links that are up.
fn ring(gpus: &mut [GpuState], partners: &[usize], per_link: impl Fn(usize) -> u64) {
    for (from, to) in partners.iter().zip(partners.iter().cycle().skip(1)) {
        let mut sent: u64 = 0;
        for link in gpus.get_mut(*from).iter_mut().flat_map(|gpu| &mut gpu.nvlinks).filter(|link| link.up) {
            let kib = per_link(*from);
            link.data_kib.0 = link.data_kib.0.wrapping_add(kib);
            sent = sent.wrapping_add(kib);
        }
        let Some(receiver) = gpus.get_mut(*to) else { continue };
        let up = receiver.nvlinks.iter().filter(|link| link.up).count();
        let links = u64::try_from(up).unwrap_or(1).max(1);
        let mut rest = sent % links;
        for link in receiver.nvlinks.iter_mut().filter(|link| link.up) {
            link.data_kib.1 = link.data_kib.1.wrapping_add(sent / links + std::mem::take(&mut rest));
        }
    }
}

fn link_of(gpus: &mut [GpuState], gpu: usize, link: usize) -> Option<&mut NvLinkState> {
    gpus.get_mut(gpu)?.nvlinks.get_mut(link)
}

fn switches(node: &Node) -> Vec<PciAddress> {
    let switches = node.functions().iter().filter(|function| matches!(function.kind, Kind::NvSwitch(_)));
    let mut addresses: Vec<_> = switches.map(|function| function.at).collect();
    addresses.sort();
    addresses
}

fn numbers(at: PciAddress) -> (u32, u32, u32, u32) {
    (at.domain, u32::from(at.bus), u32::from(at.device), u32::from(at.function))
}

/// MB/s of one lane by generation, after encoding.
const LANE_MBPS: [f64; 8] = [0.0, 250.0, 500.0, 985.0, 1969.0, 3938.0, 7563.0, 15_126.0];

/// Moves one tick's data over PCIe.
pub(super) fn pcie(gpu: &mut GpuState, demand: &Demand, swing: f64) {
    let generation = usize::try_from(gpu.now.pcie_generation).unwrap_or(0);
    let lane = LANE_MBPS.get(generation).copied().unwrap_or(0.0);
    let bytes = lane * f64::from(gpu.now.pcie_width) * 1e6 * TICK_SECONDS;
    // The driver itself talks to a GPU at rest, a little.
    let housekeeping = 2000.0 + 500.0 * swing;
    let moved = |share: f64| (bytes * share + housekeeping) as u64;
    let (sent, received) = (moved(demand.pcie.0), moved(demand.pcie.1));
    let counter = &mut gpu.count.pcie_bytes;
    *counter = (counter.0.wrapping_add(sent), counter.1.wrapping_add(received));
    let per_second = u64::try_from(TICKS_PER_SECOND).unwrap_or(1);
    let kbps = |bytes: u64| u32::try_from(bytes.saturating_mul(per_second) / 1000).unwrap_or(u32::MAX);
    gpu.now.pcie_throughput_kbps = (kbps(sent), kbps(received));
}
