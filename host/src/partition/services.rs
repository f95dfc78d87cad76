//! Services of the host that keep GPUs open to watch them, and can be stopped for a while.

use std::time::Duration;

use crate::program::{Program, ProgramError};
use crate::root::Root;

/// Those that NVIDIA's own tools stop for a change too. Whoever else uses a GPU is in the way, and is named.
pub const STOPPABLE: [&str; 9] = [
    "dcgm-exporter.service",
    "dcgm.service",
    "nv_peer_mem.service",
    "nvidia-dcgm.service",
    "nvsm-api-gateway.service",
    "nvsm-core.service",
    "nvsm-mqtt.service",
    "nvsm-notifier.service",
    "nvsm.service",
];

/// How long systemd may take for all of them.
const DEADLINE: Duration = Duration::from_secs(90);

/// Stops these, and waits until they have.
///
/// # Errors
/// If there is no systemd, it refuses, or it takes too long.
pub fn stop<S: AsRef<str>>(root: &Root, services: &[S]) -> Result<(), ProgramError> {
    tell(root, "stop", services)
}

/// Starts these. It is not waited for: one that comes before the machine is up would hold it up.
///
/// # Errors
/// If there is no systemd, or it refuses.
pub fn start<S: AsRef<str>>(root: &Root, services: &[S]) -> Result<(), ProgramError> {
    tell(root, "start", services)
}

fn tell<S: AsRef<str>>(root: &Root, verb: &str, services: &[S]) -> Result<(), ProgramError> {
    // What was written down is not trusted to be the name of a service, and no option either.
    let known = services.iter().map(AsRef::as_ref).filter(|name| STOPPABLE.contains(name));
    let mut arguments: Vec<&str> = vec![verb];
    arguments.extend((verb == "start").then_some("--no-block"));
    arguments.push("--");
    let options = arguments.len();
    arguments.extend(known);
    if arguments.len() == options {
        return Ok(());
    }
    Program::find(root, "systemctl")?.run(&arguments, DEADLINE).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::made_up::MadeUp;

    #[test]
    fn only_known_services_are_told_of() {
        let tree = MadeUp::new();
        let root = tree.root();
        assert!(
            stop(&root, &["sshd.service", "-H"]).is_ok(),
            "nothing is to be done, and no systemd is needed"
        );
        assert_eq!(stop(&root, &["nvidia-dcgm.service"]).unwrap_err().reason(), "ProgramNotFound");
    }
}
