//! The agents: a test program of the agent's crate that holds many of them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use cargo_metadata::Message;
use gpulet_tests::{ControlPlane, Node, wait_within};
use serde_json::Value;

/// Requests, bytes sent and bytes received by `VERB RESOURCE STATUS`, of all agents together.
pub(crate) type Asked = BTreeMap<String, [u64; 3]>;

/// The running agents; they end when dropped.
pub(crate) struct Agents {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Agents {
    /// Starts one agent for each node, all at once; they share the hardware of `simulated`.
    pub(crate) fn start(plane: &ControlPlane, simulated: &Node, nodes: &[String]) -> Self {
        let list = plane.directory().join("agents");
        let kubeconfig =
            |node: &String| plane.directory().join(format!("gpulet-gpulet-node-{node}.kubeconfig"));
        let lines: Vec<String> =
            nodes.iter().map(|node| format!("{node} {}\n", kubeconfig(node).display())).collect();
        std::fs::write(&list, lines.concat()).unwrap();
        let mut command = Command::new(program());
        simulated.environment(&mut command);
        command.args(["agents_publish_until_the_input_ends", "--ignored", "--nocapture"]);
        command.env("GPULET_LOAD_AGENTS", list).stdin(Stdio::piped()).stdout(Stdio::piped());
        command.stderr(File::create(plane.directory().join("agents.log")).unwrap());
        let mut process = command.spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { input: process.stdin.take(), output, process }
    }

    /// Waits until all have published.
    pub(crate) fn until_published(&mut self, agents: usize) {
        wait_within(Duration::from_secs(180), "all have published", || {
            (self.told()["published"] == agents).then_some(())
        });
    }

    /// What they have asked so far.
    pub(crate) fn asked(&mut self) -> Asked {
        serde_json::from_value(self.told()["requests"].take()).unwrap()
    }

    fn told(&mut self) -> Value {
        self.input.as_mut().unwrap().write_all(b"\n").unwrap();
        let mut lines = self.output.by_ref().lines().map(Result::unwrap);
        // The test harness writes before the program does, on the same line.
        let counts = lines.find_map(|line| Some(line.split_once("counts ")?.1.to_owned()));
        serde_json::from_str(&counts.expect("the agents run")).unwrap()
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.process.wait();
    }
}

/// The test program of the agent's crate, built if it is not.
fn program() -> PathBuf {
    let arguments =
        ["test", "--package=gpulet", "--bin=gpulet", "--no-run", "--locked", "--message-format=json"];
    let mut cargo = Command::new(env!("CARGO")).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let messages = BufReader::new(cargo.stdout.take().unwrap());
    let built = Message::parse_stream(messages).filter_map(|message| match message.unwrap() {
        Message::CompilerArtifact(artifact) if artifact.profile.test => artifact.executable,
        _ => None,
    });
    let program = built.last();
    assert!(cargo.wait().unwrap().success());
    program.expect("cargo says where the program is").into()
}
