//! Discovers where things sit: at the pace of the slow values, for NICs come and go and links change, and at once when the
//! driver's GPUs or their NVLinks become different.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulet_inventory::pci::PciAddress;
use gpulet_inventory::snapshot::{NodeGpus, Part};
use gpulet_inventory::topology::{Finding, FindingReason, NodeTopology, Severity, Topology};
use tokio::sync::watch;

use super::Shared;
use crate::discovery;
use crate::profile::Expected;
use crate::supervise::LoopError;
use crate::text_file::TextReader;

/// The loop's name.
pub(crate) const NAME: &str = "topology";

/// Discovers until it is time to end.
pub(crate) async fn run(shared: Shared) -> Result<(), LoopError> {
    let mut settings = shared.settings.clone();
    let mut gpus = shared.gpus.subscribe();
    let mut busy = BTreeSet::new();
    let reader = TextReader::default();
    loop {
        let (interval, expected) = {
            let settings = settings.borrow_and_update();
            (settings.sampling.slow_interval, settings.topology.expected_profile.clone())
        };
        let seen = tokio::select! {
            seen = first(&mut gpus) => seen,
            () = shared.shutdown.requested() => return Ok(()),
        };
        let begun = Instant::now();
        // On another thread: sysfs can block while a device is being removed, and a file system that is gone does.
        let (root, reader) = (shared.root.clone(), reader.clone());
        let look = move || (gpulet_host::hardware::read(&root), Expected::read(expected.as_deref(), &reader));
        let (host, expected) = tokio::select! {
            looked = tokio::task::spawn_blocking(look) => looked?,
            () = shared.shutdown.requested() => return Ok(()),
        };
        let locality = shared.driver.locality().await;
        let topology = discovery::assess(&host, &seen, &locality, expected, &busy);
        shared.huge_pages.send_replace(Arc::new(host.huge_pages));
        publish(&shared, topology, Instant::now());
        shared.own.discovered(begun.elapsed());
        shared.progress.made(NAME, Instant::now(), interval * 3 + Duration::from_secs(30));
        tokio::select! {
            under_load = until_due(&mut gpus, &seen, begun + interval) => busy = under_load,
            changed = settings.changed() => if changed.is_err() { return Ok(()) },
            () = shared.shutdown.requested() => return Ok(()),
        }
    }
}

/// The GPUs as they are now; waits for the first reading of them.
async fn first(gpus: &mut watch::Receiver<Option<Arc<NodeGpus>>>) -> Arc<NodeGpus> {
    loop {
        if let Some(gpus) = gpus.borrow_and_update().clone() {
            return gpus;
        }
        if gpus.changed().await.is_err() {
            // The sender is gone at the end only, and the end is told otherwise.
            std::future::pending::<()>().await;
        }
    }
}

/// Waits until `due`, or until the GPUs differ from what was seen. Gives those that were under load all the while: only
/// their PCIe links had to be at full speed.
async fn until_due(
    gpus: &mut watch::Receiver<Option<Arc<NodeGpus>>>,
    seen: &NodeGpus,
    due: Instant,
) -> BTreeSet<PciAddress> {
    let mut busy = discovery::busy(seen);
    let mut readings = 0;
    let until = tokio::time::sleep_until(due.into());
    tokio::pin!(until);
    loop {
        tokio::select! {
            () = &mut until => break,
            changed = gpus.changed() => {
                let now = gpus.borrow_and_update().clone();
                let (Ok(()), Some(now)) = (changed, now) else { std::future::pending().await };
                busy = &busy & &discovery::busy(&now);
                readings += 1;
                if discovery::differs(seen, &now) {
                    break;
                }
            }
        }
    }
    if readings > 0 { busy } else { BTreeSet::new() }
}

fn publish(shared: &Shared, topology: NodeTopology, now: Instant) {
    shared.topology.send_modify(|part| {
        let before = part.take().map(|part| part.value);
        let value = match before {
            Some(before) if *before == topology => before,
            before => {
                log(before.as_deref(), &topology);
                Arc::new(topology)
            }
        };
        *part = Some(Part { value, taken: now });
    });
}

/// Logs what is there when that changes, and findings as they come and go.
fn log(before: Option<&NodeTopology>, after: &NodeTopology) {
    let Topology { numa_nodes, gpus, nics, pcie_switches, nvswitches, nvlink_islands, .. } = &after.model;
    if before.is_none_or(|before| devices(&before.model) != devices(&after.model)) {
        tracing::info!(
            numa_nodes = numa_nodes.len(),
            gpus = gpus.len(),
            nics = nics.len(),
            pcie_switches = pcie_switches.len(),
            nvswitches = nvswitches.len(),
            nvlink_islands = nvlink_islands.len(),
            "{}",
            if before.is_none() { "topology known" } else { "topology changed" }
        );
    }
    let known = before.map(keys).unwrap_or_default();
    for finding in after.findings.iter().filter(|finding| !known.contains(&key(finding))) {
        let (reason, subject) = key(finding);
        let (reason, evidence, remedy) = (reason.as_str(), &finding.evidence, &finding.remedy);
        match finding.severity {
            Severity::Fault => tracing::warn!(reason, subject, evidence, remedy, "topology finding"),
            Severity::Note => tracing::info!(reason, subject, evidence, remedy, "topology finding"),
        }
    }
    let now = keys(after);
    for (reason, subject) in known.difference(&now) {
        tracing::info!(reason = reason.as_str(), subject, "a topology finding is gone");
    }
}

/// Addresses of everything that is there. Speeds of links and states of ports change all the time and are left out.
fn devices(topology: &Topology) -> BTreeSet<PciAddress> {
    let gpus = topology.gpus.iter().map(|gpu| gpu.place.pci);
    let nics = topology.nics.iter().map(|nic| nic.place.pci);
    let switches = topology.pcie_switches.iter().map(|switch| switch.upstream);
    let nvswitches = topology.nvswitches.iter().map(|place| place.pci);
    gpus.chain(nics).chain(switches).chain(nvswitches).collect()
}

fn key(finding: &Finding) -> (FindingReason, &str) {
    (finding.reason, &finding.subject)
}

fn keys(topology: &NodeTopology) -> HashSet<(FindingReason, &str)> {
    topology.findings.iter().map(key).collect()
}
