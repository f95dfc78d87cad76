//! Ends a command when it is asked to, but not in the middle of a GPU.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

use super::exit;
use crate::supervise::shutdown::{self, Shutdown};

/// Hears signals that ask to end (SIGTERM, SIGINT, SIGHUP). The first is told on and leaves time; at the second the program
/// ends at once, and the next start goes on from the journal.
///
/// # Errors
/// If signals cannot be heard.
pub(super) fn asked() -> io::Result<Shutdown> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let (trigger, asked) = shutdown::channel();
    tokio::spawn(async move {
        for again in [false, true] {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hangup.recv() => {}
            }
            if again {
                std::process::exit(i32::from(exit::FAILED));
            }
            tracing::warn!(
                "asked to end: a GPU that is being changed is done first; ask once more to end at once"
            );
            trigger.pull();
        }
    });
    Ok(asked)
}
