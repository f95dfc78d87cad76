//! Reads where things sit, at the pace of the slow values: GPUs come and go, and change their kernel driver.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gpulet_inventory::snapshot::{Part, Topology};

use super::Shared;
use crate::supervise::LoopError;

/// The loop's name.
pub(crate) const NAME: &str = "topology";

/// Reads until it is time to end.
pub(crate) async fn run(shared: Shared) -> Result<(), LoopError> {
    let mut settings = shared.settings.clone();
    loop {
        let interval = settings.borrow_and_update().sampling.slow_interval;
        let root = shared.root.clone();
        // On a thread of its own: sysfs can block while a device is being removed.
        let topology = tokio::task::spawn_blocking(move || gpulet_host::topology::read(&root)).await?;
        publish(&shared, topology, Instant::now());
        shared.progress.made(NAME, Instant::now(), interval * 3 + Duration::from_secs(30));
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            changed = settings.changed() => if changed.is_err() { return Ok(()) },
            () = shared.shutdown.requested() => return Ok(()),
        }
    }
}

fn publish(shared: &Shared, topology: Topology, now: Instant) {
    shared.topology.send_modify(|part| {
        let before = part.take().map(|part| part.value);
        let value = match before {
            Some(before) if *before == topology => before,
            before => {
                log(&topology, before.is_none());
                Arc::new(topology)
            }
        };
        *part = Some(Part { value, taken: now });
    });
}

fn log(topology: &Topology, first: bool) {
    let (numa_nodes, nvidia_gpus) = (topology.numa_nodes.len(), topology.gpus.len());
    if first {
        tracing::info!(numa_nodes, nvidia_gpus, "topology known");
    } else {
        tracing::info!(numa_nodes, nvidia_gpus, "topology changed");
    }
}
