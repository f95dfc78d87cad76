//! Serves the pages over HTTP, and moves when another address is listened on.

use std::sync::Arc;

use gpulet_exporter::{About, Limits, Site};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::{Health, Shared};
use crate::config::Settings;
use crate::config::node_name::NodeName;
use crate::listen::Listener;
use crate::supervise::LoopError;
use crate::supervise::shutdown::Shutdown;

/// The loop's name.
pub(crate) const NAME: &str = "serve";

/// The socket, kept apart from the loop so that a loop that is started again finds it, and can be given another.
pub(crate) type Held = Arc<watch::Sender<Arc<Listener>>>;

/// Serves until it is time to end.
pub(crate) async fn run(shared: Shared, held: Held) -> Result<(), LoopError> {
    let mut settings = shared.settings.clone();
    let mut held = held.subscribe();
    loop {
        let limits = settings.borrow_and_update().web.limits.clone();
        let listener = TcpListener::from_std(held.borrow_and_update().socket()?)?;
        let health = Health { progress: shared.progress.clone(), readiness: shared.readiness.clone() };
        let site = Site {
            snapshot: shared.snapshot.subscribe(),
            plan: shared.plan.subscribe(),
            own: Arc::clone(&shared.own),
            probe: Arc::new(health),
            about: about(&shared),
        };
        let stop = told_to_stop(shared.shutdown.clone(), settings.clone(), limits.clone(), held.clone());
        let drained = gpulet_exporter::serve(listener, site, limits, stop).await;
        if drained.cut > 0 {
            tracing::info!(connections = drained.cut, "connections were cut that did not finish in time");
        }
        if shared.shutdown.is_requested() {
            return Ok(());
        }
    }
}

/// What the page for people says of the node.
fn about(shared: &Shared) -> About {
    let node = shared.settings.borrow().node_name.clone().or_else(NodeName::of_this_machine);
    About { node: node.map(|name| name.to_string()), simulated: shared.simulated.clone() }
}

async fn told_to_stop(
    shutdown: Shutdown,
    mut settings: watch::Receiver<Arc<Settings>>,
    limits: Limits,
    mut held: watch::Receiver<Arc<Listener>>,
) {
    tokio::select! {
        () = shutdown.requested() => {}
        _ = settings.wait_for(|settings| settings.web.limits != limits) => {}
        _ = held.changed() => {}
    }
}
