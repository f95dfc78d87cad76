//! `topo`, `best` and `collect`, and the daemon's topology, on simulated nodes.

#![cfg(feature = "simulator")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use common::node::Node;
use common::{gpulet, stderr, stdout, value, wait_until};
use gpulet_simulator::command::{Command as Happening, Hold};
use gpulet_simulator::state::{Effect, ProcessKind};
use serde_json::Value;

/// Expects what is there now.
fn expect(node: &Node) {
    let profile = node.file("expected.yaml");
    done(&node.run(&["topo", "--save", profile.to_str().unwrap()]));
    node.configure(&format!("topology: {{expected-profile: {}}}\n", profile.display()));
}

/// Takes the NIC at `pci` out of the machine.
fn pull_nic(node: &Node, pci: &str) {
    let root = node.simulated.host_root();
    let device = fs::canonicalize(root.join("sys/bus/pci/devices").join(pci)).unwrap();
    fs::remove_file(root.join("sys/bus/pci/devices").join(pci)).unwrap();
    fs::remove_dir_all(device).unwrap();
}

/// What a program printed that did what it should.
fn done(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    stdout(output)
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&done(output)).unwrap()
}

/// What a program says that fails with this exit code.
fn refused(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{}", stderr(output));
    assert!(output.stdout.is_empty(), "{}", stdout(output));
    stderr(output)
}

