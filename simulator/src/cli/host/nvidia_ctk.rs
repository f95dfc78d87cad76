//! The node's `nvidia-ctk`: makes a CDI specification.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use gpulet_simulator::programs::{CdiOptions, Strategy, specification};
use gpulet_simulator::state::NodeState;

use crate::cli::Outcome;

/// Exit code of the real program for every failure.
const FAILED: u8 = 1;

pub(super) fn run(arguments: &[String], state: &NodeState, host_root: &Path) -> Outcome {
    let (options, output) = match parse(arguments) {
        Ok(parsed) => parsed,
        Err(message) => {
            eprintln!("nvidia-ctk: {message}");
            return Ok(ExitCode::from(FAILED));
        }
    };
    if !state.driver.loaded {
        eprintln!("nvidia-ctk: failed to initialize NVML: the driver is not loaded");
        return Ok(ExitCode::from(FAILED));
    }
    let text = format!("{:#}\n", specification(state, host_root, &options));
    match output {
        None => print!("{text}"),
        Some(path) => put(&path, &text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a specification, in place of the one before in one step.
pub(super) fn put(path: &Path, text: &str) -> anyhow::Result<()> {
    let failed = || format!("cannot write {}", path.display());
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).with_context(failed)?;
    }
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).and_then(|()| fs::rename(&fresh, path)).with_context(failed)
}

/// What the toolkit does when it is told nothing.
pub(super) fn defaults() -> CdiOptions {
    CdiOptions {
        vendor: "nvidia.com".to_owned(),
        class: "gpu".to_owned(),
        strategies: vec![Strategy::Index, Strategy::Uuid],
        management: false,
    }
}

fn parse(arguments: &[String]) -> Result<(CdiOptions, Option<PathBuf>), String> {
    let mut rest = arguments.iter().map(String::as_str);
    if (rest.next(), rest.next()) != (Some("cdi"), Some("generate")) {
        return Err("only `cdi generate` is simulated".to_owned());
    }
    let (mut options, mut output, mut strategies) = (defaults(), None, Vec::new());
    while let Some(argument) = rest.next() {
        let (name, value) = argument.split_once('=').map_or((argument, None), |(n, v)| (n, Some(v)));
        let value = value.or_else(|| rest.next()).ok_or_else(|| format!("{name} needs a value"))?;
        match name {
            "--output" => output = Some(PathBuf::from(value)),
            "--vendor" => options.vendor = value.to_owned(),
            "--class" => options.class = value.to_owned(),
            "--mode" => options.management = value == "management",
            "--device-name-strategy" => strategies.push(match value {
                "index" => Strategy::Index,
                "type-index" => Strategy::TypeIndex,
                "uuid" => Strategy::Uuid,
                other => return Err(format!("{other} is no way to name devices")),
            }),
            // The tree has no driver's files to be mounted, and no program for hooks.
            "--driver-root" | "--dev-root" | "--nvidia-ctk-path" | "--nvidia-cdi-hook-path" | "--format" => {}
            _ => return Err(format!("{name} is not simulated")),
        }
    }
    if !strategies.is_empty() {
        options.strategies = strategies;
    }
    Ok((options, output))
}
