//! The pages over HTTP.
//!
//! | path | what |
//! |---|---|
//! | `/metrics` | text 0.0.4 or OpenMetrics 1.0 by `Accept`, gzip by `Accept-Encoding`; 503 until the first snapshot |
//! | `/healthz` | 200 while the agent's loops run, else 503 with the reason |
//! | `/readyz` | 200 once there is a snapshot and the agent does its work, else 503 with the reason |
//! | `/topology` | the node as JSON (`topology`) |
//! | `/topology.svg` | the topology as a picture (`picture`) |
//! | `/plan` | what would change to divide the GPUs as declared, as JSON that the agent has made; 503 until it has |
//! | `/` | a page for people |
//!
//! A request waits for nothing: it takes the snapshot that is there. The one lock on its way is that on the rendered body,
//! held by the first request of a tick (or of a topology) while it renders. Connections, headers and the time of an answer are bounded by
//! [`Limits`].

mod body;
mod listen;
mod negotiate;
mod page;
mod picture;
mod refuse;
mod route;
mod stream;
mod topology;

use std::sync::Arc;
use std::time::Duration;

use gpulet_inventory::snapshot::Snapshot;
use tokio::sync::watch;

use crate::own::Own;
pub use listen::serve;

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
    /// What would change to divide the GPUs as declared, as JSON; `None` until it was planned for the first time.
    pub plan: watch::Receiver<Option<Arc<str>>>,
    /// The agent's own counters.
    pub own: Arc<Own>,
    /// The agent's own word on its health.
    pub probe: Arc<dyn Probe>,
    /// What the page for people says of the node.
    pub about: About,
}

/// What the node is to the people who look at it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// Its name.
    pub node: Option<String>,
    /// For a simulated node what it simulates, in a sentence; absent on a real one.
    pub simulated: Option<String>,
}

/// What one client, and all together, may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections open at once. Further ones are answered 503 and closed, but for requests for `/healthz` and `/readyz`,
    /// which a few of them may make.
    pub connections: usize,
    /// Request line and headers together, bytes; less than 8,192 is taken as 8,192.
    pub header_bytes: usize,
    /// Time for a request's headers to arrive, from the opening of the connection or from the answer before. So it is
    /// also how long an idle connection is kept.
    pub header_timeout: Duration,
    /// Time for a client to take one answer.
    pub request_timeout: Duration,
    /// Time for open requests to finish once the server is told to stop.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            header_bytes: 16 * 1024,
            header_timeout: Duration::from_secs(30),
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
