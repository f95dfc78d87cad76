//! The machine's own programs.

use std::process::{Command as Process, Output};

use gpulet_simulator::command::{Applied, Command, RESET_SYMBOL, Strike};
use gpulet_simulator::state::Effect;
use serde_json::Value;

use super::*;

fn run(test: &TestNode, program: &str, arguments: &[&str]) -> Output {
    Process::new(test.node.host_root().join("usr/bin").join(program)).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}

#[test]
fn nvidia_smi_resets_what_nobody_has_open() {
    let test = idle();
    let reset = || run(&test, "nvidia-smi", &["--gpu-reset", "-i", "0000:11:00.0"]);
    let refused = |words: &str| {
        let output = reset();
        assert_eq!(output.status.code(), Some(19), "{}", said(&output));
        assert!(
            said(&output).contains("In use by another client") && said(&output).contains(words),
            "{}",
            said(&output)
        );
    };
    refused("persistence mode");
    let off = run(&test, "nvidia-smi", &["-i", "0", "-pm", "0"]);
    assert!(off.status.success(), "{}", said(&off));
    hold(&test, A100, 4711, None);
    refused("process 4711 (python3 train.py)");
    test.node.command(Command::Release { pid: 4711, gpu: None }).unwrap();
    let driver = Driver::open(&test);
    driver.gpu(A100);
    refused(&format!("process {}", std::process::id()));
    drop(driver);
    let done = reset();
    assert!(done.status.success(), "{}", said(&done));
    assert_eq!(
        test.node.state().gpus.iter().map(|gpu| gpu.resets).collect::<Vec<_>>(),
        [1, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(run(&test, "nvidia-smi", &["-r", "-i", "99"]).status.code(), Some(6));
    assert_eq!(run(&test, "nvidia-smi", &["-q"]).status.code(), Some(2));
    let list = said(&run(&test, "nvidia-smi", &["-L"]));
    assert!(list.starts_with("GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-"), "{list}");
    assert_eq!(list.matches("  MIG ").count(), 6, "{list}");
}

#[test]
fn a_reset_can_be_struck() {
    let test = idle();
    test.node.command(Command::Persistence { gpu: A100, on: false }).unwrap();
    let strike = |after| Strike {
        gpu: Some(A100),
        symbol: Some(RESET_SYMBOL.to_owned()),
        changing: false,
        nth: 1,
        times: 1,
        after,
        effect: Effect::Return(999),
    };
    for (after, resets) in [(false, 0), (true, 1)] {
        let set = test.node.command(Command::Strike(strike(after))).unwrap();
        assert!(matches!(set, Applied::Fault { .. }));
        let output = run(&test, "nvidia-smi", &["--gpu-reset", "-i", "0"]);
        assert!(!output.status.success() && said(&output).contains("999"), "{}", said(&output));
        assert_eq!(state(&test, A100).resets, resets);
    }
    assert_eq!(state(&test, A100).changing_calls, 2);
}

#[test]
fn the_toolkit_names_what_there_is_and_brings_what_has_device_files() {
    let (test, driver) = empty(H100);
    let instance = driver.create_at(H100, 14, (0, 2)).unwrap();
    let uuid = driver.uuid(driver.create_compute(instance, 1).unwrap());
    let path = test.node.host_root().join("etc/cdi/nvidia.yaml");
    let make = || -> Value {
        let output = format!("--output={}", path.display());
        let made = run(&test, "nvidia-ctk", &["cdi", "generate", &output, "--device-name-strategy=uuid"]);
        assert!(made.status.success(), "{}", said(&made));
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap()
    };
    let files = |specification: &Value| -> Vec<String> {
        let devices = specification["devices"].as_array().unwrap();
        let own = devices.iter().find(|device| device["name"] == uuid.as_str()).unwrap();
        let nodes = own["containerEdits"]["deviceNodes"].as_array().unwrap();
        nodes.iter().map(|node| node["path"].as_str().unwrap().to_owned()).collect()
    };
    let specification = make();
    assert_eq!(specification["kind"], "nvidia.com/gpu");
    assert_eq!(files(&specification), ["/dev/nvidia1"], "nobody has made the device files");
    for node in ["nvidia-cap165", "nvidia-cap166"] {
        std::fs::write(test.node.host_root().join("dev/nvidia-caps").join(node), "").unwrap();
    }
    let with = ["/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap165", "/dev/nvidia-caps/nvidia-cap166"];
    assert_eq!(files(&make()), with);
    let refreshed = run(&test, "systemctl", &["restart", "nvidia-cdi-refresh.service"]);
    assert!(refreshed.status.success() && test.node.host_root().join("var/run/cdi/nvidia.yaml").exists());
}

#[test]
fn systemctl_starts_the_machine_anew() {
    let test = idle();
    assert_eq!(run(&test, "systemctl", &["stop", "kubelet.service"]).status.code(), Some(5));
    assert!(run(&test, "systemctl", &["reboot", "--no-block"]).status.success());
    let state = test.node.state();
    assert_eq!((state.boots, state.driver.load, state.driver.loaded), (2, 2, true));
}

#[test]
fn a_person_divides_gpus_by_hand() {
    let test = idle();
    let smi = |arguments: &[&str]| run(&test, "nvidia-smi", arguments);
    let done = |arguments: &[&str]| {
        let output = smi(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        said(&output)
    };
    assert!(done(&["-i", "0", "-mig", "1"]).contains("pending enable"), "persistence mode is on");
    assert!(done(&["-i", "1", "-mig", "1"]).contains("enabled"));
    done(&["mig", "-i", "1", "-cgi", "9,1g.10gb:0", "-C"]);
    assert_eq!(places(&test, H100), [(2, (4, 4)), (7, (0, 1))]);
    assert!(state(&test, H100).mig.unwrap().instances.iter().all(|instance| instance.compute.len() == 1));
    assert_eq!(smi(&["mig", "-i", "1", "-cgi", "7g.80gb"]).status.code(), Some(23));
    assert_eq!(
        smi(&["mig", "-i", "1", "-dgi", "-gi", "2"]).status.code(),
        Some(19),
        "it has a compute instance"
    );
    done(&["mig", "-i", "1", "-dci", "-gi", "2"]);
    done(&["mig", "-i", "1", "-dgi", "-gi", "2"]);
    assert!(done(&["mig", "-i", "1", "-lgi"]).contains("instance  7  0:1"));
    assert_eq!(places(&test, H100), [(7, (0, 1))]);
}

#[test]
fn a_change_is_stopped_by_command() {
    let test = idle();
    let dir = test.node.dir().to_str().unwrap().to_owned();
    let sim = |arguments: &[&str]| {
        let mut command = Process::new(env!("CARGO_BIN_EXE_gpulet-sim"));
        command.args(arguments).args(["--dir", &dir]).output().unwrap()
    };
    let done = |arguments: &[&str]| {
        let output = sim(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let driver = Driver::open(&test);
    let id = done(&["fault", "call", "--changing", "--nth", "2", "--return", "IN_USE"]);
    let early = sim(&["fault", "wait", &id, "--timeout", "20ms"]);
    assert!(!early.status.success() && said(&early).contains("of the 0"), "{}", said(&early));
    assert_eq!([driver.set_mode(H100, 1).0, driver.set_mode(H100, 0).0], [OK, IN_USE]);
    done(&["fault", "wait", &id]);
    assert!(done(&["state"]).contains("2 counted, 1 struck"));
    done(&["fault", "clear", &id]);
    let every = done(&["fault", "call", "--symbol", "nvmlDeviceGetName", "--delay", "10ms"]);
    assert!(said(&sim(&["fault", "wait", &every])).contains("strikes every call"));

    done(&["observe", "1", "--pid", "900", "--name", "nv-hostengine -n"]);
    assert!(done(&["state"]).contains("(900)"));
    assert!(said(&sim(&["reset", "1"])).contains("900"));
    done(&["release", "--pid", "900"]);
    done(&["set", "persistence", "1", "off"]);
    driver.create_at(H100, 9, (4, 4)).unwrap();
    assert!(done(&["state"]).contains("GPU instance  2  3g.40gb at 4:4"));
    drop(driver);
    done(&["reset", "1"]);
    done(&["reboot"]);
    let state = test.node.state();
    assert_eq!((state.boots, state.gpus[H100 as usize].resets), (2, 1));
}
