//! Accepting connections, and ending them.

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::refuse::{self, refuse};
use super::route::Pages;
use super::stream::Deadlined;
use super::{Drained, Limits, Site};

/// The least that hyper takes as a limit on headers.
const LEAST_HEADER_BYTES: usize = 8192;

/// Headers in one request.
const HEADERS: usize = 64;

/// Connections taken beyond [`Limits::connections`], on which only the agent's health is told: clients that are too many
/// must not make whoever watches the agent believe that it is dead.
const RESERVE: usize = 8;

/// Time for the headers of a request on one of those.
const RESERVE_HEADER_TIMEOUT: Duration = Duration::from_secs(2);

/// How long to wait after a failed accept, most often for want of file descriptors.
const BACK_OFF: Duration = Duration::from_millis(100);

/// Serves `site` on `listener` until `shutdown` resolves, then closes the listener and lets open requests finish within
/// [`Limits::drain_timeout`].
pub async fn serve(
    listener: TcpListener,
    site: Site,
    limits: Limits,
    shutdown: impl Future<Output = ()>,
) -> Drained {
    let mut shutdown = pin!(shutdown);
    let mut server = Server::new(site, limits);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(_) = server.tasks.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => server.take(stream),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    sleep(BACK_OFF).await;
                }
            }
        }
    }
    drop(listener);
    server.drain().await
}

struct Server {
    pages: Arc<Pages>,
    limits: Limits,
    places: Arc<Semaphore>,
    reserve: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    graceful: GracefulShutdown,
    tasks: JoinSet<()>,
}

impl Server {
    fn new(site: Site, limits: Limits) -> Self {
        Self {
            pages: Arc::new(Pages::new(site)),
            places: Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS))),
            limits,
            reserve: Arc::new(Semaphore::new(RESERVE)),
            refusals: Arc::new(Semaphore::new(refuse::AT_ONCE)),
            graceful: GracefulShutdown::new(),
            tasks: JoinSet::new(),
        }
    }

    fn take(&mut self, stream: TcpStream) {
        for (places, kind) in [(&self.places, Kind::Regular), (&self.reserve, Kind::HealthOnly)] {
            let Ok(place) = Arc::clone(places).try_acquire_owned() else { continue };
            let pages = Arc::clone(&self.pages);
            let connection = converse(stream, pages, self.limits.clone(), kind, self.graceful.watcher());
            self.tasks.spawn(async move {
                connection.await;
                drop(place);
            });
            return;
        }
        self.pages.own().refused_connections.inc();
        if let Ok(place) = Arc::clone(&self.refusals).try_acquire_owned() {
            self.tasks.spawn(async move {
                refuse(stream).await;
                drop(place);
            });
        }
    }

    async fn drain(mut self) -> Drained {
        let all = self.limits.connections.min(Semaphore::MAX_PERMITS);
        let drained = timeout(self.limits.drain_timeout, self.graceful.shutdown()).await;
        let cut = if drained.is_ok() { 0 } else { all.saturating_sub(self.places.available_permits()) };
        self.tasks.shutdown().await;
        Drained { cut }
    }
}

/// What is answered on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Everything.
    Regular,
    /// One request, for the agent's health.
    HealthOnly,
}

/// One connection, from its first request to its last.
async fn converse(stream: TcpStream, pages: Arc<Pages>, limits: Limits, kind: Kind, watcher: Watcher) {
    // Answers are written whole, so waiting for more to send would only delay their ends.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps Nagle's algorithm");
    }
    let io = TokioIo::new(Deadlined::new(stream, limits.request_timeout));
    let service = service_fn(move |request| {
        let answer = match kind {
            Kind::Regular => pages.answer(&request),
            Kind::HealthOnly => pages.answer_on_health(&request),
        };
        async move { Ok::<_, Infallible>(answer) }
    });
    let header_timeout = match kind {
        Kind::Regular => limits.header_timeout,
        Kind::HealthOnly => limits.header_timeout.min(RESERVE_HEADER_TIMEOUT),
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .keep_alive(kind == Kind::Regular)
        .max_buf_size(limits.header_bytes.max(LEAST_HEADER_BYTES))
        .max_headers(HEADERS)
        .serve_connection(io, service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection broke off");
    }
}
