//! A simulated node, the files of its administrator, and gpulet's commands there.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::description::{self, Gpu};
use super::division::Division;
use crate::agent::Agent;
use crate::node::Node;
use crate::program::{gpulet, wait_until, wait_within};

/// The driver of nodes that are described here.
const DRIVER: &str = "580.105.08";
/// Far longer than any change takes on a busy machine, and longer than gpulet waits for a call that does not return.
const PATIENCE: Duration = Duration::from_secs(240);

/// A node with a partition file and a configuration.
#[derive(Debug)]
pub struct Site {
    node: Node,
    files: TempDir,
    runs: AtomicU32,
}

impl Site {
    /// A node with these GPUs, which nobody uses.
    pub fn of(gpus: &[Gpu]) -> Self {
        Self::described(&description::of(gpus, DRIVER))
    }

    /// The same with another driver.
    pub fn with_driver(gpus: &[Gpu], driver: &str) -> Self {
        Self::described(&description::of(gpus, driver))
    }

    /// The same as a virtual machine, to which the GPUs were passed through: it cannot reset them.
    pub fn virtual_machine(gpus: &[Gpu]) -> Self {
        Self::described(&format!("virtual-machine: true\n{}", description::of(gpus, DRIVER)))
    }

    /// A node of this description.
    pub fn described(description: &str) -> Self {
        let files = tempfile::tempdir().unwrap();
        let path = files.path().join("node.yaml");
        fs::write(&path, description).unwrap();
        Self::served(path.to_str().unwrap(), files)
    }

    /// The shipped node `name`, with nothing running on it.
    pub fn shipped(name: &str) -> Self {
        let site = Self::served(name, tempfile::tempdir().unwrap());
        site.node.sim(&["load", "idle"]);
        site
    }

    fn served(node: &str, files: TempDir) -> Self {
        let site = Self { node: Node::serve(node), files, runs: AtomicU32::new(0) };
        site.configure("");
        site
    }

    /// The simulated node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// Writes the partition file.
    pub fn partition_file(&self, text: &str) -> PathBuf {
        let path = self.path("partition.yaml");
        fs::write(&path, text).unwrap();
        path
    }

    /// Writes the partition file: version 1 with these layouts, each a name and its entries, one a line.
    pub fn layouts(&self, layouts: &[(&str, &[&str])]) -> PathBuf {
        let mut text = "version: v1\nmig-configs:\n".to_owned();
        for (name, entries) in layouts {
            text.push_str(&format!("  {name}:\n"));
            entries.iter().for_each(|entry| text.push_str(&format!("  - {entry}\n")));
        }
        self.partition_file(&text)
    }

    /// Writes the configuration file: a quick pace, and `text`.
    pub fn configure(&self, text: &str) {
        let pace = "sampling: {interval: 100ms, slow-interval: 200ms, deadline: 1s}\n";
        fs::write(self.config(), format!("{pace}{text}")).unwrap();
    }

    /// The configuration file.
    pub fn config(&self) -> PathBuf {
        self.path("config.yaml")
    }