/// The words of each line up to the first empty one.
fn words(table: &str) -> Vec<Vec<String>> {
    let lines = table.lines().skip_while(|line| line.starts_with('#'));
    let lines = lines.take_while(|line| !line.trim().is_empty());
    lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

fn reasons(findings: &Value) -> Vec<(String, String)> {
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let findings = findings.as_array().unwrap().iter();
    findings.map(|finding| (text(finding, "reason"), text(finding, "subject"))).collect()
}

#[test]
fn the_table_is_the_published_one_cell_by_cell() {
    for (name, published) in [
        ("dgx-h100", include_str!("../../simulator/tests/fixtures/dgx-h100.txt")),
        ("l40s-4x", include_str!("../../simulator/tests/fixtures/l40s-4x.txt")),
    ] {
        let table = done(&Node::start(name).run(&["topo"]));
        assert_eq!(words(&table), words(published), "{name}: {table}");
        assert!(table.contains("Legend:") && table.contains("mlx5_0"), "{table}");
        assert!(!table.contains("Findings:"), "nothing is wrong with it: {table}");
    }
}

#[test]
fn json_dot_and_picture_are_what_their_names_say() {
    let node = Node::start("dgx-h100");
    let topology = json(&node.run(&["topo", "-o", "json"]));
    assert_eq!(topology["gpus"].as_array().unwrap().len(), 8);
    assert_eq!(topology["nics"].as_array().unwrap().len(), 13);
    assert_eq!(topology["pairs"].as_array().unwrap().len(), 21 * 20 / 2);
    assert_eq!(topology["gpus"][5]["numa"]["source"], "sysfs");
    assert_eq!(reasons(&topology["findings"]), []);
    let dot = done(&node.run(&["topo", "--output", "dot"]));
    assert!(dot.starts_with("graph topology {") && dot.contains("mlx5_12"), "{dot}");
    let svg = done(&node.run(&["topo", "-o", "svg"]));
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
    refused(&node.run(&["topo", "-o", "png"]), 64);
}

#[test]
fn without_driver_there_is_still_the_kernels_view() {
    let node = Node::start("dgx-h100");
    let output = node.gpulet().args(["--nvml-library", "/nonexistent/nvml.so", "topo"]).output().unwrap();
    let table = done(&output);
    let addresses = words(&table)[0].iter().filter(|label| label.starts_with("0000:")).count();
    assert_eq!(addresses, 8, "the driver gives no numbers, so addresses stand for them: {table}");
    assert!(table.contains("The driver is down (LibraryNotFound)"), "{table}");
}

#[test]
fn a_driver_that_opens_slowly_is_waited_for() {
    let node = Node::start("l40s-4x");
    fs::write(node.file("config.yaml"), "sampling: {deadline: 50ms}\n").unwrap();
    let symbol = Some("nvmlInitWithFlags".to_owned());
    node.simulated.command(Happening::SetFault { gpu: None, symbol, effect: Effect::Block }).unwrap();
    let mut command = node.gpulet();
    let mut topo = command.arg("topo").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(topo.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("waiting for it"), "{line}");
    node.simulated.command(Happening::ClearFault { id: None }).unwrap();
    let output = topo.wait_with_output().unwrap();
    assert!(done(&output).contains("GPU3  SYS   SYS   NODE"), "{}", stdout(&output));
}

#[test]
fn four_of_eight_come_from_one_numa_node() {
    let node = Node::start("dgx-h100");
    let text = done(&node.run(&["best", "--gpus", "4"]));
    assert!(text.starts_with("gpus:   0,1,2,3\nuuids:  GPU-"), "{text}");
    assert!(
        text.contains("\nscore:  ") && text.contains("18 NVLinks between every two; NUMA node 0;"),
        "{text}"
    );
    let best = json(&node.run(&["best", "--gpus", "4", "-o", "json"]));
    let labels: Vec<&str> =
        best["gpus"].as_array().unwrap().iter().map(|gpu| gpu["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["GPU0", "GPU1", "GPU2", "GPU3"]);
    let parts = ["nvlink", "numa", "pcie", "nic", "left"].map(|part| best["score"][part].as_u64().unwrap());
    assert_eq!(best["score"]["total"].as_u64().unwrap(), parts.iter().sum::<u64>());
}

#[test]
fn what_is_free_and_what_must_be_in_it_are_heard() {
    let node = Node::start("dgx-h100");
    let gpus = |arguments: &[&str]| {
        let text = done(&node.run(&[&["best", "--gpus", "2"], arguments].concat()));
        text.lines().next().unwrap().trim_start_matches("gpus:").trim().to_owned()
    };
    assert_eq!(gpus(&["--must", "6"]), "6,7");
    assert_eq!(gpus(&["--free", "0,4-7"]), "4,5");
    assert_eq!(gpus(&["--free", "1,GPU3,0000:df:00.0"]), "1,3");
    let topology = json(&node.run(&["topo", "-o", "json"]));
    assert_eq!(gpus(&["--must", topology["gpus"][5]["uuid"].as_str().unwrap()]), "4,5");
    node.simulated.command(Happening::Lose { gpu: 4 }).unwrap();
    let text = done(&node.run(&["best", "--gpus", "2", "--free", "4-7"]));
    assert!(text.starts_with("gpus:   6,7\n"), "{text}");
    assert!(text.contains("passed over, for they do not answer: 4"), "{text}");
}

#[test]
fn wishes_that_cannot_be_met_and_lists_that_are_none_are_told_apart() {
    let node = Node::start("l40s-4x");
    for arguments in [
        &["--gpus", "5"][..],
        &["--gpus", "2", "--free", "1"],
        &["--gpus", "1", "--free", "1", "--must", "2"],
        &["--gpus", "1", "--free", ""],
    ] {
        refused(&node.run(&[&["best"], arguments].concat()), 3);
    }
    for arguments in [
        &["--gpus", "0"][..],
        &["--gpus", "two"],
        &["--gpus", "1", "--must", "1,2"],
        &["--gpus", "1", "--free", "4"],
        &["--gpus", "1", "--free", "0-9"],
        &["--gpus", "1", "--must", "GPU-8f6d2c3a-1111-2222-3333-444444444444"],
        &["--gpus", "1", "--must", "0000:ff:00.0"],
        &["--gpus", "1", "--must", "first"],
        &[],
    ] {
        refused(&node.run(&[&["best"], arguments].concat()), 64);
    }
    let told = refused(&node.run(&["best", "--gpus", "1", "--free", "7"]), 64);
    assert!(told.contains("there is no GPU `7`; this node has GPU0, GPU1, GPU2 and GPU3"), "{told}");
}

#[test]
fn what_differs_from_the_expected_is_told_everywhere() {
    let node = Node::start("dgx-h100");
    expect(&node);
    let daemon = node.daemon();
    let count = |scrape: &str, reason: &str| {
        value(scrape, &format!("gpulet_topology_findings{{reason=\"{reason}\"}}")).unwrap()
    };
    let scrape = daemon.get("/metrics").1;
    for reason in ["NvlinkDegraded", "NicMissing", "GpuMissing", "GpuDown"] {
        assert!(count(&scrape, reason).abs() < 1e-9, "{scrape}");
    }

    node.simulated.command(Happening::Link { gpu: 3, link: 7, up: false }).unwrap();
    pull_nic(&node, "0000:e9:00.0");
    let scrape = daemon.scrape_until("both are found", |scrape| {
        count(scrape, "NvlinkDegraded") > 0.0 && count(scrape, "NicMissing") > 0.0
    });
    assert!((count(&scrape, "NvlinkDegraded") - 1.0).abs() < 1e-9, "{scrape}");
    let expected = [
        ("NicMissing".to_owned(), "0000:e9:00.0".to_owned()),
        ("NvlinkDegraded".to_owned(), "GPU3".to_owned()),
    ];
    let page: Value = serde_json::from_str(&daemon.get("/topology").1).unwrap();
    let mut found = reasons(&page["topology"]["findings"]);
    found.retain(|found| expected.contains(found));
    assert_eq!(found, expected);
    for (reason, subject) in &expected {
        let logged = daemon.logged("topology finding");
        let logged = logged.iter().find(|event| event["reason"] == **reason).unwrap();
        assert_eq!(logged["subject"], **subject);
        assert!(!logged["remedy"].as_str().unwrap().is_empty());
    }

    let table = done(&node.run(&["topo"]));
    let (_, findings) = table.split_once("\nFindings:\n").unwrap();
    for part in [
        "  GPU3: NvlinkDegraded (fault)\n    seen:   17 NVLinks are up, expected are 18; down: 7\n    remedy: ",
        "  0000:e9:00.0: NicMissing (fault)\n    seen:   mlx5_12 is expected there",
    ] {
        assert!(findings.contains(part), "lacks {part}: {findings}");
    }
    assert_eq!(page["topology"]["findings"], json(&node.run(&["topo", "-o", "json"]))["findings"]);

    node.simulated.command(Happening::Link { gpu: 3, link: 7, up: true }).unwrap();
    daemon.scrape_until("the link is up", |scrape| count(scrape, "NvlinkDegraded").abs() < 1e-9);
    daemon.wait_for_event("a topology finding is gone", 1);
}

#[test]
fn a_lost_gpu_is_down_in_the_topology_too() {
    let node = Node::start("l40s-4x");
    expect(&node);
    let daemon = node.daemon();
    node.simulated.command(Happening::Lose { gpu: 2 }).unwrap();
    let page = wait_until("the GPU is down", || {
        let page: Value = serde_json::from_str(&daemon.get("/topology").1).unwrap();
        (page["topology"]["gpus"][2]["down"] == "Lost").then_some(page)
    });
    assert_eq!(page["gpus"][2]["reason"], "Lost");
    assert_eq!(reasons(&page["topology"]["findings"]), [("GpuDown".to_owned(), "GPU2".to_owned())]);
    let series = "gpulet_topology_findings{reason=\"GpuDown\"}";
    daemon.scrape_until("it is counted", |scrape| value(scrape, series) == Some(1.0));
    let table = done(&node.run(&["topo"]));
    assert!(table.contains("GPU2 does not answer: Lost"), "{table}");
    assert!(table.contains("GPU2: GpuDown (fault)\n    seen:   the driver gets no answer"), "{table}");
}

#[test]
fn a_profile_that_cannot_be_read_is_told_and_hides_nothing() {
    let node = Node::start("l40s-4x");
    node.configure("topology: {expected-profile: /nonexistent/expected.yaml}\n");
    let table = done(&node.run(&["topo"]));
    assert!(table.contains("/nonexistent/expected.yaml: ProfileUnreadable (fault)"), "{table}");
    assert!(words(&table).len() == 7, "{table}");
    let scrape = done(&node.run(&["metrics"]));
    assert_eq!(value(&scrape, "gpulet_topology_findings{reason=\"ProfileUnreadable\"}"), Some(1.0));
    let output = node.run(&["topo", "--save", "/nonexistent/expected.yaml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot write the expected profile /nonexistent/expected.yaml"));
}

#[test]
fn the_daemon_serves_the_model_and_the_picture() {
    let node = Node::start("dgx-h100");
    let daemon = node.daemon();
    let page: Value = serde_json::from_str(&daemon.get("/topology").1).unwrap();
    assert_eq!(
        page["topology"],
        json(&node.run(&["topo", "-o", "json"])),
        "as `gpulet topo -o json` prints it"
    );
    assert_eq!(page["gpus"].as_array().unwrap().len(), 8);
    let (status, picture) = daemon.get("/topology.svg");
    assert_eq!(status, 200);
    assert_eq!(picture, done(&node.run(&["topo", "-o", "svg"])));
    let scrape = daemon.get("/metrics").1;
    assert!(value(&scrape, "gpulet_topology_discoveries_total").unwrap() >= 1.0);
    let known = daemon.wait_for_event("topology known", 1);
    assert_eq!((known["gpus"].as_u64(), known["nics"].as_u64()), (Some(8), Some(13)));
    daemon.scrape_until("further discoveries", |scrape| {
        value(scrape, "gpulet_topology_discoveries_total").is_some_and(|count| count >= 4.0)
    });
    assert_eq!(daemon.logged("topology changed").len(), 0, "what stays is logged once");
}

#[test]
fn the_largest_free_sets_follow_processes_and_lost_gpus() {
    let node = Node::start("dgx-h100");
    node.idle();
    let daemon = node.daemon();
    let free = |numa_node: f64, pcie_switch: f64, nvlink_island: f64| {
        daemon.scrape_until("free sets", |scrape| {
            let sets =
                [("numa_node", numa_node), ("pcie_switch", pcie_switch), ("nvlink_island", nvlink_island)];
            sets.iter().all(|(within, gpus)| {
                let series = format!("gpulet_topology_largest_free_set{{within=\"{within}\"}}");
                value(scrape, &series) == Some(*gpus)
            })
        });
    };
    free(4.0, 2.0, 8.0);
    for gpu in [0, 1, 2, 4] {
        let memory_bytes = Some(1 << 30);
        let hold = Hold {
            gpu,
            pid: 4000 + gpu,
            kind: ProcessKind::Compute,
            memory_bytes,
            instance: None,
            name: "train".into(),
            cgroup: None,
        };
        node.simulated.command(Happening::Hold(hold)).unwrap();
    }
    free(3.0, 2.0, 4.0);
    node.simulated.command(Happening::Lose { gpu: 6 }).unwrap();
    free(2.0, 1.0, 3.0);
}

/// Collects from `node` and gives the bundle.
fn collect(node: &Node) -> PathBuf {
    let bundle = node.file("node.tar.gz");
    let told = done(&node.run(&["collect", bundle.to_str().unwrap()]));
    assert!(told.contains("the driver said of") && told.contains("stand-ins"), "{told}");
    bundle
}

/// Runs on a bundle, far from any node.
fn replay(bundle: &Path, arguments: &[&str]) -> Output {
    gpulet().arg("--host-root").arg(bundle).args(arguments).output().unwrap()
}

#[test]
fn what_was_collected_shows_the_same_elsewhere() {
    let node = Node::start("dgx-h100");
    node.simulated.command(Happening::Link { gpu: 6, link: 2, up: false }).unwrap();
    let bundle = collect(&node);
    let (table, best) = (done(&node.run(&["topo"])), done(&node.run(&["best", "--gpus", "3"])));
    let scrape = done(&node.run(&["metrics"]));
    drop(node.simulated);
    assert_eq!(done(&replay(&bundle, &["topo"])), table);
    assert!(table.contains("GPU6: NvlinkDegraded"), "{table}");
    assert_eq!(done(&replay(&bundle, &["best", "--gpus", "3"])), best);
    let replayed = done(&replay(&bundle, &["metrics"]));
    let infos = |scrape: &str| {
        let lines = scrape.lines().filter(|line| line.starts_with("gpulet_gpu_nvlink_up{"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(infos(&replayed), infos(&scrape));
    assert_eq!(infos(&replayed).len(), 8 * 18);
}

#[test]
fn names_of_people_and_places_stay_at_home() {
    let node = Node::start("dgx-h100");
    let serial = node.simulated.state().gpus[0].identity.serial.clone();
    let bundle = collect(&node);
    let unpacked = std::process::Command::new("tar").arg("-xzOf").arg(&bundle).output().unwrap();
    let text = String::from_utf8_lossy(&unpacked.stdout).into_owned();
    assert!(unpacked.status.success() && text.contains("NVIDIA H100 80GB HBM3"));
    let serial = serial.expect("the board has a serial number");
    assert!(!text.contains(&serial) && text.contains("stand-in-1"), "{serial}");
}

#[test]
fn a_file_that_is_no_bundle_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bundle");
    let hostile = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        for arguments in [&["topo"][..], &["best", "--gpus", "1"], &["metrics"]] {
            let told = refused(&replay(&file, arguments), 64);
            assert!(told.contains("bundle") && told.contains("gpulet collect"), "{told}");
        }
    };
    hostile(b"");
    hostile(b"no archive at all");
    hostile(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xff, 0xff]);
    // An archive of something else, and a bundle cut short.
    let other = directory.path().join("other.tar.gz");
    fs::write(directory.path().join("passwd"), "root").unwrap();
    let tar = |arguments: &[&str]| {
        let tar = std::process::Command::new("tar").current_dir(directory.path()).args(arguments).status();
        assert!(tar.unwrap().success());
        fs::read(&other).unwrap()
    };
    hostile(&tar(&["-czf", "other.tar.gz", "passwd"]));
    let node = Node::start("l40s-4x");
    let whole = fs::read(collect(&node)).unwrap();
    hostile(&whole[..whole.len() / 2]);
    // A bundle in which the driver says nonsense.
    fs::create_dir(directory.path().join("attachments")).unwrap();
    fs::write(directory.path().join("attachments/nvml.json"), "{\"driver\": 7}").unwrap();
    fs::write(directory.path().join("gpulet-bundle"), "1\n").unwrap();
    hostile(&tar(&["-czf", "other.tar.gz", "gpulet-bundle", "attachments/nvml.json"]));
    // Without anything of the driver's it is the kernel's view.
    fs::write(&file, tar(&["-czf", "other.tar.gz", "gpulet-bundle"])).unwrap();
    assert!(done(&replay(&file, &["topo"])).contains("The driver is down (NotRecorded)"));
}

#[test]
fn a_bundle_is_no_machine() {
    let node = Node::start("l40s-4x");
    let bundle = collect(&node);
    for arguments in [&["run", "--listen", "127.0.0.1:0"][..], &["collect", "/dev/null"]] {
        let told = refused(&replay(&bundle, arguments), 64);
        assert!(told.contains("is no directory"), "{told}");
    }
    let output = node.run(&["collect", "/nonexistent/bundle"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot write /nonexistent/bundle"), "{}", stderr(&output));
}
