//! Where the driver says that GPUs sit, against published tables of such machines (`nvidia-smi topo -m`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use std::time::{Duration, Instant};

use gpulet_inventory::locality::{DriverLocality, Level};
use gpulet_inventory::reading::{Answer, Cause, Reading};
use gpulet_simulator::command::Command;
use gpulet_simulator::state::Effect;
use support::{Rig, all_up, unsupported, value};

const AFFINITY: &str = "nvmlDeviceGetCpuAffinityWithinScope";
const ANCESTOR: &str = "nvmlDeviceGetTopologyCommonAncestor";

/// One GPU's row of a published table: its cells towards GPUs and NICs, and what follows the cells.
struct Row {
    gpus: Vec<String>,
    nics: Vec<String>,
    cpus: String,
    numa: String,
}

fn published(table: &str, gpus: usize) -> Vec<Row> {
    let path = format!("{}/../simulator/tests/fixtures/{table}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let columns =
        lines.next().unwrap().split_whitespace().filter(|w| w.starts_with("GPU") || w.starts_with("NIC"));
    // The last `GPU` is that of `GPU NUMA ID`.
    let devices = columns.count() - 1;
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let cells = |of: std::ops::Range<usize>| words[of].iter().map(|word| (*word).to_owned()).collect();
        let (gpus, nics) = (cells(1..gpus + 1), cells(gpus + 1..devices + 1));
        Row { gpus, nics, cpus: words[devices + 1].into(), numa: words[devices + 2].into() }
    };
    lines.take(gpus).map(row).collect()
}

/// What the table says of two GPUs. It tells of their NVLinks where they have some; then it is what it says of the NIC
/// beside the one and the other.
fn expected(rows: &[Row], one: usize, other: usize) -> &str {
    let cell = &rows[one].gpus[other];
    if !cell.starts_with("NV") {
        return cell;
    }
    let beside = rows[one].nics.iter().position(|cell| cell == "PIX").unwrap();
    &rows[other].nics[beside]
}

fn words(locality: &DriverLocality) -> Vec<Vec<&'static str>> {
    let row = |levels: &Vec<Reading<Level>>| levels.iter().map(|level| value(level).as_str()).collect();
    locality.gpus.iter().map(|gpu| row(&gpu.levels)).collect()
}

#[tokio::test]
async fn levels_and_affinities_are_those_of_the_published_tables() {
    for (name, gpus) in [("dgx-h100", 8), ("l40s-4x", 4)] {
        let rig = Rig::new(name);
        let listed = rig.tick().await;
        let locality = rig.driver.locality().await;
        assert_eq!(locality.gpus.len(), gpus);
        let rows = published(name, gpus);
        let found = words(&locality);
        for (at, (row, gpu)) in rows.iter().zip(&locality.gpus).enumerate() {
            assert_eq!(gpu.uuid, listed.gpus[at].gpu.uuid);
            assert_eq!(value(&gpu.cpu_affinity).to_string(), row.cpus, "{name} {at}");
            assert_eq!(value(&gpu.memory_affinity).to_string(), row.numa, "{name} {at}");
            assert_eq!(unsupported(&gpu.own_numa_node).1, Cause::Code(3));
            for (other, word) in found[at].iter().enumerate() {
                assert_eq!(*word, expected(&rows, at, other), "{name} {at} {other}");
            }
        }
    }
}

#[tokio::test]
async fn a_grace_tells_of_its_links_and_its_memory() {
    let rig = Rig::new("gb200-tray");
    rig.tick().await;
    let locality = rig.driver.locality().await;
    let truth = rig.node.state();
    for (gpu, truth) in locality.gpus.iter().zip(&truth.gpus) {
        assert_eq!(value(&gpu.c2c_links), truth.board.c2c_links);
        assert!(value(&gpu.c2c_links) > 0);
        assert_eq!(Some(value(&gpu.own_numa_node)), truth.identity.memory_numa_node);
        let numa: Vec<u32> = value(&gpu.memory_affinity).iter().collect();
        let bits =
            |word: usize| (0..64).filter(move |bit| truth.identity.memory_affinity[word] >> bit & 1 == 1);
        let expected: Vec<u32> = (0..truth.identity.memory_affinity.len())
            .flat_map(|word| bits(word).map(move |bit| word as u32 * 64 + bit))
            .collect();
        assert_eq!(numa, expected);
    }
}

#[tokio::test]
async fn where_the_firmware_names_no_node_the_driver_does_not_either() {
    let rig = Rig::new("consumer-numa-unknown");
    rig.tick().await;
    let locality = rig.driver.locality().await;
    for gpu in &locality.gpus {
        assert_eq!(unsupported(&gpu.memory_affinity).0, "nvmlDeviceGetMemoryAffinity");
        assert!(!value(&gpu.cpu_affinity).is_empty());
    }
}

