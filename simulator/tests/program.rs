//! `gpulet-sim` as a program, and several processes on one node.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    missing_docs,
    unsafe_code
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use gpulet_simulator::{ClockMode, SimulatedNode};
use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::error::NvmlError;
use tempfile::TempDir;

const EVERY_BOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nodes/every-board.yaml");

fn sim(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpulet-sim"));
    command.args(arguments).env_remove("GPULET_SIM_DIR");
    command
}

fn run(arguments: &[&str]) -> Output {
    sim(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits for what another process does.
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(30), "waited in vain for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A process that is killed with the test.
struct Process {
    child: Child,
    said: BufReader<ChildStdout>,
    _input: ChildStdin,
}

impl Process {
    fn start(mut command: Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let input = child.stdin.take().unwrap();
        Self { child, said, _input: input }
    }

    /// Reads on until a line has this in it; gives what was read.
    fn until(&mut self, wanted: &str) -> String {
        let mut all = String::new();
        while !all.contains(wanted) {
            let before = all.len();
            self.said.read_line(&mut all).unwrap();
            if all.len() == before {
                let mut complaint = String::new();
                self.child.stderr.take().unwrap().read_to_string(&mut complaint).unwrap();
                panic!("it ended before `{wanted}`:\n{all}{complaint}");
            }
        }
        all
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn serve(dir: &Path) -> (Process, String) {
    let mut server = Process::start(sim(&["serve", EVERY_BOARD, "--dir", dir.to_str().unwrap()]));
    let said = server.until("Ctrl-C stops it");
    (server, said)
}

/// A client in a process of its own: this test program, told to do nothing but the test below.
fn client(dir: &Path) -> Process {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_client_in_its_own_process", "--ignored", "--nocapture"]);
    command.env("CLIENT_OF", dir);
    let mut client = Process::start(command);
    client.until("opened");
    client
}

#[test]
#[ignore = "a process for the other tests"]
fn a_client_in_its_own_process() {
    let Some(dir) = std::env::var_os("CLIENT_OF") else { return };
    let nvml = open(Path::new(&dir));
    nvml.device_by_index(0).unwrap();
    println!("opened");
    std::io::stdout().flush().unwrap();
    // Until it is killed, or the test is gone.
    let _end = std::io::stdin().read_to_end(&mut Vec::new());
}

fn open(dir: &Path) -> Nvml {
    Nvml::builder().lib_path(dir.join("lib/libnvidia-ml.so.1").as_os_str()).init().unwrap()
}

fn users(dir: &Path) -> Vec<u32> {
    gpulet_simulator::client::Client::connect(dir).unwrap().driver_users().unwrap()
}

#[test]
fn several_processes_see_one_node_and_it_outlives_them() {
    let dir = TempDir::new().unwrap();
    let (_server, said) = serve(dir.path());
    assert!(said.contains("8 GPUs") && said.contains("export GPULET_NVML_LIBRARY="), "{said}");
    let nvml = open(dir.path());
    let device = nvml.device_by_index(3).unwrap();
    let there = client(dir.path());
    let mut expected = [std::process::id(), there.child.id()];
    expected.sort_unstable();
    assert_eq!(users(dir.path()), expected);

    let place = ["--dir", dir.path().to_str().unwrap()];
    let done = |arguments: &[&str]| {
        let output = run(&[arguments, &place].concat());
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    done(&["fault", "lose", "3"]);
    assert!(device.name().is_err(), "what another process did is seen here");
    done(&["fault", "restore", "3"]);
    assert!(device.name().is_ok());
    let id = done(&["fault", "call", "--gpu", "3", "--symbol", "nvmlDeviceGetName", "--return", "UNKNOWN"]);
    assert!(device.name().is_err());
    done(&["fault", "clear", id.trim()]);
    done(&["hold", "1", "--pid", "4711", "--memory", "10GiB"]);
    assert!(done(&["state"]).contains("4711"));
    let json: serde_json::Value = serde_json::from_str(&done(&["state", "-o", "json"])).unwrap();
    assert_eq!(json["gpus"].as_array().unwrap().len(), 8);
    done(&["release", "--pid", "4711"]);
    done(&["clock", "pause"]);
    let before = done(&["clock", "step", "0ms"]).trim().parse::<f64>().unwrap();
    let after = done(&["clock", "step", "90s"]).trim().parse::<f64>().unwrap();
    assert!((after - before - 90.0).abs() < 0.001, "{before} {after}");

    let truth = || gpulet_simulator::client::Client::connect(dir.path()).unwrap().state().unwrap();
    done(&["load", "--gpu", "4", "steady", "60"]);
    done(&["clock", "step", "5s"]);
    assert!(truth().gpus[4].now.utilization[0] > 30);
    done(&["fault", "xid", "4", "31", "--times", "5"]);
    let last = truth().events.into_iter().next_back().unwrap();
    assert_eq!((last.gpu, last.kind, last.data), (4, 8, 31));
    done(&["set", "counter", "4", "energy", "5"]);
    assert_eq!(truth().gpus[4].count.energy_mj, 5);
    done(&["fault", "permission", "denied"]);
    assert!(truth().driver.no_permission);
    done(&["fault", "permission", "granted"]);

    let refused = run(&[&["fault", "driver", "unload"][..], &place].concat());
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("in use by processes"), "{}", text(&refused.stderr));
    done(&["fault", "driver", "unload", "--force"]);
    assert!(device.name().is_err() && !truth().driver.loaded);
    done(&["fault", "driver", "load", "--version", "535.104.05"]);
    assert_eq!(open(dir.path()).sys_driver_version().unwrap(), "535.104.05");
}

#[test]
fn a_killed_client_no_longer_uses_the_driver() {
    let dir = TempDir::new().unwrap();
    let (_server, _) = serve(dir.path());
    let client = client(dir.path());
    assert_eq!(users(dir.path()), [client.child.id()]);
    client.signal("KILL");
    eventually("the client to be gone", || users(dir.path()).is_empty());
}

#[test]
fn a_directory_has_one_server_and_a_killed_ones_place_can_be_taken() {
    let dir = TempDir::new().unwrap();
    let (server, _) = serve(dir.path());
    let nvml = open(dir.path());
    let second = run(&["serve", EVERY_BOARD, "--dir", dir.path().to_str().unwrap()]);
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second.stderr).contains("another simulated node is served in"), "{}", text(&second.stderr));

    server.signal("KILL");
    eventually("the driver to be gone", || nvml.device_count().is_err());
    assert!(dir.path().join("sock").exists(), "nobody has cleaned up");
    let (again, _) = serve(dir.path());
    // A stale session does not come back to life; a new one works.
    assert!(nvml.device_count().is_err());
    assert_eq!(open(dir.path()).device_count().unwrap(), 8);
    drop(again);
}

#[test]
fn a_server_ends_in_order() {
    for signal in ["TERM", "INT"] {
        let dir = TempDir::new().unwrap();
        let (mut server, _) = serve(dir.path());
        let nvml = open(dir.path());
        server.signal(signal);
        assert_eq!(server.child.wait().unwrap().code(), Some(0));
        assert!(!dir.path().join("sock").exists());
        assert!(nvml.device_count().is_err(), "the driver is gone at once");
        let state = run(&["state", "--dir", dir.path().to_str().unwrap()]);
        assert_eq!(state.status.code(), Some(1));
        assert!(text(&state.stderr).contains("no simulated node is served in"), "{}", text(&state.stderr));
    }
}

#[test]
fn a_shutdown_that_waits_for_a_halted_server_holds_up_nobody_else() {
    let dir = TempDir::new().unwrap();
    let (server, _) = serve(dir.path());
    // Neither is freed: the library is shut down by hand.
    let nvml = ManuallyDrop::new(open(dir.path()));
    let events = nvml.create_event_set().unwrap();
    let gpu = nvml.device_by_index(0).unwrap();
    let events = ManuallyDrop::new(gpu.register_events(EventTypes::CRITICAL_XID_ERROR, events).unwrap());
    server.signal("STOP");
    let shutdown = *nvml.lib().nvmlShutdown.as_ref().unwrap();
    // SAFETY: as C programs call it.
    let closing = thread::spawn(move || unsafe { shutdown() });
    let began = Instant::now();
    assert!(matches!(events.wait(60_000), Err(NvmlError::Uninitialized)));
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    server.signal("CONT");
    assert_eq!(closing.join().unwrap(), 0);
}

#[test]
fn a_server_ends_also_when_its_directory_is_gone() {
    let dir = TempDir::new().unwrap();
    let (mut server, _) = serve(dir.path());
    std::fs::remove_dir_all(dir.path()).unwrap();
    server.signal("TERM");
    eventually("the server ends", || server.child.try_wait().unwrap().is_some());
}

#[test]
fn a_directory_that_had_another_node_has_nothing_of_it() {
    let dir = TempDir::new().unwrap();
    let host = dir.path().join("host");
    let devices = || std::fs::read_dir(host.join("sys/bus/pci/devices")).unwrap().count();
    let serve = |node: &str| drop(SimulatedNode::start(node, dir.path(), ClockMode::Stepped).unwrap());
    serve("l40s-4x");
    let (alone, own) = (devices(), std::fs::read_dir(host.join("sys/devices")).unwrap().count());
    serve("dgx-h100");
    assert!(devices() > alone);
    std::fs::write(host.join("etc/cdi/ones-own.yaml"), "").unwrap();
    serve("l40s-4x");
    assert_eq!(devices(), alone);
    assert_eq!(std::fs::read_dir(host.join("sys/devices")).unwrap().count(), own);
    assert!(host.join("etc/cdi/ones-own.yaml").exists());
}

#[test]
fn exec_sets_the_stage_and_clears_it() {
    let script = "test -e $GPULET_NVML_LIBRARY && test -d $GPULET_HOST_ROOT/sys && test -d $GPULET_STATE_DIR \
                  && case $LD_LIBRARY_PATH in $GPULET_SIM_DIR/lib*) ;; *) exit 1 ;; esac && echo $GPULET_SIM_DIR && exit 7";
    let output = run(&["exec", EVERY_BOARD, "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    assert!(!Path::new(text(&output.stdout).trim()).exists(), "the directory is removed");

    let mut waiting = Process::start(sim(&[
        "exec",
        EVERY_BOARD,
        "--",
        "sh",
        "-c",
        "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done",
    ]));
    waiting.until("ready");
    waiting.signal("TERM");
    assert_eq!(waiting.child.wait().unwrap().code(), Some(9), "the command decides how it ends");

    let killed = run(&["exec", EVERY_BOARD, "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(killed.status.code(), Some(137));
    let missing = run(&["exec", EVERY_BOARD, "--", "/no/such/program"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("cannot run /no/such/program"));
}

#[test]
fn what_is_asked_for_wrongly_is_64() {
    let somewhere = TempDir::new().unwrap();
    let dir = somewhere.path().to_str().unwrap();
    let impossible = somewhere.path().join("impossible.yaml");
    std::fs::write(&impossible, "about: x\ncpu: {model: x, packages: 0, cores-per-package: 1, threads-per-core: 1}\nnuma: []\npci: []\n")
        .unwrap();
    let impossible = impossible.to_str().unwrap();
    let broken = somewhere.path().join("broken.yaml");
    std::fs::write(&broken, "about: [").unwrap();
    let broken = broken.to_str().unwrap();
    let cases: [(&[&str], &str); 12] = [
        (&["serve", impossible, "--dir", dir], "describes no possible node"),
        (&["serve", broken, "--dir", dir], "is not a node description: "),
        (&["exec", broken, "--", "true"], "is not a node description: "),
        (&["serve", "no/such.yaml", "--dir", dir], "cannot read no/such.yaml"),
        (&["fault", "call", "--symbol", "nvmlErrorString", "--block", "--dir", dir], "cannot fail"),
        (&["serve", "no-such-node", "--dir", dir], "dgx-h100"),
        (&["exec", "no-such-node", "--", "true"], "l40s-4x"),
        (&["fault", "call", "--dir", dir], "--return"),
        (&["fault", "call", "--symbol", "nvmlDeviceGetPowerUsag", "--block", "--dir", dir], "did you mean"),
        (&["fault", "call", "--return", "NO_SUCH_CODE", "--dir", dir], "NOT_SUPPORTED"),
        (&["hold", "0", "--pid", "1", "--memory", "10GB", "--dir", dir], "10GiB"),
        (&["state"], "--dir"),
    ];
    for (arguments, hint) in cases {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
        assert!(text(&output.stderr).contains(hint), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn an_empty_variable_is_as_good_as_none() {
    let output = sim(&["exec", "cpu-only", "--", "true"]).env("GPULET_SIM_DIR", "").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let output = sim(&["state"]).env("GPULET_SIM_DIR", "").output().unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(text(&output.stderr).contains("which node?"), "{}", text(&output.stderr));
}

#[test]
fn each_cause_is_told_once() {
    let dir = TempDir::new().unwrap();
    let place = dir.path().to_str().unwrap();
    let complaint = |arguments: &[&str]| {
        let output = run(&[arguments, &["--dir", place]].concat());
        assert!(!output.status.success());
        text(&output.stderr)
    };
    let alone = complaint(&["state"]);
    assert_eq!(alone.matches("No such file or directory").count(), 1, "{alone}");
    let (_server, _) = serve(dir.path());
    let refused = complaint(&["fault", "lose", "99"]);
    assert_eq!(refused.matches("there is no GPU 99").count(), 1, "{refused}");
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let unusable = text(&run(&["serve", EVERY_BOARD, "--dir", file.to_str().unwrap()]).stderr);
    assert_eq!(unusable.matches("os error").count(), 1, "{unusable}");
    assert!(unusable.contains("as a simulation directory: "), "{unusable}");
}
