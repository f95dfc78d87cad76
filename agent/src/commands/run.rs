//! `gpulet run`: the daemon on this machine.

use std::future;

use super::{CommandError, places};
use crate::cli::{Daemon, Global};
use crate::config::Source;
use crate::daemon;

/// Runs until a signal says that it is time to end.
pub(super) fn run(global: &Global, flags: &Daemon) -> Result<(), CommandError> {
    let source = Source::new(global.config.clone(), flags.overrides(global));
    let runtime = daemon::runtime()?;
    let result = runtime.block_on(daemon::run(places(global), source, |_| {}, future::pending()));
    // A blocking call that hangs (sysfs of a device that is being removed) must not keep the program.
    runtime.shutdown_background();
    Ok(result?)
}
