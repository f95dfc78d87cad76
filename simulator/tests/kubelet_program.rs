//! `gpulet-sim serve --kubelet`, `pod`, `kubelet` and `device-plugin` as programs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use gpulet_simulator::kubelet::{CpuState, Settings};
use tempfile::TempDir;

fn sim(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpulet-sim"));
    command.args(arguments).env_remove("GPULET_SIM_DIR");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A process that is killed with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

fn serve(dir: &Path, arguments: &[&str]) -> Process {
    let place = dir.to_str().unwrap();
    let mut command = sim(&[&["serve", "dgx-h100", "--dir", place, "--kubelet"], arguments].concat());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().contains("Ctrl-C stops it")), "it ended before it could be used");
    Process(child)
}

fn manifest(dir: &Path, name: &str, limits: &str) -> String {
    let path = dir.join(format!("{name}.yaml"));
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers:\n  - name: c\n    image: i\n    \
         resources: {{limits: {limits}}}\n"
    );
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn pods_come_and_go_by_command() {
    let dir = TempDir::new().unwrap();
    let _server = serve(dir.path(), &[]);
    let place = dir.path().to_str().unwrap();
    let act =
        |arguments: &[&str]| -> Output { sim(&[arguments, &["--dir", place]].concat()).output().unwrap() };
    let done = |arguments: &[&str]| {
        let output = act(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    };
    let fits = manifest(dir.path(), "fits", "{cpu: 4, memory: 1Gi, nvidia.com/gpu: 2}");
    done(&["pod", "add", &fits]);
    let state = dir.path().join("host/var/lib/kubelet/cpu_manager_state");
    let given = std::fs::read_to_string(&state).unwrap();
    let cpus: CpuState = serde_json::from_str(&given).unwrap();
    assert_eq!(cpus.checksum(), cpus.true_checksum());
    assert!(given.contains("\"c\":\""), "{given}");

    let wide =
        act(&["pod", "add", &manifest(dir.path(), "wide", "{cpu: 1, memory: 1Gi, nvidia.com/gpu: 5}")]);
    assert_eq!(wide.status.code(), Some(1));
    assert!(text(&wide.stderr).contains("TopologyAffinityError"), "{}", text(&wide.stderr));

    let process = dir.path().join("host/proc/1211");
    done(&["kubelet", "stop"]);
    assert!(!process.exists());
    done(&["kubelet", "start"]);
    assert!(process.exists());
    done(&["kubelet", "fault", "hang"]);
    done(&["kubelet", "fault", "none"]);
    done(&["pod", "end", "fits"]);
    assert!(!std::fs::read_to_string(&state).unwrap().contains("\"c\":\""));
    done(&["pod", "remove", "fits"]);
    assert_eq!(act(&["pod", "remove", "fits"]).status.code(), Some(1));
}

#[test]
fn a_gpu_that_is_lost_is_no_longer_given_away() {
    let dir = TempDir::new().unwrap();
    let _server = serve(dir.path(), &[]);
    let place = dir.path().to_str().unwrap();
    let checkpoint = dir.path().join("host/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint");
    let healthy = || std::fs::read_to_string(&checkpoint).unwrap().matches("GPU-").count();
    assert_eq!(healthy(), 8);
    assert!(sim(&["fault", "lose", "3", "--dir", place]).status().unwrap().success());
    let began = Instant::now();
    while healthy() != 7 {
        assert!(began.elapsed() < Duration::from_secs(30), "the plugin does not tell");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn its_settings_are_those_of_a_file() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("settings.yaml");
    std::fs::write(&file, "topologyManagerPolicy: best-effort\nmaxPods: 7\nclusterDomain: x\n").unwrap();
    let _server = serve(dir.path(), &[file.to_str().unwrap()]);
    let written = Settings::load(&dir.path().join("host/var/lib/kubelet/config.yaml")).unwrap();
    assert_eq!((written.max_pods, written.others["clusterDomain"].as_str()), (7, Some("x")));
}

#[test]
fn wrong_settings_and_nodes_are_told() {
    let dir = TempDir::new().unwrap();
    let place = dir.path().to_str().unwrap();
    let file = dir.path().join("settings.yaml");
    std::fs::write(&file, "cpuManagerPolicy: static\n").unwrap();
    let output =
        sim(&["serve", "a30-2x", "--dir", place, "--kubelet", file.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output.stderr).contains("reservedSystemCPUs"), "{}", text(&output.stderr));
    let output = sim(&["pod", "remove", "a", "--dir", place]).output().unwrap();
    assert!(text(&output.stderr).contains("serve it with --kubelet"), "{}", text(&output.stderr));
    let output = sim(&["device-plugin"]).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output.stderr).contains("--node"), "{}", text(&output.stderr));
}

#[test]
fn what_gpus_are_divided_into_is_offered_as_it_becomes() {
    let dir = TempDir::new().unwrap();
    let _server = serve(dir.path(), &["--mig", "mixed"]);
    let place = dir.path().to_str().unwrap();
    let smi = |arguments: &[&str]| {
        let output =
            Command::new(dir.path().join("host/usr/bin/nvidia-smi")).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}{}", text(&output.stdout), text(&output.stderr));
    };
    assert!(sim(&["load", "idle", "--dir", place]).status().unwrap().success());
    let checkpoint = dir.path().join("host/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint");
    let offered = || -> serde_json::Value {
        let checkpoint: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&checkpoint).unwrap()).unwrap();
        checkpoint["Data"]["RegisteredDevices"]["nvidia.com/mig-3g.40gb"].clone()
    };
    let eventually = |count: usize| {
        let patience = Instant::now() + Duration::from_secs(30);
        while offered().as_array().map(Vec::len) != Some(count) {
            assert!(Instant::now() < patience, "there are never {count}: {}", offered());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let admitted = |pod: &str| sim(&["pod", "add", pod, "--dir", place]).output().unwrap().status.success();
    let limits = "{cpu: 1, memory: 1Gi, nvidia.com/mig-3g.40gb: 1}";
    assert!(offered().is_null());
    smi(&["-i", "0", "-mig", "1"]);
    smi(&["mig", "-i", "0", "-cgi", "9", "-C"]);
    eventually(1);
    assert!(admitted(&manifest(dir.path(), "one", limits)));
    assert!(!admitted(&manifest(dir.path(), "another", limits)), "there is but one");
    assert!(sim(&["pod", "remove", "one", "--dir", place]).status().unwrap().success());
    smi(&["mig", "-i", "0", "-dci"]);
    smi(&["mig", "-i", "0", "-dgi"]);
    eventually(0);
    assert!(!admitted(&manifest(dir.path(), "gone", limits)));
}
