//! From what the kernel and the driver say to the node's topology and what is wrong with it.

use std::collections::BTreeSet;
use std::path::Path;

use gpulet_inventory::host::Host;
use gpulet_inventory::link::NvLink;
use gpulet_inventory::locality::DriverLocality;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::snapshot::{Condition, GpuState, NodeGpus, UnlistedGpu};
use gpulet_inventory::topology::{LargestFreeSets, NodeTopology, Topology};
use gpulet_topology::{GpuView, build, findings, largest_free_sets};

use crate::profile;

/// From this utilisation on, percent, a GPU is under load and its PCIe link at full speed.
const BUSY_PERCENT: u32 = 50;

/// The topology and its findings, held against the profile in the file `expected` where one is named. A profile that
/// cannot be read is a finding, too: the node is none the worse for it.
pub(crate) fn assess(
    host: &Host,
    gpus: &NodeGpus,
    locality: &DriverLocality,
    expected: Option<&Path>,
    busy: &BTreeSet<PciAddress>,
) -> NodeTopology {
    let views = GpuView::of(gpus, host);
    let locality = gpus.driver.down_reason().is_none().then_some(locality);
    let model = build(host, &views, locality);
    let mut unreadable = None;
    let profile = expected.and_then(|path| {
        profile::read(path).map_err(|error| unreadable = Some(profile::unreadable(path, &error))).ok()
    });
    let found = findings(profile.as_ref(), &model, busy);
    NodeTopology { findings: unreadable.into_iter().chain(found).collect(), model }
}

/// GPUs that are under load, by address.
pub(crate) fn busy(gpus: &NodeGpus) -> BTreeSet<PciAddress> {
    let under_load = |state: &&GpuState| {
        let utilization = state.sample.as_ref().and_then(|sample| sample.utilization.gpu.value());
        state.condition == Condition::Up && utilization.is_some_and(|percent| *percent >= BUSY_PERCENT)
    };
    gpus.gpus.iter().filter(under_load).map(|state| state.gpu.pci).collect()
}

/// The largest sets of GPUs that answer and of which the driver says that no process holds them.
pub(crate) fn free_sets(topology: &Topology, gpus: &NodeGpus) -> LargestFreeSets {
    let idle = |state: &&GpuState| {
        let processes = state.sample.as_ref().and_then(|sample| sample.processes.value());
        state.condition == Condition::Up && processes.is_some_and(Vec::is_empty)
    };
    let position =
        |state: &GpuState| topology.gpus.iter().position(|gpu| gpu.uuid.as_ref() == Some(&state.gpu.uuid));
    let free: Vec<usize> = gpus.gpus.iter().filter(idle).filter_map(position).collect();
    largest_free_sets(topology, &free)
}

/// Whether anything that the topology is concluded from became different.
pub(crate) fn differs(before: &NodeGpus, after: &NodeGpus) -> bool {
    before.driver.down_reason() != after.driver.down_reason()
        || !before.unlisted.iter().map(unlisted).eq(after.unlisted.iter().map(unlisted))
        || before.gpus.len() != after.gpus.len()
        || before.gpus.iter().zip(&after.gpus).any(|(before, after)| gpu_differs(before, after))
}

/// For how long one has been hanging is nothing new.
fn unlisted(gpu: &UnlistedGpu) -> (u32, Option<PciAddress>, &'static str) {
    (gpu.index, gpu.pci, gpu.reason.reason())
}

fn gpu_differs(before: &GpuState, after: &GpuState) -> bool {
    let same_gpu = before.gpu.uuid == after.gpu.uuid
        && before.gpu.index == after.gpu.index
        && before.gpu.pci == after.gpu.pci
        && before.gpu.name == after.gpu.name;
    let fabric = |state: &GpuState| state.sample.as_ref().map(|sample| sample.fabric.clone());
    !same_gpu
        || before.condition.down_reason() != after.condition.down_reason()
        || fabric(before) != fabric(after)
        || links(before) != links(after)
}

/// Whether each link is up and where it ends; its counters are left out.
fn links(state: &GpuState) -> Option<Vec<(u32, bool, Option<PciAddress>)>> {
    let end = |link: &NvLink| (link.link, link.active, link.remote_pci.value().copied());
    let links = state.sample.as_ref()?.nvlinks.value()?;
    Some(links.iter().map(end).collect())
}
