//! `gpulet-sim serve`

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use gpulet_simulator::{SimulatedNode, server};
use nix::sys::signal::{Signal, kill};
use nix::unistd::getpid;

use super::device_plugin::Mig;
use super::{Outcome, kubelet};

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Name of a shipped node, or path of a YAML file of the same form
    node: String,
    /// Simulates a kubelet beside it, with the settings of a KubeletConfiguration file; the strictest without one
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    kubelet: Option<Option<PathBuf>>,
    /// What the kubelet's device plugin offers GPUs in MIG mode as
    #[arg(long, value_enum, default_value_t = Mig::None, requires = "kubelet")]
    mig: Mig,
}

pub(super) fn run(serve: &Serve, dir: Option<PathBuf>) -> Outcome {
    let dir = dir.unwrap_or_else(|| default_dir(&serve.node));
    let settings = serve.kubelet.as_ref().map(|file| kubelet::settings(&serve.node, file.as_deref()));
    let settings = settings.transpose()?;
    let mut trouble = None;
    server::serve(&serve.node, &dir, |node| {
        trouble = settings.and_then(|settings| kubelet::start(node, settings, serve.mig).err());
        match trouble {
            None => announce(&serve.node, node),
            // Nothing to wait for: as if it had been asked to stop.
            Some(_) => stop(),
        }
    })?;
    if let Some(error) = trouble {
        return Err(error.into());
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends the wait for a signal.
fn stop() {
    // A process can always send itself a signal.
    let _sent = kill(getpid(), Signal::SIGTERM);
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
