//! The simulated kubelet decides as real ones did: their records are replayed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::GzDecoder;
use gpulet_simulator::kubelet::{Allocator, CpuState, DeviceState, MemoryState, Transcript};

/// Records, one a line, packed or not.
fn transcripts(path: &Path) -> Vec<Transcript> {
    let file = std::fs::File::open(path).unwrap();
    let lines: Box<dyn BufRead> = if path.extension().is_some_and(|extension| extension == "gz") {
        Box::new(BufReader::new(GzDecoder::new(file)))
    } else {
        Box::new(BufReader::new(file))
    };
    let parse = |(number, line): (usize, std::io::Result<String>)| {
        serde_json::from_str(&line.unwrap()).unwrap_or_else(|error| panic!("line {}: {error}", number + 1))
    };
    lines.lines().enumerate().map(parse).collect()
}

/// The state files: those of the record have the checksum that we would give them, and ours say the same.
fn compare_files(number: usize, transcript: &Transcript, allocator: &Allocator) {
    let Transcript { files, settings, .. } = transcript;
    let Some(text) = files.get("cpu_manager_state") else { return };
    let there: CpuState = serde_json::from_str(text).unwrap();
    assert_eq!(there.true_checksum(), there.checksum(), "{number}: {text}");
    assert_eq!(CpuState::of(allocator, settings), there, "{number}");
    let text = &files["memory_manager_state"];
    let there: MemoryState = serde_json::from_str(text).unwrap();
    assert_eq!(there.true_checksum(), there.checksum(), "{number}: {text}");
    assert_eq!(MemoryState::of(allocator, settings).in_order(), there.in_order(), "{number}");
    // Written only when a Pod gets devices: what it says may be long past.
    let text = &files["kubelet_internal_checkpoint"];
    let there: DeviceState = serde_json::from_str(text).unwrap();
    assert_eq!(there.true_checksum(), there.checksum(), "{number}: {text}");
}

/// Replays all; gives how often each verdict was seen.
fn replay(path: &Path) -> BTreeMap<String, usize> {
    let mut verdicts = BTreeMap::new();
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (number, transcript) in transcripts(path).iter().enumerate() {
        count += 1;
        match transcript.replay() {
            Ok(Ok(allocator)) => compare_files(number, transcript, &allocator),
            Ok(Err(difference)) => wrong.push(format!("{number}: {difference}\n{:?}", transcript.settings)),
            Err(error) => wrong.push(format!("{number}: {error}")),
        }
        for step in transcript.steps.iter().filter(|step| step.admit.is_some()) {
            let verdict = step.verdict.as_ref().map_or("admitted", |verdict| &verdict.reason);
            *verdicts.entry(verdict.to_owned()).or_default() += 1;
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {count} differ:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(12)].join("\n")
    );
    verdicts
}

#[test]
fn as_the_managers_of_a_real_kubelet_decided() {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/managers.jsonl.gz");
    // Others can be looked at, too, such as new ones of `tests/transcripts/record/record`.
    let path = std::env::var_os("GPULET_TRANSCRIPTS").map_or(recorded, Into::into);
    let verdicts = replay(&path);
    let seen = |verdict: &str| verdicts.get(verdict).copied().unwrap_or(0);
    for verdict in ["admitted", "TopologyAffinityError", "UnexpectedAdmissionError"] {
        assert!(seen(verdict) > 100, "{verdict} is seen too seldom: {verdicts:?}");
    }
}

#[test]
fn as_the_kubelet_of_a_real_node_decided() {
    let verdicts = replay(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/node.jsonl"));
    assert!(verdicts["admitted"] >= 15 && verdicts["TopologyAffinityError"] >= 5, "{verdicts:?}");
}
