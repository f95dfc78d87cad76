//! What is told when the simulated node runs.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;

use gpulet_simulator::node::Node;

/// What runs, where, and what can be done with it.
pub(super) fn text(node: &Node, directory: &Path, address: SocketAddr) -> String {
    let base = format!("http://{address}");
    let sim = program();
    let mut text = format!("{}\n", sentence(node));
    text.push_str("The daemon runs on it and serves\n");
    for (path, what) in [
        ("/", "a page for people"),
        ("/metrics", "for Prometheus"),
        ("/topology", "where things sit, as JSON"),
        ("/readyz", "whether it is ready"),
    ] {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "  {:<36}{what}", format!("{base}{path}"));
    }
    let _ = writeln!(text, "The node lives in {}. Act on it from another terminal:", directory.display());
    let _ = writeln!(text, "  export GPULET_SIM_DIR={}", directory.display());
    for arguments in examples(node.gpus().len()) {
        let _ = writeln!(text, "  {sim} {arguments}");
    }
    text.push_str("Ctrl-C ends the daemon and removes the node.\n");
    text
}

/// What is simulated.
pub(super) fn sentence(node: &Node) -> String {
    format!("Simulated node {}: {}.", node.name(), hardware(node))
}

/// One command of each kind that works on a node with so many GPUs: look, load, break.
fn examples(gpus: usize) -> Vec<String> {
    let mut examples = vec!["state".to_owned()];
    if let Some(last) = gpus.checked_sub(1) {
        examples.push("load --gpu 0 training".to_owned());
        examples.push(format!("fault lose {}", last.min(3)));
    }
    examples
}

fn hardware(node: &Node) -> String {
    let description = node.description();
    let numa = match description.numa.len() {
        1 => "one NUMA node".to_owned(),
        many => format!("{many} NUMA nodes"),
    };
    match node.gpus() {
        [] => format!("no GPU, {numa}"),
        [gpu] => format!("one GPU ({}), {numa}", gpu.board.name),
        [gpu, rest @ ..] if rest.iter().all(|other| other.board.name == gpu.board.name) => {
            format!("{} GPUs ({}), {numa}", rest.len() + 1, gpu.board.name)
        }
        many => format!("{} GPUs, {numa}", many.len()),
    }
}

/// How to call the simulator's own program: the one built beside this one, or else by way of cargo.
fn program() -> String {
    let beside = std::env::current_exe().ok().map(|this| this.with_file_name("gpulet-sim"));
    match beside {
        Some(path) if path.exists() => path.display().to_string(),
        _ => "cargo run -q -p gpulet-simulator --bin gpulet-sim --".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_works_on_the_node_is_suggested() {
        assert_eq!(examples(0), ["state"]);
        assert_eq!(examples(1), ["state", "load --gpu 0 training", "fault lose 0"]);
        assert_eq!(examples(8), ["state", "load --gpu 0 training", "fault lose 3"]);
    }
}
