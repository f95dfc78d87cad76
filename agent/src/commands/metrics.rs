//! `gpulet metrics`: one scrape to standard output, without a daemon.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use gpulet_exporter::{Format, Own};
use gpulet_host::Root;
use gpulet_inventory::snapshot::{Part, Snapshot};
use gpulet_nvml::{Classes, Driver};

use super::{CommandError, places, print};
use crate::cli::Global;
use crate::daemon::{self, DaemonError};
use crate::{build, logging};

/// Reads the node once and prints its metrics; with `explain`, what is missing and why.
pub(super) fn metrics(global: &Global, explain: bool) -> Result<(), CommandError> {
    let settings = global.source().read().map_err(DaemonError::from)?;
    logging::start(&settings.log);
    let places = places(global);
    let driver = Driver::new(daemon::driver_options(&places, &settings));
    let own = Own::new(build::info(), &[]).map_err(DaemonError::set_up("the counters"))?;
    let runtime = daemon::runtime()?;
    let snapshot = runtime.block_on(read(&driver, &Root::new(places.host_root), &own));
    let mut text = Vec::new();
    gpulet_exporter::render(&snapshot, &own, Format::Text004, &mut text);
    if explain {
        text.extend_from_slice(&explanation(&snapshot));
    }
    // Threads may hang in the driver: not waited for.
    runtime.shutdown_background();
    print(&text)
}

async fn read(driver: &Driver, root: &Root, own: &Own) -> Snapshot {
    let begun = Instant::now();
    let gpus = driver.sample(Classes { fast: true, slow: true }, begun).await;
    let now = Instant::now();
    own.sampled(now.saturating_duration_since(begun));
    Snapshot {
        taken: now,
        taken_unix: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        gpus: Part::new(gpus, now),
        topology: Part::new(gpulet_host::topology::read(root), now),
        process: Part::new(gpulet_host::process::stats().unwrap_or_default(), now),
    }
}

/// Comments, so that what is printed stays a scrape.
fn explanation(snapshot: &Snapshot) -> Vec<u8> {
    let missing = gpulet_exporter::explain(snapshot);
    let mut text = format!("# missing: {} series\n", missing.len());
    for series in missing {
        text.push_str(&format!("# missing: {}\n", series.to_string().replace('\n', " ")));
    }
    text.into_bytes()
}
