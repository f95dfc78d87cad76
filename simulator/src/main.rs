//! `gpulet-sim`: serves simulated nodes and acts on them.

mod cli;

use std::process::ExitCode;

use clap::Parser;

/// Exit code for what was asked for wrongly; `clap`'s own 2 has another meaning in gpulet's programs.
const USAGE: u8 = 64;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Nobody is left to tell when the terminal is gone.
            let _closed = error.print();
            return if error.use_stderr() { USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    match cli::run(cli) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("gpulet-sim: {:#}", failure.error);
            failure.code.into()
        }
    }
}
