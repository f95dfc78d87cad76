//! `gpulet metrics`: one scrape to standard output, without a daemon.

use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use gpulet_exporter::{Format, Own};
use gpulet_inventory::snapshot::{Part, Snapshot};

use super::{CommandError, look, print};
use crate::cli::Global;
use crate::daemon::DaemonError;
use crate::node::Seen;
use crate::{build, discovery};

/// Reads the node once and prints its metrics; with `explain`, what is missing and why.
pub(super) fn metrics(global: &Global, explain: bool) -> Result<(), CommandError> {
    let own = Own::new(build::info(), &[]).map_err(DaemonError::set_up("the counters"))?;
    let (settings, seen) = look(global)?;
    own.sampled(seen.took);
    let snapshot = snapshot(seen, settings.topology.expected_profile.as_deref());
    let mut text = Vec::new();
    gpulet_exporter::render(&snapshot, &own, Format::Text004, &mut text);
    if explain {
        text.extend_from_slice(&explanation(&snapshot));
    }
    print(&text)
}

fn snapshot(seen: Seen, expected: Option<&Path>) -> Snapshot {
    let topology = seen.topology(expected);
    let now = Instant::now();
    Snapshot {
        taken: now,
        taken_unix: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        free_sets: discovery::free_sets(&topology.model, &seen.driver.gpus),
        holders: Part::new(seen.holders, now),
        gpus: Part::new(seen.driver.gpus, now),
        topology: Part::new(topology, now),
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