    /// A place for a file of the test's own.
    pub fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// `gpulet ARGUMENTS` on this node.
    pub fn command<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        let mut command = gpulet();
        self.node.environment(&mut command);
        command.arg("--config").arg(self.config()).args(arguments);
        command
    }

    /// Starts `gpulet ARGUMENTS`.
    pub fn start<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Running {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        let (stdout, stderr) = (self.path(&format!("{run}.out")), self.path(&format!("{run}.err")));
        let mut command = self.command(arguments);
        command.stdin(Stdio::null());
        command.stdout(File::create(&stdout).unwrap()).stderr(File::create(&stderr).unwrap());
        Running { process: command.spawn().unwrap(), stdout, stderr }
    }

    /// Runs `gpulet ARGUMENTS` to its end.
    pub fn run(&self, arguments: &[&str]) -> Finished {
        self.start(arguments).ended()
    }

    /// `gpulet plan` of a layout of the partition file.
    pub fn plan(&self, layout: &str) -> Finished {
        self.start(&self.about("plan", layout)).ended()
    }

    /// `gpulet apply` of a layout of the partition file.
    pub fn apply(&self, layout: &str) -> Finished {
        self.start_apply(layout).ended()
    }

    /// `gpulet apply`, started.
    pub fn start_apply(&self, layout: &str) -> Running {
        self.start(&self.about("apply", layout))
    }

    /// A command about a layout, of the partition file where one was written.
    fn about(&self, command: &str, layout: &str) -> Vec<String> {
        let file = self.path("partition.yaml");
        let named = file.exists().then(|| ["-f".to_owned(), file.to_str().unwrap().to_owned()]);
        [command, "--mig-config", layout]
            .map(str::to_owned)
            .into_iter()
            .chain(named.into_iter().flatten())
            .collect()
    }

    /// The daemon on this node, with its configuration file.
    pub fn daemon(&self) -> Agent {
        Agent::start(self.command(&["run", "--listen", "127.0.0.1:0", "--publish", "never"]))
    }

    /// How GPU `index` is divided now.
    pub fn gpu(&self, index: usize) -> Division {
        Division::of(&self.node.state()["gpus"][index]).expect("a GPU that can be divided")
    }

    /// How every GPU is divided that can be.
    pub fn gpus(&self) -> Vec<Division> {
        self.node.state()["gpus"].as_array().unwrap().iter().filter_map(Division::of).collect()
    }

    /// UUID of GPU `index`.
    pub fn uuid(&self, index: usize) -> String {
        self.node.state()["gpus"][index]["identity"]["uuid"].as_str().unwrap().to_owned()
    }

    /// Process `pid` begins to use the instance of GPU `index` that begins at unit `start`.
    pub fn hold(&self, index: usize, start: u32, pid: u32) {
        let device = self.gpu(index).at(start).device();
        let (gpu, pid) = (index.to_string(), pid.to_string());
        self.node.sim(&["hold", &gpu, "--pid", &pid, "--instance", &device, "--memory", "1GiB"]);
    }

    /// Journals of what is unfinished: changes of GPUs; and the node's, where something is still to be put back or looked after.
    pub fn journals(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.folder()) else { return Vec::new() };
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| !path.ends_with("node.json") || owes(path));
        paths.sort();
        paths
    }

    /// The journal of GPU `index`.
    pub fn journal(&self, index: usize) -> Option<Value> {
        fs::read(self.journal_path(index)).ok().map(|bytes| serde_json::from_slice(&bytes).unwrap())
    }

    /// Where the journal of GPU `index` is.
    pub fn journal_path(&self, index: usize) -> PathBuf {
        self.folder().join(format!("{}.json", self.uuid(index)))
    }

    fn folder(&self) -> PathBuf {
        self.node.directory().join("gpulet/partition")
    }
}

/// Whether a node's journal tells of anything that is still to be done.
fn owes(path: &Path) -> bool {
    let journal: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    let done = [
        ("paused", json!({})),
        ("cordoned", json!(false)),
        ("services", json!([])),
        ("aftercare", json!(false)),
    ];
    done.into_iter().any(|(what, done)| journal[what] != done)
}

/// A command that was started. It is killed when dropped.
#[derive(Debug)]
pub struct Running {
    process: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Sends it `signal`, and waits until it has said that it has heard.
    pub fn ask_to_end(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid().try_into().unwrap()), signal).unwrap();
        wait_until("it says that it has heard", || read(&self.stderr).contains("asked to end").then_some(()));
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    /// `kill -9`; returns when it is gone.
    pub fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Waits until it has ended.
    pub fn ended(mut self) -> Finished {
        let status = wait_within(PATIENCE, "the command ends", || self.process.try_wait().unwrap());
        Finished { code: status.code(), stdout: read(&self.stdout), stderr: read(&self.stderr) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// A command that has ended.
#[derive(Debug)]
pub struct Finished {
    /// Its exit code; absent where a signal ended it.
    pub code: Option<i32>,
    /// What it wrote.
    pub stdout: String,
    /// What it complained of.
    pub stderr: String,
}

impl Finished {
    /// Itself, if it ended with `code`. Panics with all that it said otherwise.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// Whether it says each of these, wherever and in whatever case. Panics with all that it said otherwise.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        let all = format!("{}\n{}", self.stdout, self.stderr).to_lowercase();
        for word in words {
            assert!(all.contains(&word.to_lowercase()), "nothing about {word:?}:\n{self}");
        }
        self
    }

    /// What it wrote, read as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}:\n{self}"))
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { code, stdout, stderr } = self;
        write!(f, "exit code {code:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}")
    }
}
