//! The daemon, run as a person would run it.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::node::Node;
use crate::program::{gpulet, wait_until};
use crate::scrape::Scrape;

/// A running `gpulet run`; killed when dropped.
#[derive(Debug)]
pub struct Agent {
    process: Child,
    address: SocketAddr,
    log: Arc<Mutex<Vec<String>>>,
}

/// What the daemon answered.
#[derive(Debug)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// `Content-Type`.
    pub content_type: String,
    /// Body as text.
    pub body: String,
}

impl Agent {
    /// Runs the daemon on `node` with a tick of 100 ms, a free port, and `arguments`, and waits until it is ready.
    pub fn run(node: &Node, arguments: &[&str]) -> Self {
        let mut command = gpulet();
        node.environment(&mut command);
        let config = node.directory().join("config.yaml");
        std::fs::write(&config, "sampling: {interval: 100ms, slow-interval: 200ms, deadline: 300ms}\n")
            .unwrap();
        command.arg("--config").arg(config).args(["run", "--listen", "127.0.0.1:0"]).args(arguments);
        Self::start(command)
    }

    /// Starts `command`, which must be a `gpulet run`, and waits until it is ready.
    pub fn start(mut command: Command) -> Self {
        command.args(["--log-format", "json"]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (log, addresses) = follow(&mut process);
        let address = addresses.recv_timeout(Duration::from_secs(30)).unwrap_or_else(|_| {
            panic!("the daemon does not listen: {}", log.lock().unwrap().join("\n"));
        });
        let agent = Self { process, address, log };
        wait_until("the daemon is ready", || (agent.get("/readyz").status == 200).then_some(()));
        agent
    }

    /// Fetches `path` in text format 0.0.4, as a plain HTTP client does.
    pub fn get(&self, path: &str) -> Response {
        self.get_as(path, "text/plain;version=0.0.4")
    }

    /// Fetches `path`, accepting `accept`.
    pub fn get_as(&self, path: &str, accept: &str) -> Response {
        let url = format!("http://{}{path}", self.address);
        let config = ureq::Agent::config_builder().http_status_as_error(false);
        let client =
            ureq::Agent::new_with_config(config.timeout_global(Some(Duration::from_secs(10))).build());
        let mut response = client.get(&url).header("Accept", accept).call().unwrap();
        let content_type = response.headers().get("content-type").unwrap().to_str().unwrap().to_owned();
        let body = response.body_mut().read_to_string().unwrap();
        Response { status: response.status().as_u16(), content_type, body }
    }

    /// One scrape.
    pub fn scrape(&self) -> Scrape {
        Scrape::parse(&self.get("/metrics").body)
    }

    /// Scrapes until `condition` holds.
    pub fn scrape_until(&self, what: &str, condition: impl Fn(&Scrape) -> bool) -> Scrape {
        wait_until(what, || Some(self.scrape()).filter(&condition))
    }

    /// `host:port` for other programs.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// What it has logged so far, a line each.
    pub fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    /// Targets of its open files, sockets and pipes left out.
    pub fn open_files(&self) -> Vec<String> {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap();
        let targets = files.filter_map(|file| std::fs::read_link(file.unwrap().path()).ok());
        targets
            .map(|target| target.to_string_lossy().into_owned())
            .filter(|target| target.starts_with('/'))
            .collect()
    }

    /// How many threads of its have to do with GPUs. Those of its runtime come and go.
    pub fn gpu_threads(&self) -> usize {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let name = |thread: PathBuf| std::fs::read_to_string(thread.join("comm")).unwrap_or_default();
        threads.filter(|thread| name(thread.as_ref().unwrap().path()).starts_with("gpu-")).count()
    }

    /// Sends it `signal`.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid().try_into().unwrap()), signal).unwrap();
    }

    /// Waits until it has ended.
    pub fn ended(&mut self) -> ExitStatus {
        wait_until("the daemon ends", || self.process.try_wait().unwrap())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Collects the log, and gives the address from the line that tells it.
fn follow(process: &mut Child) -> (Arc<Mutex<Vec<String>>>, mpsc::Receiver<SocketAddr>) {
    let lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let log = Arc::new(Mutex::new(Vec::new()));
    let (sender, receiver) = mpsc::channel();
    let collected = Arc::clone(&log);
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if let Some(address) = listening(&line) {
                let _ = sender.send(address);
            }
            collected.lock().unwrap().push(line);
        }
    });
    (log, receiver)
}

fn listening(line: &str) -> Option<SocketAddr> {
    let event: serde_json::Value = serde_json::from_str(line).ok()?;
    let fields = event.get("fields")?;
    (fields.get("message")? == "listening").then(|| fields["address"].as_str()?.parse().ok()).flatten()
}
