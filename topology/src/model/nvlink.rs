//! NVLinks between GPUs, directly and through NVSwitches.

use std::collections::HashMap;

use gpulet_inventory::link::{NvLink, RemoteKind};
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::reading::Reading;
use gpulet_inventory::topology::{GpuNvlinks, NvlinkIsland, PairNvlink, PlacedGpu};

use super::{GpuView, fabric};

/// Links by the positions of two GPUs, the lower first.
pub(super) type Links = HashMap<(usize, usize), PairNvlink>;

/// Links of one GPU, counted.
pub(super) fn count(view: &GpuView<'_>) -> GpuNvlinks {
    let unread = |why: String| GpuNvlinks { unread: Some(why), ..GpuNvlinks::default() };
    match view.nvlinks {
        None => unread(view.down.unwrap_or("NotReadYet").to_owned()),
        Some(Reading::Unsupported(_)) => GpuNvlinks::default(),
        Some(Reading::Failed(answer)) => unread(answer.to_string()),
        Some(Reading::Supported(links)) => {
            let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
            let ends = |wanted: fn(&End) -> bool| {
                number(links.iter().filter(|link| link.active && wanted(&end(link))).count())
            };
            GpuNvlinks {
                total: number(links.len()),
                active: ends(|_| true),
                to_switches: ends(|end| matches!(end, End::Switch | End::AssumedSwitch)),
                assumed_switches: ends(|end| matches!(end, End::AssumedSwitch)),
                down: links.iter().filter(|link| !link.active).map(|link| link.link).collect(),
                unread: None,
            }
        }
    }
}

/// For a GPU that the driver does not list.
pub(super) fn unlisted() -> GpuNvlinks {
    GpuNvlinks { unread: Some("NotListedByDriver".to_owned()), ..GpuNvlinks::default() }
}

/// What is at the other end of an active link.
enum End {
    Gpu(Option<PciAddress>),
    Npu,
    Switch,
    /// Nothing is shown of the other end, as in virtual machines: only switches are hidden so.
    AssumedSwitch,
}

fn end(link: &NvLink) -> End {
    let pci = link.remote_pci.value().copied();
    match (link.remote_kind.value(), pci) {
        (Some(RemoteKind::Switch), _) => End::Switch,
        (Some(RemoteKind::Npu), _) => End::Npu,
        (Some(RemoteKind::Gpu), pci) => End::Gpu(pci),
        (Some(RemoteKind::Unknown) | None, Some(pci)) => End::Gpu(Some(pci)),
        (Some(RemoteKind::Unknown) | None, None) => End::AssumedSwitch,
    }
}

/// What every two GPUs have between them. `placed` begins with the GPUs of `views`, in their order.
pub(super) fn between(placed: &[PlacedGpu], views: &[GpuView<'_>]) -> Links {
    let direct: Vec<HashMap<PciAddress, u32>> = views.iter().map(direct_links).collect();
    let mut links = Links::new();
    for (a, (first, from_first)) in placed.iter().zip(&direct).enumerate() {
        for (b, (second, from_second)) in placed.iter().zip(&direct).enumerate().skip(a + 1) {
            let ends = [
                known(first, from_first.get(&second.place.pci)),
                known(second, from_second.get(&first.place.pci)),
            ];
            if let Some(link) = agree(ends, switched(first, second)) {
                links.insert((a, b), link);
            }
        }
    }
    links
}

fn direct_links(view: &GpuView<'_>) -> HashMap<PciAddress, u32> {
    let mut counts = HashMap::new();
    for link in view.nvlinks.and_then(Reading::value).into_iter().flatten().filter(|link| link.active) {
        if let End::Gpu(Some(pci)) = end(link) {
            *counts.entry(pci).or_insert(0) += 1;
        }
    }
    counts
}

/// The links that a GPU counts; absent where it was not read.
fn known(gpu: &PlacedGpu, count: Option<&u32>) -> Option<u32> {
    gpu.nvlinks.unread.is_none().then(|| count.copied().unwrap_or(0))
}

fn switched(first: &PlacedGpu, second: &PlacedGpu) -> u32 {
    let least = first.nvlinks.to_switches.min(second.nvlinks.to_switches);
    if fabric::may_switch(&first.fabric, &second.fabric) { least } else { 0 }
}

/// Both ends must have a link for it to count; where one end was not read, the other is believed.
fn agree([first, second]: [Option<u32>; 2], switched: u32) -> Option<PairNvlink> {
    let asymmetric = first.zip(second).filter(|(first, second)| first != second);
    let direct = match (first, second) {
        (Some(first), Some(second)) => first.min(second),
        (one, other) => one.or(other).unwrap_or(0),
    };
    let links = direct + switched;
    (links > 0 || asymmetric.is_some()).then_some(PairNvlink {
        links,
        through_switch: switched > 0,
        asymmetric,
    })
}

/// Groups of GPUs that reach each other.
pub(super) fn islands(gpus: usize, links: &Links) -> Vec<NvlinkIsland> {
    let linked = |a: usize, b: usize| links.get(&(a.min(b), a.max(b))).filter(|link| link.links > 0);
    let mut seen = vec![false; gpus];
    let mut islands = Vec::new();
    for start in 0..gpus {
        let mut members = Vec::new();
        let mut open = vec![start];
        while let Some(gpu) = open.pop() {
            let Some(seen) = seen.get_mut(gpu).filter(|seen| !**seen) else { continue };
            *seen = true;
            members.push(gpu);
            open.extend((0..gpus).filter(|peer| linked(gpu, *peer).is_some()));
        }
        if members.len() > 1 {
            members.sort_unstable();
            islands.push(island(members, linked));
        }
    }
    islands
}

fn island<'a>(gpus: Vec<usize>, linked: impl Fn(usize, usize) -> Option<&'a PairNvlink>) -> NvlinkIsland {
    let couples = gpus.iter().enumerate().flat_map(|(at, a)| gpus.iter().skip(at + 1).map(move |b| (*a, *b)));
    let all: Vec<Option<&PairNvlink>> = couples.map(|(a, b)| linked(a, b)).collect();
    let present = || all.iter().flatten();
    NvlinkIsland {
        through_switch: present().any(|link| link.through_switch),
        full_mesh: all.iter().all(Option::is_some),
        fewest_links: present().map(|link| link.links).min().unwrap_or(0),
        most_links: present().map(|link| link.links).max().unwrap_or(0),
        gpus,
    }
}
