//! A virtual machine that is as good as bare: its firmware, two NUMA nodes, root complexes on either, PCIe switches.
//! `tests/vm/boot` draws it; gpulet and the tests of `host/tests/this_machine.rs` run in it. Needs root on Debian with the
//! packages qemu-system-x86, e2fsprogs and util-linux; `.ci/run` installs them and runs this test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::Message;
use gpulet_tests::gpulet;
use serde_json::Value;

/// The test program of `host/tests/this_machine.rs`, built if it is not.
fn this_machine() -> PathBuf {
    let arguments = [
        "test",
        "--package=gpulet-host",
        "--test=this_machine",
        "--no-run",
        "--locked",
        "--message-format=json",
    ];
    let mut cargo = Command::new(env!("CARGO")).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let messages = BufReader::new(cargo.stdout.take().unwrap());
    let built = Message::parse_stream(messages).filter_map(|message| match message.unwrap() {
        Message::CompilerArtifact(artifact) if artifact.target.name == "this_machine" => artifact.executable,
        _ => None,
    });
    let program = built.last();
    assert!(cargo.wait().unwrap().success());
    program.expect("cargo says where the program is").into()
}

/// What the programs of `tests/vm/run` left.
struct Left(tempfile::TempDir);

impl Left {
    /// Boots the machine with these programs, and waits for its end.
    fn by_machine_with(programs: &[(&str, &Path)]) -> Self {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("vm");
        let payload = tempfile::tempdir().unwrap();
        fs::copy(scripts.join("run"), payload.path().join("run")).unwrap();
        for (name, program) in programs {
            fs::copy(program, payload.path().join(name)).unwrap();
        }
        let left = tempfile::tempdir().unwrap();
        // Shows the console where it fails.
        let boot = Command::new(scripts.join("boot")).args([payload.path(), left.path()]).status().unwrap();
        assert!(boot.success(), "the machine did not come to its end");
        Self(left)
    }

    /// What the program `name` printed. It must have succeeded.
    fn output(&self, name: &str) -> String {
        let read = |what: &str| fs::read_to_string(self.0.path().join(format!("{name}.{what}"))).unwrap();
        let (output, errors) = (read("out"), read("err"));
        assert_eq!(read("status").trim(), "0", "{name} failed:\n{output}\n{errors}");
        output
    }
}

#[test]
#[ignore = "needs root, QEMU, and Debian packages for the machine"]
fn a_machine_with_two_numa_nodes_and_pcie_switches_is_told_as_it_is() {
    let this_machine = this_machine();
    let left = Left::by_machine_with(&[
        ("gpulet", Path::new(gpulet().get_program())),
        ("this_machine", &this_machine),
    ]);

    let topology: Value = serde_json::from_str(&left.output("topo")).unwrap();
    assert_eq!(numa_nodes(&topology), ["0: CPUs 0-1, distances [10,21]", "1: CPUs 2-3, distances [21,10]"]);
    assert_eq!(switches(&topology), ["21:00.0", "25:00.0 below 21:00.0", "81:00.0"]);
    assert_eq!(places(&topology), PLACES);
    assert_eq!(levels(&topology), LEVELS);
    assert_eq!(topology["oddities"], serde_json::json!([]));

    // lscpu, lspci, numactl and hwloc agree: every test ran and passed.
    let output = left.output("this-machine");
    let list = Command::new(&this_machine).args(["--ignored", "--list", "--format=terse"]).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let tests: Vec<_> = list.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    assert!(tests.len() >= 4, "{list}");
    let passed = format!("test result: ok. {} passed; 0 failed; 0 ignored", tests.len());
    assert!(output.contains(&passed), "{output}");
    // The comparison had ports that redirect and ports that do not.
    assert!(output.contains("acs_redirects: Some(true)"), "{output}");
    assert!(output.contains("acs_redirects: Some(false)"), "{output}");
}

/// The machine of `tests/vm/boot`, by its addresses: NUMA node, who says so, the nearest switch.
const PLACES: [&str; 8] = [
    "84:00.0 GPU: node 1 (sysfs), switch 81:00.0",
    "00:06.0 NIC0: node null (unknown), no switch",
    "23:00.0 NIC1: node 0 (sysfs), switch 21:00.0",
    "24:00.0 NIC2: node 0 (sysfs), switch 21:00.0",
    "27:00.0 NIC3: node 0 (sysfs), switch 25:00.0",
    "83:00.0 NIC4: node 1 (sysfs), switch 81:00.0",
    "85:00.0 NIC5: node 1 (sysfs), no switch",
    "c1:00.0 NIC6: node 1 (sysfs), no switch",
];

/// How near each device of [`PLACES`] is to those after it.
const LEVELS: [&str; 7] = [
    "SYS SYS SYS SYS PIX PHB NODE",
    "SYS SYS SYS SYS SYS SYS",
    "PIX PXB SYS SYS SYS",
    "PXB SYS SYS SYS",
    "SYS SYS SYS",
    "PHB NODE",
    "NODE",
];

fn array<'t>(topology: &'t Value, name: &str) -> &'t [Value] {
    topology[name].as_array().unwrap()
}

/// An address of domain 0, without it.
fn address(value: &Value) -> &str {
    value.as_str().unwrap().strip_prefix("0000:").unwrap()
}

fn numa_nodes(topology: &Value) -> Vec<String> {
    let told = |node: &Value| {
        // Of the 512 MiB of each, the kernel keeps some for itself.
        let mib = node["memory_bytes"].as_u64().unwrap() >> 20;
        assert!((400..=512).contains(&mib), "{node}");
        format!("{}: CPUs {}, distances {}", node["id"], node["cpus"].as_str().unwrap(), node["distances"])
    };
    array(topology, "numa_nodes").iter().map(told).collect()
}

fn switches(topology: &Value) -> Vec<String> {
    let switches = array(topology, "pcie_switches");
    let told = |switch: &Value| match switch["parent"].as_u64() {
        None => address(&switch["upstream"]).to_owned(),
        Some(above) => {
            let above = &switches[above as usize];
            format!("{} below {}", address(&switch["upstream"]), address(&above["upstream"]))
        }
    };
    switches.iter().map(told).collect()
}

fn places(topology: &Value) -> Vec<String> {
    let told = |label: &str, device: &Value| {
        let (numa, source) = (&device["numa"], device["numa"]["source"].as_str().unwrap());
        let switch = device["pcie_switch"].as_u64().map_or("no switch".to_owned(), |switch| {
            let switch = &topology["pcie_switches"][switch as usize];
            format!("switch {}", address(&switch["upstream"]))
        });
        format!("{} {label}: node {} ({source}), {switch}", address(&device["pci"]), numa["node"])
    };
    let gpus = array(topology, "gpus").iter().map(|gpu| told("GPU", gpu));
    let nics = array(topology, "nics").iter().map(|nic| told(nic["label"].as_str().unwrap(), nic));
    gpus.chain(nics).collect()
}

/// The levels of all pairs, one line per first device.
fn levels(topology: &Value) -> Vec<String> {
    let pairs = array(topology, "pairs");
    let rows = pairs.chunk_by(|one, other| one["a"] == other["a"]);
    rows.map(|row| row.iter().map(|pair| pair["level"].as_str().unwrap_or("?")).collect::<Vec<_>>().join(" "))
        .collect()
}
