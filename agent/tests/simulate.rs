//! `gpulet simulate`, and the daemon on a simulated node that outlives it.

#![cfg(feature = "simulator")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod common;

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Daemon, gpulet, processes_with, run, stderr, value, wait_until};
use gpulet_simulator::command::Command as Happening;
use gpulet_simulator::state::Effect;
use gpulet_simulator::{ClockMode, SimulatedNode};
use nix::sys::signal::Signal;

/// `gpulet simulate NODE` with its directory below `within`.
fn simulate(node: &str, within: &Path) -> Daemon {
    let mut command = gpulet();
    command.args(["simulate", node, "--listen", "127.0.0.1:0"]).env("TMPDIR", within);
    command.stdout(fs::File::create(within.join("stdout")).unwrap());
    Daemon::start(command)
}

/// Directories of simulated nodes below `within`.
fn nodes(within: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(within).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}

fn gone(within: &Path) {
    let text = within.to_str().unwrap();
    wait_until("no process and no directory is left", || {
        (processes_with(text).is_empty() && nodes(within).is_empty()).then_some(())
    });
}

fn up(scrape: &str) -> usize {
    scrape.lines().filter(|line| line.starts_with("gpulet_gpu_up{") && line.ends_with(" 1")).count()
}

#[test]
fn one_command_serves_eight_gpus_and_ends_without_trace() {
    let within = tempfile::tempdir_in(gpulet_simulator::scratch_dir()).unwrap();
    let mut daemon = simulate("dgx-h100", within.path());
    daemon.ready();
    let scrape = daemon.scrape_until("all GPUs", |scrape| up(scrape) == 8);
    assert!(
        scrape.contains("gpulet_nvml_up 1\n") || scrape.contains("gpulet_nvml_up{reason=\"\"} 1\n"),
        "{scrape}"
    );
    let banner = wait_until("the banner", || {
        let text = fs::read_to_string(within.path().join("stdout")).unwrap();
        text.contains("Ctrl-C").then_some(text)
    });
    let directory = nodes(within.path()).pop().unwrap();
    for part in [
        "dgx-h100: 8 GPUs (NVIDIA H100 80GB HBM3), 2 NUMA nodes",
        &format!("http://{}/ ", daemon.address()),
        &format!("http://{}/metrics", daemon.address()),
        &format!("GPULET_SIM_DIR={}", directory.display()),
    ] {
        assert!(banner.contains(part), "lacks {part}: {banner}");
    }
    assert_eq!(processes_with(&format!("simulate-node dgx-h100 {}", directory.display())).len(), 1);
    let told = Instant::now();
    daemon.signal(Signal::SIGINT);
    assert_eq!(daemon.ended().code(), Some(0));
    assert!(told.elapsed() < Duration::from_secs(2), "{:?}", told.elapsed());
    gone(within.path());
}

#[test]
fn killed_it_leaves_nothing_behind_either() {
    let within = tempfile::tempdir_in(gpulet_simulator::scratch_dir()).unwrap();
    let mut daemon = simulate("cpu-only", within.path());
    daemon.ready();
    let banner = fs::read_to_string(within.path().join("stdout")).unwrap();
    assert!(!banner.contains("--gpu") && !banner.contains("lose"), "it has no GPU: {banner}");
    daemon.signal(Signal::SIGKILL);
    daemon.ended();
    gone(within.path());
}

#[test]
fn interrupted_before_the_node_answers_it_leaves_nothing_behind() {
    let within = tempfile::tempdir_in(gpulet_simulator::scratch_dir()).unwrap();
    let mut command = gpulet();
    command.args(["simulate", "dgx-h100", "--listen", "127.0.0.1:0"]).env("TMPDIR", within.path());
    let mut process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the node's directory", || nodes(within.path()).pop());
    let pid = nix::unistd::Pid::from_raw(process.id().try_into().unwrap());
    nix::sys::signal::kill(pid, Signal::SIGTERM).unwrap();
    process.wait().unwrap();
    gone(within.path());
}

