//! `gpulet-sim serve`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use gpulet_simulator::{SimulatedNode, server};

use super::Outcome;

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Name of a shipped node, or path of a YAML file of the same form
    node: String,
}

pub(super) fn run(serve: &Serve, dir: Option<PathBuf>) -> Outcome {
    let dir = dir.unwrap_or_else(|| default_dir(&serve.node));
    server::serve(&serve.node, &dir, |node| announce(&serve.node, node))?;
    Ok(ExitCode::SUCCESS)
}

/// A directory that the same node has each time.
fn default_dir(node: &str) -> PathBuf {
    let name = Path::new(node).file_stem().unwrap_or_default();
    std::env::temp_dir().join("gpulet-sim").join(name)
}

fn announce(name: &str, node: &SimulatedNode) {
    let state = node.state();
    let driver =
        if state.driver.loaded { format!("driver {}", state.driver.version) } else { "no driver".to_owned() };
    println!("{name} runs in {}: {} GPUs, {driver}.", node.dir().display(), state.gpus.len());
    println!("To use it, in another terminal:\n");
    for (variable, value) in node.environment() {
        println!("export {variable}={}", quoted(&value));
    }
    println!(
        "\nThen gpulet and every other NVML client run on it, and `gpulet-sim state` shows it. Ctrl-C stops it."
    );
}

/// As a shell takes it.
fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:+,=@".contains(c);
    if value.chars().all(plain) { value.to_owned() } else { format!("'{}'", value.replace('\'', r"'\''")) }
}
