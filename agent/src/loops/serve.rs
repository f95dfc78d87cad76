//! Serves the pages over HTTP, and moves when the configuration names another address.

use std::sync::{Arc, Mutex, PoisonError};

use gpulet_exporter::Site;
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::{Health, Shared};
use crate::config::Settings;
use crate::config::settings::Web;
use crate::listen::Listener;
use crate::report;
use crate::supervise::LoopError;
use crate::supervise::shutdown::Shutdown;

/// The loop's name.
pub(crate) const NAME: &str = "serve";

/// The socket, kept apart from the loop so that a loop that is started again finds it.
pub(crate) type Held = Arc<Mutex<Listener>>;

/// Serves until it is time to end.
pub(crate) async fn run(shared: Shared, held: Held) -> Result<(), LoopError> {
    let mut settings = shared.settings.clone();
    loop {
        let web = settings.borrow_and_update().web.clone();
        let listener = TcpListener::from_std(socket(&held, &web)?)?;
        let health = Health { progress: shared.progress.clone(), readiness: shared.readiness.clone() };
        let site = Site {
            snapshot: shared.snapshot.subscribe(),
            own: Arc::clone(&shared.own),
            probe: Arc::new(health),
        };
        let stop = told_to_stop(shared.shutdown.clone(), settings.clone(), web.clone());
        let drained = gpulet_exporter::serve(listener, site, web.limits, stop).await;
        if drained.cut > 0 {
            tracing::info!(connections = drained.cut, "connections were cut that did not finish in time");
        }
        if shared.shutdown.is_requested() {
            return Ok(());
        }
    }
}

/// The socket to serve on. If the address that is wanted cannot be had, the one before stays.
fn socket(held: &Held, web: &Web) -> std::io::Result<std::net::TcpListener> {
    let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
    if held.wanted() != web.address {
        match Listener::bind(web.address) {
            Ok(listener) => {
                tracing::info!(address = %listener.address(), "listening");
                *held = listener;
            }
            Err(error) => tracing::error!(
                error = report::chain(&error),
                reason = error.reason(),
                still = %held.address(),
                "the new address cannot be listened on"
            ),
        }
    }
    held.socket()
}

async fn told_to_stop(shutdown: Shutdown, mut settings: watch::Receiver<Arc<Settings>>, web: Web) {
    tokio::select! {
        () = shutdown.requested() => {}
        _ = settings.wait_for(|settings| settings.web != web) => {}
    }
}
