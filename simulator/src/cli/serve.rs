//! `gpulet-sim serve`

use std::io::{self, Write};
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
    let exports: String = node
        .environment()
        .iter()
        .map(|(variable, value)| format!("export {variable}={}\n", quoted(value)))
        .collect();
    let text = format!(
        "{name} runs in {}: {} GPUs, {driver}.\nTo use it, in another terminal:\n\n{exports}\n\
         Then gpulet and every other NVML client run on it, and `gpulet-sim state` shows it. Ctrl-C stops it.\n",
        node.dir().display(),
        state.gpus.len(),
    );
    // Nobody need listen: the node is served all the same.
    let mut out = io::stdout();
    let _unheard = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// As a shell takes it.
fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:+,=@".contains(c);
    if value.chars().all(plain) { value.to_owned() } else { format!("'{}'", value.replace('\'', r"'\''")) }
}