#[tokio::test]
async fn it_is_read_once_while_the_driver_stays_open() {
    let rig = Rig::new("l40s-4x");
    assert_eq!(rig.driver.locality().await, DriverLocality::default(), "nothing is open yet");
    rig.tick().await;
    let first = rig.driver.locality().await;
    let before = rig.tick().await.calls.made;
    let sampling = rig.tick().await.calls.made - before;
    for _ in 0..10 {
        assert_eq!(rig.driver.locality().await, first);
    }
    let made = rig.tick().await.calls.made - before - sampling;
    // One tick, and the count of GPUs and events in between; ten readings would be some two hundred calls.
    assert!(made < sampling + 40, "{made} calls, {sampling} for a tick");

    rig.driver.quiesce(Duration::from_secs(20)).await.unwrap();
    assert_eq!(rig.driver.locality().await, DriverLocality::default());
    rig.driver.resume().await;
    rig.tick().await;
    assert_eq!(rig.driver.locality().await, first);
}

#[tokio::test]
async fn a_gpu_that_hangs_costs_only_its_own_entries() {
    let rig = Rig::with_deadline("dgx-h100", Duration::from_secs(2));
    rig.tick_until(|gpus| all_up(gpus, 8)).await;
    let fault = rig.fault(Some(3), AFFINITY, Effect::Block);
    let start = Instant::now();
    let locality = rig.driver.locality().await;
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    let busy = |call| Reading::<Level>::Failed(Answer { call, cause: Cause::Busy });
    let is_busy =
        |reading: &Reading<_>| matches!(reading, Reading::Failed(Answer { cause: Cause::Busy, .. }));
    for (at, gpu) in locality.gpus.iter().enumerate() {
        assert_eq!(is_busy(&gpu.cpu_affinity), at == 3, "{at}: {:?}", gpu.cpu_affinity);
        for (other, level) in gpu.levels.iter().enumerate() {
            // The others were asked about it before it hung, or it was to be asked about them.
            let lacks = at != other && (at == 3 && other > 3 || other == 3 && at > 3);
            assert_eq!(*level == busy(ANCESTOR), lacks, "{at} {other}: {level:?}");
        }
    }
    // Its sampling hangs as well, since a GPU has one thread; the others' does not.
    let stuck = rig.tick_until(|gpus| support::is_unresponsive(&gpus.gpus[3], AFFINITY)).await;
    assert_eq!(stuck.calls.stuck_threads, 1);
    let start = Instant::now();
    for _ in 0..10 {
        rig.driver.locality().await;
    }
    assert!(start.elapsed() < Duration::from_secs(10), "it is not waited for again: {:?}", start.elapsed());

    rig.clear(fault);
    rig.tick_until(|gpus| all_up(gpus, 8)).await;
    let whole = rig.driver.locality().await;
    assert!(whole.gpus.iter().all(|gpu| gpu.levels.iter().all(|level| level.value().is_some())));
}

#[tokio::test]
async fn what_is_refused_for_now_is_asked_again() {
    let rig = Rig::new("l40s-4x");
    rig.tick().await;
    rig.command(Command::Lose { gpu: 2 });
    rig.tick().await;
    let without = rig.driver.locality().await;
    let lost = Reading::Failed(Answer { call: ANCESTOR, cause: Cause::Code(15) });
    assert_eq!(without.gpus[0].levels[2], lost);
    assert_eq!(without.gpus[3].levels[2], lost);
    assert_eq!(value(&without.gpus[0].levels[1]), Level::Node);
    assert!(matches!(without.gpus[2].cpu_affinity, Reading::Failed(_)));
    rig.command(Command::Restore { gpu: 2 });
    rig.tick_until(|gpus| all_up(gpus, 4)).await;
    let whole = rig.driver.locality().await;
    assert_eq!(value(&whole.gpus[3].levels[2]), Level::Node);
    assert_eq!(value(&whole.gpus[2].cpu_affinity).to_string(), "96-191,288-383");
}

#[tokio::test]
async fn a_driver_without_scopes_is_asked_by_the_older_call() {
    let rig = Rig::new("l40s-4x");
    rig.fault(None, AFFINITY, Effect::Return(13));
    rig.tick().await;
    let locality = rig.driver.locality().await;
    assert_eq!(value(&locality.gpus[0].cpu_affinity).to_string(), "0-95,192-287");
    // Where neither works it is the newer call's refusal that is told.
    let rig = Rig::new("l40s-4x");
    for call in [AFFINITY, "nvmlDeviceGetCpuAffinity"] {
        rig.fault(None, call, Effect::Return(13));
    }
    rig.tick().await;
    let locality = rig.driver.locality().await;
    assert_eq!(unsupported(&locality.gpus[0].cpu_affinity), (AFFINITY, Cause::Code(13)));
}
