//! `gpulet-sim host`: what the programs in a node's `usr/bin` do.

mod nvidia_ctk;
mod nvidia_smi;
mod systemctl;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Outcome, client};

#[derive(Debug, Args)]
pub(super) struct Host {
    /// Which program
    program: Program,
    /// Its own arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Program {
    NvidiaSmi,
    NvidiaCtk,
    Systemctl,
}

pub(super) fn run(host: &Host, dir: Option<PathBuf>) -> Outcome {
    let mut client = client(dir.clone())?;
    let root = dir.unwrap_or_default().join("host");
    match host.program {
        Program::NvidiaSmi => nvidia_smi::run(&host.arguments, &mut client),
        Program::NvidiaCtk => nvidia_ctk::run(&host.arguments, &client.state()?, &root),
        Program::Systemctl => systemctl::run(&host.arguments, &mut client, &root),
    }
}
