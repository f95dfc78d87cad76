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
/// here: equal ones by equal stand-ins. Of paths only the names of the files are kept: a library may lie in somebody's
/// home.
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
    match &mut record.gpus.driver {
        Driver::Up(info) => info.library = file_name(&info.library).to_owned(),
        Driver::Down(down) => down.message = without_directories(&down.message),
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

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The text with the last part alone of each absolute path. Where a path ends cannot be told, since there may be blanks in
/// it, so that too much is left out rather than too little: everything up to the last `/` before the next path.
fn without_directories(text: &str) -> String {
    let is_before = |c: char| c.is_whitespace() || ['`', '"', '\'', '(', '=', ':'].contains(&c);
    let begins =
        |at: &usize| text.get(..*at).is_some_and(|before| before.is_empty() || before.ends_with(is_before));
    let starts = text.match_indices('/').map(|(at, _)| at).filter(begins);
    let ends = starts.clone().skip(1).chain([text.len()]);
    let ahead = starts.clone().next().unwrap_or(text.len());
    let names = starts.zip(ends).filter_map(|(start, end)| text.get(start..end)).map(file_name);
    text.get(..ahead).into_iter().chain(names).collect()
}

#[cfg(test)]
mod tests {
    use gpulet_inventory::snapshot::DriverInfo;

    use super::*;

    fn kept(driver: Driver) -> String {
        let mut record = nothing();
        record.gpus.driver = driver;
        let attachments = attachments(record, Instant::now()).unwrap();
        String::from_utf8(attachments[ATTACHMENT].clone()).unwrap()
    }

    #[test]
    fn no_directory_of_the_library_is_kept() {
        let up = Driver::Up(DriverInfo {
            driver_version: "580.105.08".to_owned(),
            nvml_version: "13.580.105.08".to_owned(),
            cuda_version: None,
            library: "/home/alice/a b/libnvidia-ml.so.1".to_owned(),
            epoch: 1,
        });
        let kept_of_up = kept(up);
        assert!(kept_of_up.contains("\"libnvidia-ml.so.1\""), "{kept_of_up}");
        let down = |message: &str| {
            kept(Driver::Down(DriverDown {
                reason: "LibraryUnusable",
                message: message.to_owned(),
                remedy: String::new(),
            }))
        };
        for (message, expected) in [
            ("`/home/alice b/lib/x.so.1` cannot be used: 9", "`x.so.1` cannot be used: 9"),
            ("4 places (/home/alice/x.so, /home/alice/b c/y, …)", "4 places (x.so, y, …)"),
            ("call and/or call: 9", "call and/or call: 9"),
        ] {
            let kept = down(message);
            assert!(kept.contains(expected) && !kept.contains("alice"), "{kept}");
        }
        assert!(!kept_of_up.contains("alice"), "{kept_of_up}");
    }
}