#[test]
fn a_daemon_that_cannot_start_leaves_nothing_behind() {
    let within = tempfile::tempdir_in(gpulet_simulator::scratch_dir()).unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = gpulet();
    command.args(["simulate", "cpu-only", "--listen", &address]).env("TMPDIR", within.path());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains(&address) && stderr(&output).contains("--listen"),
        "{}",
        stderr(&output)
    );
    gone(within.path());
}

#[test]
fn an_unknown_node_is_answered_with_the_names() {
    let output = run(&["simulate", "dgx-h1000"]);
    assert_eq!(output.status.code(), Some(64));
    let text = stderr(&output);
    for name in ["dgx-h1000", "dgx-h100", "l40s-4x", "cpu-only"] {
        assert!(text.contains(name), "lacks {name}: {text}");
    }
    let output = run(&["simulate", "/nonexistent/node.yaml"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("/nonexistent/node.yaml"), "{}", stderr(&output));
    let wrong = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    fs::write(wrong.path(), "name: wrong\ncolour: red\n").unwrap();
    let output = run(&["simulate", wrong.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(64), "{}", stderr(&output));
}

/// A simulated node that this test holds, and daemons on it.
struct Held {
    node: SimulatedNode,
    directory: tempfile::TempDir,
}

impl Held {
    fn new(name: &str) -> Self {
        let directory = tempfile::tempdir_in(gpulet_simulator::scratch_dir()).unwrap();
        let node = SimulatedNode::start(name, &directory.path().join("node"), ClockMode::Stepped).unwrap();
        Self { node, directory }
    }

    fn gpulet(&self) -> std::process::Command {
        let config = self.directory.path().join("config.yaml");
        fs::write(&config, "sampling: {interval: 100ms, slow-interval: 200ms, deadline: 500ms}\n").unwrap();
        let mut command = gpulet();
        command.envs(self.node.environment()).arg("--config").arg(config);
        command
    }

    fn daemon(&self) -> Daemon {
        let mut command = self.gpulet();
        command.args(["run", "--listen", "127.0.0.1:0"]);
        Daemon::start(command)
    }
}

#[test]
fn a_node_outlives_a_daemon_that_is_killed() {
    let held = Held::new("l40s-4x");
    let mut daemon = held.daemon();
    daemon.scrape_until("all GPUs", |scrape| up(scrape) == 4);
    daemon.signal(Signal::SIGKILL);
    daemon.ended();
    let again = held.daemon();
    again.scrape_until("all GPUs again", |scrape| up(scrape) == 4);
    assert_eq!(held.node.state().gpus.len(), 4);
}

#[test]
fn quiesced_it_holds_no_device_and_resumed_it_goes_on() {
    let held = Held::new("l40s-4x");
    let daemon = held.daemon();
    daemon.scrape_until("all GPUs", |scrape| up(scrape) == 4);
    let devices = held.node.host_root().join("dev");
    let open = || daemon.open_files().into_iter().filter(|file| file.starts_with(&devices)).count();
    assert!(open() > 0, "{:?}", daemon.open_files());
    let output = held.gpulet().arg("quiesce").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(open(), 0, "{:?}", daemon.open_files());
    daemon.scrape_until("that it is quiesced", |scrape| {
        scrape.contains("gpulet_nvml_up{reason=\"Quiesced\"} 0\n")
    });
    let done = daemon.wait_for_event("control request done", 1);
    assert_eq!((&done["request"], done["deadline_seconds"].as_f64()), (&"quiesce".into(), Some(10.0)));
    daemon.wait_for_event("the driver is let go of, as asked for", 1);
    let output = held.gpulet().arg("resume").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    daemon.scrape_until("all GPUs again", |scrape| up(scrape) == 4);
}

#[test]
fn a_hanging_gpu_does_not_keep_the_daemon_from_ending() {
    let held = Held::new("l40s-4x");
    let mut daemon = held.daemon();
    daemon.scrape_until("all GPUs", |scrape| up(scrape) == 4);
    let hang = Happening::SetFault { gpu: Some(2), symbol: None, effect: Effect::Block };
    held.node.command(hang).unwrap();
    daemon.scrape_until("the hanging GPU", |scrape| {
        up(scrape) == 3 && scrape.contains("reason=\"Unresponsive\"} 0")
    });
    let told = daemon.events().into_iter().find(|event| {
        let message = event["fields"]["message"].as_str().unwrap_or_default();
        message.starts_with("GPU 2 (0000:") && message.contains(" does not answer: nvml")
    });
    let told = &told.expect("the log tells of the hanging GPU")["fields"];
    assert_eq!((&told["gpu"], &told["reason"]), (&2.into(), &"Unresponsive".into()));
    let message = told["message"].as_str().unwrap();
    for field in ["pci_bus_id", "call"] {
        assert!(message.contains(told[field].as_str().unwrap()), "{told}");
    }
    assert!(message.contains(" has not returned for ") && !told["remedy"].as_str().unwrap().is_empty());
    let answers = daemon.wait_for_event("the GPU answers", 4);
    assert_eq!(answers["model"], "NVIDIA L40S");
    assert_eq!(daemon.get("/healthz").0, 200, "the loops go on");
    let told = Instant::now();
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.ended().code(), Some(0));
    assert!(told.elapsed() < Duration::from_secs(2), "{:?}", told.elapsed());
}

fn block(held: &Held, symbol: &str) {
    let hang = Happening::SetFault { gpu: None, symbol: Some(symbol.into()), effect: Effect::Block };
    held.node.command(hang).unwrap();
}

#[test]
fn while_it_waits_to_let_go_of_the_driver_it_stays_alive() {
    let held = Held::new("l40s-4x");
    let daemon = held.daemon();
    daemon.scrape_until("all GPUs", |scrape| up(scrape) == 4);
    block(&held, "nvmlShutdown");
    let mut quiesce = held.gpulet();
    let mut quiesce = quiesce.args(["quiesce", "--deadline", "5s"]).stderr(Stdio::null()).spawn().unwrap();
    daemon.scrape_until("that the driver is down", |scrape| value(scrape, "gpulet_nvml_up") == Some(0.0));
    let ticks = || value(&daemon.get("/metrics").1, "gpulet_sampling_ticks_total").unwrap();
    let (before, mut most) = (ticks(), 0.0);
    let status = wait_until("the end of quiesce", || {
        assert_eq!(daemon.get("/healthz").0, 200);
        let ended = quiesce.try_wait().unwrap();
        if ended.is_none() {
            most = ticks() - before;
        }
        ended
    });
    assert_eq!(status.code(), Some(4), "the call hangs");
    assert!(most >= 5.0, "{most} samples were taken while it waited");
}

#[test]
fn a_driver_that_hangs_in_opening_keeps_neither_the_daemon_nor_a_scrape() {
    let held = Held::new("l40s-4x");
    block(&held, "nvmlInit_v2");
    block(&held, "nvmlInitWithFlags");
    let mut scrape = held.gpulet();
    let scrape = scrape.arg("metrics").stdout(Stdio::piped()).spawn().unwrap();
    let mut daemon = held.daemon();
    daemon.ready();
    let down = "gpulet_nvml_up{reason=\"Unresponsive\"} 0\n";
    daemon.scrape_until("that it hangs", |text| text.contains(down));
    assert_eq!(daemon.get("/healthz").0, 200);
    let told = Instant::now();
    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.ended().code(), Some(0));
    assert!(told.elapsed() < Duration::from_secs(2), "{:?}", told.elapsed());
    // It gives up after its own time, and says what it knows.
    let output = scrape.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(common::stdout(&output).contains(down), "{}", common::stdout(&output));
}

#[test]
fn a_scrape_of_a_node_has_its_gpus() {
    let held = Held::new("l40s-4x");
    let output = held.gpulet().args(["metrics", "--explain"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let scrape = common::stdout(&output);
    assert_eq!(up(&scrape), 4, "{scrape}");
    let missing = scrape.lines().find(|line| line.starts_with("# missing: gpulet_gpu_")).unwrap();
    assert!(missing.contains("NVML_ERROR_NOT_SUPPORTED"), "an L40S has no NVLink: {missing}");
}
