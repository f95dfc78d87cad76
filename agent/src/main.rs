//! `gpulet`: knows, samples and reports on the GPUs of one node.
//!
//! - [`cli`], [`commands`]: what can be asked, and what each command does
//! - [`config`], [`logging`]: settings and messages
//! - [`daemon`]: starts the loops of [`loops`] under [`supervise`] and hears signals
//! - [`node`], [`discovery`], [`profile`], [`record`]: the node seen once, its topology, what it should look like
//! - [`partition`]: looks at how the GPUs are divided, and changes it
//! - [`nrt`], [`kubelet`]: the NodeResourceTopology object, and whom to ask for it
//! - [`reload`]: takes up the configuration again
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
mod holders;
mod kubelet;
mod listen;
mod logging;
mod loops;
mod node;
mod notify;
mod nrt;
mod partition;
mod profile;
mod record;
mod reload;
mod report;
mod supervise;
mod text_file;

use std::io::{self, Write};

use clap::Parser;

fn main() {
    let code = code();
    // Messages are written as they come about; this is what else may wait in a buffer.
    let _ = io::stdout().flush();
    // Not through `exit(3)`, which waits for the loader's lock: a thread that hangs in loading the driver holds it.
    gpulet_nvml::leave(code)
}

/// Does what was asked for and gives the exit code.
fn code() -> u8 {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output and are no error; a closed pipe is none either.
            let code = if error.use_stderr() { commands::exit::USAGE } else { 0 };
            let _ = error.print();
            return code;
        }
    };
    match commands::execute(cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("gpulet: {}", report::chain(&error));
            error.exit_code()
        }
    }
}
