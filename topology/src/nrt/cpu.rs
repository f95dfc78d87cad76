//! CPUs of each zone.
//!
//! `allocatable` is what the kubelet's CPU manager can give away exclusively; where it gives none away (policy `none`),
//! the online CPUs without those that are reserved. `available` is that without the CPUs that containers have exclusively.
//! What runs on shared CPUs takes nothing off: neither the kubelet nor a scheduler counts it per NUMA node.

use std::collections::BTreeSet;

use gpulet_inventory::kubelet::KubeletSettings;
use gpulet_inventory::numa::{CpuSet, NumaNode};

use super::built::{NoteReason, Share};
use super::figure::Figure;
use super::inputs::Inputs;
use super::nodes::Nodes;
use super::notes::Notes;
use super::pods::Holder;

/// The figures of each zone, in their order.
pub(super) fn figures(
    inputs: &Inputs<'_>,
    nodes: &Nodes<'_>,
    holders: &[Holder<'_>],
    notes: &mut Notes,
) -> Vec<Figure> {
    let to_give =
        inputs.allocation.map(|allocation| &allocation.allocatable.cpus).filter(|cpus| !cpus.is_empty());
    if let Some(to_give) = to_give {
        note_offline(to_give, nodes, notes);
    }
    let mut reserve = Reserve::of(inputs.settings, to_give);
    let mut free: Vec<BTreeSet<u32>> = Vec::new();
    let mut figures: Vec<Figure> = Vec::new();
    for node in nodes.zones() {
        let mut figure = Figure::of(node.cpus.len() as u64, "online CPUs of the NUMA node (sysfs)");
        let (kept, whose) = reserve.of_node(node);
        if !kept.is_empty() {
            figure.keep(share(whose.to_owned(), &kept));
        }
        free.push(node.cpus.iter().filter(|cpu| !kept.contains(*cpu)).collect());
        figures.push(figure);
    }
    for holder in holders {
        for (figure, free) in figures.iter_mut().zip(&mut free) {
            let taken: CpuSet = holder.container.cpus.iter().filter(|cpu| free.remove(cpu)).collect();
            if !taken.is_empty() {
                figure.take(share(holder.name(), &taken));
            }
        }
    }
    figures
}

fn share(whose: String, cpus: &CpuSet) -> Share {
    Share { whose, amount: cpus.len() as u64, which: vec![format!("CPUs {cpus}")] }
}

fn note_offline(to_give: &CpuSet, nodes: &Nodes<'_>, notes: &mut Notes) {
    let online = |cpu: u32| nodes.online().iter().any(|node| node.cpus.contains(cpu));
    let offline: CpuSet = to_give.iter().filter(|cpu| !online(*cpu)).collect();
    if !offline.is_empty() {
        notes.add(NoteReason::CpuOffline, "cpu", format!("CPUs {offline}"));
    }
}

/// Which CPUs are kept from Pods.
enum Reserve<'a> {
    /// All but these: the kubelet says what it can give away.
    AllBut(&'a CpuSet, &'static str),
    /// These (`reservedSystemCPUs`).
    Named(&'a CpuSet),
    /// So many. Nothing says which: they are taken from the first NUMA node on, lowest numbers first, as the kubelet's
    /// static CPU manager does when it is given a quantity.
    Count(usize),
}

impl<'a> Reserve<'a> {
    fn of(settings: Option<&'a KubeletSettings>, to_give: Option<&'a CpuSet>) -> Self {
        let named = settings.and_then(|settings| settings.reserved_cpus.as_ref());
        match (to_give, named) {
            (Some(to_give), Some(_)) => Self::AllBut(to_give, "kept by the kubelet (reservedSystemCPUs)"),
            (Some(to_give), None) => {
                Self::AllBut(to_give, "kept by the kubelet (kubeReserved and systemReserved)")
            }
            (None, Some(named)) => Self::Named(named),
            (None, None) => {
                let thousandths = settings.map_or(0, |settings| settings.reserved_milli_cpus);
                Self::Count(usize::try_from(thousandths.div_ceil(1000)).unwrap_or(usize::MAX))
            }
        }
    }

    /// The CPUs of a node that are kept, and why; nodes must be asked for in their order.
    fn of_node(&mut self, node: &NumaNode) -> (CpuSet, &'static str) {
        match self {
            Self::AllBut(to_give, why) => {
                (node.cpus.iter().filter(|cpu| !to_give.contains(*cpu)).collect(), why)
            }
            Self::Named(named) => {
                (node.cpus.iter().filter(|cpu| named.contains(*cpu)).collect(), "reservedSystemCPUs")
            }
            Self::Count(left) => {
                let kept: CpuSet = node.cpus.iter().take(*left).collect();
                *left -= kept.len();
                (kept, "kubeReserved and systemReserved, whole CPUs from the first NUMA node on")
            }
        }
    }
}
