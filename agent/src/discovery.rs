//! From what the kernel and the driver say to the node's topology and what is wrong with it.

use std::collections::BTreeSet;

use gpulet_inventory::host::Host;
use gpulet_inventory::link::NvLink;
use gpulet_inventory::locality::DriverLocality;
use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::snapshot::{Condition, GpuState, NodeGpus, UnlistedGpu};
use gpulet_inventory::topology::{LargestFreeSets, NodeTopology, Topology};
use gpulet_topology::{GpuView, build, findings, largest_free_sets};

use crate::profile::Expected;

/// From this utilisation on, percent, a GPU is under load and its PCIe link at full speed.
const BUSY_PERCENT: u32 = 50;

/// The topology and its findings, held against what is expected.
pub(crate) fn assess(
    host: &Host,
    gpus: &NodeGpus,
    locality: &DriverLocality,
    expected: Expected,
    busy: &BTreeSet<PciAddress>,
) -> NodeTopology {
    let views = GpuView::of(gpus, host);
    let locality = gpus.driver.down_reason().is_none().then_some(locality);
    let model = build(host, &views, locality);
    let found = findings(expected.profile.as_ref(), &model, busy);
    NodeTopology { findings: expected.unreadable.into_iter().chain(found).collect(), model }
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use gpulet_inventory::reading::{Answer, Cause, Reading};
    use gpulet_inventory::sample::Sample;
    use gpulet_inventory::snapshot::{DownReason, Driver, DriverDown};

    use super::*;

    const LOST: DownReason =
        DownReason::Lost(Answer { call: "nvmlDeviceGetUtilizationRates", cause: Cause::Code(15) });

    /// A node of four GPUs and what a change makes of it.
    fn changed(change: impl FnOnce(&mut NodeGpus)) -> (NodeGpus, NodeGpus) {
        let node = NodeGpus::clone(&gpulet_benches::snapshot(4, 2).gpus.value);
        let mut after = node.clone();
        change(&mut after);
        (node, after)
    }

    fn sample(node: &mut NodeGpus, gpu: usize) -> &mut Sample {
        Arc::make_mut(node.gpus[gpu].sample.as_mut().unwrap())
    }

    fn links(node: &mut NodeGpus, gpu: usize) -> &mut Vec<NvLink> {
        let Reading::Supported(links) = &mut sample(node, gpu).nvlinks else { panic!("it has links") };
        links
    }

    #[test]
    fn counters_change_nothing_about_the_topology() {
        let (before, after) = changed(|node| {
            sample(node, 0).utilization.gpu = Reading::Supported(3);
            links(node, 1)[0].transmitted_bytes = Reading::Supported(7);
            node.gpus[2].xids = Reading::Supported([(31, 5)].into());
            node.gpus[3].took += Duration::from_secs(1);
            node.calls.made += 1;
        });
        assert_ne!(before, after);
        assert!(!differs(&before, &after));
    }

    #[test]
    fn what_the_topology_is_made_of_is_heard() {
        let changes: [fn(&mut NodeGpus); 6] = [
            |node| links(node, 0)[1].active = false,
            |node| node.gpus[1].condition = Condition::Down(LOST),
            |node| sample(node, 2).fabric = Reading::Unsupported(Answer { call: "x", cause: Cause::Blank }),
            |node| drop(node.gpus.pop()),
            |node| node.unlisted.push(UnlistedGpu { index: 4, pci: None, reason: LOST }),
            |node| {
                node.driver = Driver::Down(DriverDown {
                    reason: "Quiesced",
                    message: String::new(),
                    remedy: String::new(),
                });
            },
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let (before, after) = changed(change);
            assert!(differs(&before, &after), "change {number}");
        }
    }

    #[test]
    fn for_how_long_a_gpu_has_been_hanging_is_nothing_new() {
        let hanging = |seconds| {
            changed(|node| {
                let since = Duration::from_secs(seconds);
                let reason = DownReason::Unresponsive { call: "nvmlDeviceGetUUID", since };
                node.unlisted.push(UnlistedGpu { index: 4, pci: None, reason });
            })
        };
        assert!(!differs(&hanging(1).1, &hanging(2).1));
    }

    #[test]
    fn busy_is_who_answers_and_is_under_load() {
        let (_, node) = changed(|node| {
            sample(node, 0).utilization.gpu = Reading::Supported(49);
            sample(node, 1).utilization.gpu = Reading::Supported(50);
            node.gpus[3].condition = Condition::Down(LOST);
        });
        let under_load = busy(&node);
        assert_eq!(under_load, [node.gpus[1].gpu.pci, node.gpus[2].gpu.pci].into());
    }

    #[test]
    fn free_is_who_answers_and_is_known_to_have_no_process() {
        let topology = &gpulet_benches::snapshot(4, 2).topology.value.model;
        let (_, node) = changed(|node| {
            for gpu in [0, 1, 3] {
                sample(node, gpu).processes = Reading::Supported(Vec::new());
            }
            sample(node, 2).processes = Reading::Failed(Answer { call: "x", cause: Cause::TimedOut });
            node.gpus[3].condition = Condition::Down(LOST);
        });
        assert_eq!(free_sets(topology, &node).numa_node, [0, 1]);
    }
}
