//! What the driver said, as an attachment of a bundle.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use gpulet_host::Bundle;
use gpulet_inventory::locality::DriverLocality;
use gpulet_inventory::reading::Reading;
use gpulet_inventory::record::{NodeRecord, StoredRecord};
use gpulet_inventory::snapshot::{CallStats, Driver, DriverDown, NodeGpus};

/// Name of the attachment.
const ATTACHMENT: &str = "nvml.json";

/// What the driver said in a bundle, as if it had been said at `now`. Where the bundle has nothing of it, the driver is
/// down.
///
/// # Errors
/// An attachment that is no record.
pub(crate) fn of(bundle: &Bundle, now: Instant) -> Result<NodeRecord, serde_json::Error> {
    let Some(bytes) = bundle.attachments.get(ATTACHMENT) else { return Ok(nothing()) };
    let record: StoredRecord = serde_json::from_slice(bytes)?;
    Ok(record.at(now))
}

/// What the driver said at `now`, to be kept in a bundle. Serial numbers, which look like any other number, are replaced
/// here: equal ones by equal stand-ins.
///
/// # Errors
/// When it cannot be put into words.
pub(crate) fn attachments(
    mut record: NodeRecord,
    now: Instant,
) -> Result<BTreeMap<String, Vec<u8>>, serde_json::Error> {
    let mut known = BTreeMap::new();
    for state in &mut record.gpus.gpus {
        let gpu = Arc::make_mut(&mut state.gpu);
        if let Reading::Supported(serial) = &mut gpu.serial {
            let next = known.len() + 1;
            let number = *known.entry(serial.clone()).or_insert(next);
            *serial = format!("stand-in-{number}");
        }
    }
    let bytes = serde_json::to_vec_pretty(&record.store(now))?;
    Ok(BTreeMap::from([(ATTACHMENT.to_owned(), bytes)]))
}

fn nothing() -> NodeRecord {
    let down = DriverDown {
        reason: "NotRecorded",
        message: "the bundle does not hold what the driver said".to_owned(),
        remedy: "collect it with `gpulet collect`".to_owned(),
    };
    let gpus = NodeGpus {
        driver: Driver::Down(down),
        gpus: Vec::new(),
        unlisted: Vec::new(),
        calls: CallStats::default(),
    };
    NodeRecord { gpus, locality: DriverLocality::default() }
}
