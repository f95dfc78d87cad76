//! Taking up the configuration again while running. One that is wrong changes nothing.
//!
//! The file is read away from the loop that hears signals. An address that cannot be listened on yet is tried again until
//! it can, while the one before is served; until then the reload counts as failed.

use std::future;
use std::sync::Arc;
use std::time::Instant;

use gpulet_exporter::{Own, ReloadOutcome};
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::config::{ConfigError, Settings, Source};
use crate::listen::{ListenError, Listener};
use crate::logging::Level;
use crate::loops::serve::Held;
use crate::report;
use crate::supervise::backoff::Backoff;

/// What was read, or why nothing was.
type Read = Result<Settings, ConfigError>;

/// The one who takes up the configuration.
pub(crate) struct Reload {
    /// Where it comes from.
    pub(crate) source: Source,
    /// What is in force.
    pub(crate) settings: watch::Sender<Arc<Settings>>,
    /// What is logged.
    pub(crate) level: Level,
    /// Where reloads are counted.
    pub(crate) own: Arc<Own>,
    /// What is listened on.
    pub(crate) held: Held,
    /// What is under way.
    pub(crate) state: State,
}

/// What is under way.
#[derive(Default)]
pub(crate) struct State {
    reading: Option<JoinHandle<Read>>,
    /// It was asked for again meanwhile, when the file may have been read already.
    again: bool,
    /// The wanted address could not be listened on, and nothing else of the last reload is wrong.
    address: Option<Retry>,
}

struct Retry {
    at: Instant,
    backoff: Backoff,
}

impl Reload {
    /// Begins to read the configuration.
    pub(crate) fn ask(&mut self) {
        if self.state.reading.is_some() {
            self.state.again = true;
            return;
        }
        let source = self.source.clone();
        self.state.reading = Some(spawn_blocking(move || source.read()));
    }

    /// Goes on with what is under way: waits for it, then does the next step of it. True if what was asked for is done.
    ///
    /// May be dropped while it waits.
    pub(crate) async fn step(&mut self) -> bool {
        tokio::select! {
            read = finished(&mut self.state.reading) => {
                self.state.reading = None;
                if std::mem::take(&mut self.state.again) {
                    self.ask();
                    return false;
                }
                self.take_up(read);
                true
            }
            () = due(self.state.address.as_ref()) => {
                self.try_again();
                false
            }
        }
    }

    fn take_up(&mut self, read: Read) {
        self.state.address = None;
        let new = match read {
            Ok(new) => new,
            Err(error) => {
                self.own.reloaded(ReloadOutcome::Failure);
                tracing::error!(
                    error = report::chain(&error),
                    reason = error.reason(),
                    "configuration not reloaded; the former one stays in force"
                );
                return;
            }
        };
        let at_restart = self.settings.borrow().fixed_until_restart(&new);
        self.level.change(&new.log.level);
        self.settings.send_replace(Arc::new(new));
        match self.listen() {
            Ok(()) => {
                self.own.reloaded(ReloadOutcome::Success);
                tracing::info!("configuration reloaded");
            }
            Err(error) => {
                self.own.reloaded(ReloadOutcome::Failure);
                self.wait_for_address(Backoff::default());
                tracing::error!(
                    error = report::chain(&error),
                    reason = error.reason(),
                    still = %self.held.borrow().address(),
                    "the new address cannot be listened on; it is tried again until it can be, all else is reloaded"
                );
            }
        }
        if !at_restart.is_empty() {
            tracing::warn!(
                keys = at_restart.join(", "),
                "changes of these keys take effect at the next start"
            );
        }
    }

    /// Listens where the settings in force say, unless it does already.
    fn listen(&self) -> Result<(), ListenError> {
        let wanted = self.settings.borrow().web.address;
        if self.held.borrow().wanted() == wanted {
            return Ok(());
        }
        let listener = Listener::bind(wanted)?;
        tracing::info!(address = %listener.address(), "listening");
        self.held.send_replace(Arc::new(listener));
        Ok(())
    }

    fn try_again(&mut self) {
        let Some(Retry { backoff, .. }) = self.state.address.take() else { return };
        match self.listen() {
            Ok(()) => {
                self.own.reload_completed();
                tracing::info!("configuration reloaded");
            }
            Err(error) => {
                tracing::debug!(error = report::chain(&error), "the new address still cannot be listened on");
                self.wait_for_address(backoff);
            }
        }
    }

    fn wait_for_address(&mut self, mut backoff: Backoff) {
        let now = Instant::now();
        let at = now + backoff.after_run(now, now);
        self.state.address = Some(Retry { at, backoff });
    }
}

async fn finished(reading: &mut Option<JoinHandle<Read>>) -> Read {
    let Some(reading) = reading else { return future::pending().await };
    match reading.await {
        Ok(read) => read,
        Err(error) => Err(ConfigError::Broken { source: error }),
    }
}

async fn due(address: Option<&Retry>) {
    match address {
        Some(Retry { at, .. }) => tokio::time::sleep_until((*at).into()).await,
        None => future::pending().await,
    }
}
