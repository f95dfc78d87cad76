//! `gpulet`: knows, samples and reports on the GPUs of one node.
//!
//! - [`cli`], [`commands`]: what can be asked, and what each command does
//! - [`config`], [`logging`]: settings and messages
//! - [`daemon`]: starts the loops of [`loops`] under [`supervise`] and hears signals
//! - [`node`], [`discovery`], [`profile`], [`record`]: the node seen once, its topology, what it should look like
//! - [`control`]: how other commands ask the running daemon
//! - [`listen`], [`notify`]: the TCP port, the service manager

mod build;
mod cli;
mod commands;
mod config;
mod control;
mod daemon;
mod discovery;
mod file;
mod listen;
mod logging;
mod loops;
mod node;
mod notify;
mod profile;
mod record;
mod report;
mod supervise;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output and are no error; a closed pipe is none either.
            let code = if error.use_stderr() { commands::exit::USAGE } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    match commands::execute(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gpulet: {}", report::chain(&error));
            ExitCode::from(error.exit_code())
        }
    }
}
