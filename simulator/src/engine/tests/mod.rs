//! The node's life. What the tests share is here.

mod commands;
mod driver;
mod hardware;
mod random;

use std::path::Path;
use std::time::Duration;

use super::*;
use crate::command::{Applied, Command, Counter, Hold};
use crate::state::{Effect, ProcessKind};

const TICK: Duration = Duration::from_millis(100);

fn engine(node: &str) -> Engine {
    Engine::new(&Node::load(node).unwrap(), 42, 1_700_000_000_000_000).unwrap()
}

/// A DGX H100 on which nothing runs.
fn idle() -> Engine {
    let mut engine = engine("dgx-h100");
    engine.apply(Command::Load { gpu: None, load: Load::Idle }).unwrap();
    engine
}

fn seconds(engine: &mut Engine, seconds: u64) {
    engine.advance(Duration::from_secs(seconds));
}

fn load(engine: &mut Engine, gpu: u32, load: Load) {
    engine.apply(Command::Load { gpu: Some(gpu), load }).unwrap();
}

fn hold(gpu: u32, pid: u32, mib: u64) -> Hold {
    let memory_bytes = Some(mib << 20);
    Hold {
        gpu,
        pid,
        kind: ProcessKind::Compute,
        memory_bytes,
        instance: None,
        name: "/bin/holder".to_owned(),
        cgroup: None,
    }
}

fn refusal(engine: &mut Engine, command: Command) -> &'static str {
    let before = engine.state.clone();
    let reason = engine.apply(command).unwrap_err().reason();
    assert_eq!(engine.state, before, "a refused command changes nothing");
    reason
}

/// One GPU of a board, in MIG mode with these instances.
fn divided(board: &str, instances: &str) -> Engine {
    let text = format!(
        "about: one divided GPU\ndriver: 580.105.08\n\
         cpu: {{model: x, packages: 1, cores-per-package: 2, threads-per-core: 1}}\n\
         numa: [{{id: 0, cpus: 0-1, memory: 8GiB, distances: [10]}}]\n\
         pci: [{{root: 0000:00, numa: 0, devices: [bridge: {{at: 00:01.0, devices: [\
         gpu: {{at: 01:00.0, board: {board}, mig: {{instances: [{instances}]}}}}]}}]}}]\n"
    );
    Engine::new(&Node::parse("divided", "divided.yaml", &text, Path::new(".")).unwrap(), 1, 0).unwrap()
}
