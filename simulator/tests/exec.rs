//! `gpulet-sim exec` and signals: the command is as it would be without it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const CPU_ONLY: &str = "cpu-only";

/// Runs a shell's script on a node, with the signals as a terminal has them: whoever runs these tests (nohup, a job
/// in the background) may have some ignored, and children inherit that.
fn exec(script: &str) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,TERM", env!("CARGO_BIN_EXE_gpulet-sim")]);
    command.args(["exec", CPU_ONLY, "--", "sh", "-c", script]);
    command.stdout(Stdio::piped()).stderr(Stdio::inherit());
    command
}

fn line(child: &mut Child) -> (String, impl Read + use<>) {
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    (line.trim().to_owned(), said)
}

fn kill(name: &str, pid: u32) {
    assert!(Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn no_signal_is_blocked_that_was_not_before() {
    let blocked = |text: &str| text.lines().find(|line| line.starts_with("SigBlk:")).unwrap().to_owned();
    let output = exec("exec cat /proc/self/status").output().unwrap();
    let plain = Command::new("cat").arg("/proc/self/status").output().unwrap();
    let [there, here] = [output, plain].map(|output| blocked(&String::from_utf8(output.stdout).unwrap()));
    assert_eq!(there, here);
}

#[test]
fn a_command_that_a_signal_ends_gives_what_shells_make_of_it() {
    for (signal, code) in [("HUP", 129), ("INT", 130), ("KILL", 137), ("TERM", 143)] {
        let status = exec(&format!("kill -s {signal} $$")).status().unwrap();
        assert_eq!(status.code(), Some(code), "{signal}");
    }
}

#[test]
fn signals_are_passed_on() {
    for (signal, code) in [("HUP", 129), ("INT", 130), ("TERM", 143)] {
        let mut child = exec("echo ready; exec sleep 600").spawn().unwrap();
        let (said, _open) = line(&mut child);
        assert_eq!(said, "ready");
        kill(signal, child.id());
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal}");
    }
}

#[test]
fn a_command_does_not_outlive_its_node() {
    let mut child = exec("echo $GPULET_SIM_DIR; exec sleep 600").spawn().unwrap();
    let (dir, mut said) = line(&mut child);
    kill("KILL", child.id());
    // Ends when nobody has the pipe any more: not before the command has ended.
    assert_eq!(said.read_to_end(&mut Vec::new()).unwrap(), 0);
    child.wait().unwrap();
    assert!(Path::new(&dir).exists(), "a killed program removes nothing");
    std::fs::remove_dir_all(dir).unwrap();
}
