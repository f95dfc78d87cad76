//! Running the program as a person does, and looking at what it does.

#![allow(dead_code, unreachable_pub)]

#[cfg(feature = "simulator")]
pub mod node;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Far longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The program, with nothing of this environment's settings.
pub fn gpulet() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpulet"));
    let settings = std::env::vars_os().map(|(name, _)| name);
    for name in settings.filter(|name| name.to_string_lossy().starts_with("GPULET_")) {
        command.env_remove(name);
    }
    for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "JOURNAL_STREAM"] {
        command.env_remove(name);
    }
    command
}

/// Runs it to its end.
pub fn run(arguments: &[&str]) -> Output {
    gpulet().args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// What it wrote to standard error.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What it wrote to standard output.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Looks at `condition` again and again until it gives something.
pub fn wait_until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A machine without driver: a root with nothing below `/proc`, a state directory and a configuration file.
pub struct Machine {
    directory: tempfile::TempDir,
}

impl Machine {
    /// One with a quick pace.
    pub fn new() -> Self {
        let machine = Self { directory: tempfile::tempdir().unwrap() };
        fs::create_dir_all(machine.host_root().join("proc")).unwrap();
        machine.configure("sampling: {interval: 100ms, slow-interval: 200ms, deadline: 300ms}\n");
        machine
    }

    pub fn host_root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    pub fn state_dir(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    pub fn config(&self) -> PathBuf {
        self.directory.path().join("config.yaml")
    }

    /// Writes the configuration file.
    pub fn configure(&self, text: &str) {
        fs::write(self.config(), text).unwrap();
    }

    /// The program with this machine's places.
    pub fn gpulet(&self) -> Command {
        let mut command = gpulet();
        command.arg("--host-root").arg(self.host_root());
        command.arg("--state-dir").arg(self.state_dir());
        command.arg("--config").arg(self.config());
        command
    }

    /// A daemon on it, with further `arguments`.
    pub fn daemon(&self, arguments: &[&str]) -> Daemon {
        let mut command = self.gpulet();
        command.args(["run", "--listen", "127.0.0.1:0"]).args(arguments);
        Daemon::start(command)
    }
}

/// A daemon that runs; killed when dropped.
pub struct Daemon {
    process: Child,
    log: Arc<Mutex<Vec<serde_json::Value>>>,
}

impl Daemon {
    /// Starts `command`, which must end up as a daemon, and waits until it listens.
    pub fn start(mut command: Command) -> Self {
        command.args(["--log-format", "json"]).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let stderr = BufReader::new(process.stderr.take().unwrap());
        let log = Arc::new(Mutex::new(Vec::new()));
        let collected = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let event = serde_json::from_str(&line).unwrap_or(serde_json::Value::String(line));
                collected.lock().unwrap().push(event);
            }
        });
        let mut daemon = Self { process, log };
        wait_until("the daemon listens", || {
            if let Some(status) = daemon.process.try_wait().unwrap() {
                panic!("the daemon ended: {status}: {:#?}", daemon.events());
            }
            daemon.logged("listening").pop()
        });
        daemon
    }

    /// Everything logged so far.
    pub fn events(&self) -> Vec<serde_json::Value> {
        self.log.lock().unwrap().clone()
    }

    /// The fields of every event so far with `message`.
    pub fn logged(&self, message: &str) -> Vec<serde_json::Value> {
        let fields = |event: serde_json::Value| event.get("fields").cloned();
        self.events().into_iter().filter_map(fields).filter(|fields| fields["message"] == message).collect()
    }

    /// Waits until `message` has been logged `times` times and gives the fields of the last.
    pub fn wait_for_event(&self, message: &str, times: usize) -> serde_json::Value {
        wait_until(message, || self.logged(message).into_iter().nth(times - 1))
    }

    /// Where it listens now.
    pub fn address(&self) -> SocketAddr {
        self.logged("listening").pop().unwrap()["address"].as_str().unwrap().parse().unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Sends it `signal`.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid().try_into().unwrap()), signal).unwrap();
    }

    /// Waits until it has ended.
    pub fn ended(&mut self) -> ExitStatus {
        wait_until("the daemon ends", || self.process.try_wait().unwrap())
    }

    /// Status and body of `path`.
    pub fn get(&self, path: &str) -> (u16, String) {
        get(self.address(), path)
    }

    /// Scrapes until `condition` holds, and gives the scrape.
    pub fn scrape_until(&self, what: &str, condition: impl Fn(&str) -> bool) -> String {
        wait_until(what, || {
            let (status, body) = self.get("/metrics");
            (status == 200 && condition(&body)).then_some(body)
        })
    }

    /// Waits until it is ready.
    pub fn ready(&self) {
        wait_until("the daemon is ready", || (self.get("/readyz").0 == 200).then_some(()));
    }

    /// Paths of its open files.
    pub fn open_files(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap();
        let targets = files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
        targets.filter(|target| target.is_absolute()).collect()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Status and body of `path` at `address`.
pub fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// The value of the series whose line begins with `series` and goes on with labels or a value.
pub fn value(scrape: &str, series: &str) -> Option<f64> {
    let line = scrape.lines().find(|line| {
        line.strip_prefix(series).is_some_and(|rest| rest.starts_with([' ', '{', ',']))
            || line.starts_with(series) && series.ends_with('}')
    })?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Processes whose command line holds `text`, this one apart.
pub fn processes_with(text: &str) -> Vec<u32> {
    let own = std::process::id();
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| *pid != own && cmdline(*pid).is_some_and(|line| line.contains(text))).collect()
}

fn cmdline(pid: u32) -> Option<String> {
    let bytes = fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline")).ok()?;
    Some(String::from_utf8_lossy(&bytes).replace('\0', " "))
}
