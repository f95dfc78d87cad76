//! The node's `systemctl`: starts the machine anew, and has the toolkit's service make its specification.

use std::path::Path;
use std::process::ExitCode;

use gpulet_simulator::client::Client;
use gpulet_simulator::command::Command;
use gpulet_simulator::programs::specification;

use super::nvidia_ctk::{defaults, put};
use crate::cli::Outcome;

/// The toolkit's service, and what it writes.
const REFRESH: &str = "nvidia-cdi-refresh.service";
const SPECIFICATION: &str = "var/run/cdi/nvidia.yaml";

/// Exit code of the real program for a unit that there is not.
const NO_SUCH_UNIT: u8 = 5;

pub(super) fn run(arguments: &[String], client: &mut Client, host_root: &Path) -> Outcome {
    let words: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    match words.as_slice() {
        ["reboot"] => {
            client.command(Command::Reboot)?;
        }
        ["start" | "restart", REFRESH] => {
            let text = format!("{:#}\n", specification(&client.state()?, host_root, &defaults()));
            put(&host_root.join(SPECIFICATION), &text)?;
        }
        _ => {
            eprintln!("systemctl: {} is not simulated", words.join(" "));
            return Ok(ExitCode::from(NO_SUCH_UNIT));
        }
    }
    Ok(ExitCode::SUCCESS)
}
