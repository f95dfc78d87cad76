//! The connection to the API server: one, for all requests and watches, made anew when its credentials are refused.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt as _};
use kube::core::WatchEvent;
use kube::{Client, Config};
use serde::de::DeserializeOwned;
use tower::{BoxError, ServiceBuilder};

use super::access::{Access, Found};
use super::error::{ApiError, Failed};
use super::meter::MeterLayer;
use super::pace::Limits;
use super::request::Request;
use super::traffic::Traffic;

/// What a watch gives.
pub(crate) type Events<O> = BoxStream<'static, Result<WatchEvent<O>, kube::Error>>;

/// The way to the API server.
#[derive(Debug)]
pub(crate) struct Connection {
    access: Access,
    limits: Limits,
    traffic: Arc<Traffic>,
    current: RwLock<Current>,
    /// Held while credentials are read, so that they are read once for all who were refused.
    renewing: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Current {
    client: Client,
    /// Where its credentials are from.
    place: Arc<str>,
    /// Counts the clients.
    number: u64,
    made: Instant,
}

impl std::fmt::Debug for Current {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Current")
            .field("place", &self.place)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) async fn open(access: Access, limits: Limits) -> Result<Self, ApiError> {
        // The only provider in the program. Whoever installed it before installed the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let traffic = Arc::new(Traffic::default());
        let current = RwLock::new(connect(&access, &limits, &traffic, 0).await?);
        Ok(Self { access, limits, traffic, current, renewing: tokio::sync::Mutex::default() })
    }

    pub(crate) fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Where the credentials are from.
    pub(crate) fn place(&self) -> Arc<str> {
        self.current().place
    }

    fn current(&self) -> Current {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does a request once, and once more with credentials read anew if they are refused. The answer is in JSON.
    pub(crate) async fn call<T: DeserializeOwned>(&self, request: &Request) -> Result<T, ApiError> {
        self.call_within(request, self.limits.call).await
    }

    /// The same with another longest time for each try.
    pub(crate) async fn call_within<T: DeserializeOwned>(
        &self,
        request: &Request,
        longest: Duration,
    ) -> Result<T, ApiError> {
        let first = self.current();
        match self.try_call(&first, request, longest).await {
            Err(refused @ ApiError::Unauthorized { .. }) => {
                let second = self.renewed(first.number).await?.ok_or(refused)?;
                self.try_call(&second, request, longest).await
            }
            answered => answered,
        }
    }

    async fn try_call<T: DeserializeOwned>(
        &self,
        current: &Current,
        request: &Request,
        longest: Duration,
    ) -> Result<T, ApiError> {
        let answer = async { current.client.request(request.build().map_err(kube::Error::HttpError)?).await };
        match tokio::time::timeout(longest, answer).await {
            Ok(answered) => answered.map_err(|error| self.failed(request, current).with(error)),
            Err(_) => Err(ApiError::TimedOut { what: request.what(), after: longest }),
        }
    }

    /// Begins to watch; the answer is a stream of events that ends when the server ends it.
    pub(crate) async fn follow<O>(&self, request: &Request) -> Result<Events<O>, ApiError>
    where
        O: DeserializeOwned + Clone + Send + 'static,
    {
        let first = self.current();
        match self.try_follow(&first, request).await {
            Err(refused @ ApiError::Unauthorized { .. }) => {
                let second = self.renewed(first.number).await?.ok_or(refused)?;
                self.try_follow(&second, request).await
            }
            answered => answered,
        }
    }

    async fn try_follow<O>(&self, current: &Current, request: &Request) -> Result<Events<O>, ApiError>
    where
        O: DeserializeOwned + Clone + Send + 'static,
    {
        let begun =
            async { current.client.request_events(request.build().map_err(kube::Error::HttpError)?).await };
        // The time until the server answers is bounded below this.
        begun.await.map(|events| events.boxed()).map_err(|error| self.failed(request, current).with(error))
    }

    /// The error that a failure in the middle of a watch is.
    pub(crate) fn explain(&self, request: &Request, error: kube::Error) -> ApiError {
        self.failed(request, &self.current()).with(error)
    }

    /// The error that the server reported in the middle of a watch.
    pub(crate) fn explain_status(&self, request: &Request, status: kube::core::Status) -> ApiError {
        self.failed(request, &self.current()).answered(status)
    }

    fn failed<'a>(&self, request: &Request, current: &'a Current) -> Failed<'a> {
        Failed {
            what: request.what(),
            resource: request.resource.with_group(),
            one: request.name.is_some(),
            place: &current.place,
        }
    }

    /// A client newer than the refused one; nothing if the credentials were read a moment ago.
    async fn renewed(&self, refused: u64) -> Result<Option<Current>, ApiError> {
        let _one_at_a_time = self.renewing.lock().await;
        let current = self.current();
        if current.number != refused {
            return Ok(Some(current));
        }
        if current.made.elapsed() < self.limits.renew {
            return Ok(None);
        }
        let next = connect(&self.access, &self.limits, &self.traffic, current.number + 1).await?;
        tracing::info!(place = &*next.place, "the API server refused the credentials; they were read again");
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next.clone();
        Ok(Some(next))
    }
}

async fn connect(
    access: &Access,
    limits: &Limits,
    traffic: &Arc<Traffic>,
    number: u64,
) -> Result<Current, ApiError> {
    let Found { place, config } = access.find().await?;
    let meter = MeterLayer { traffic: Arc::clone(traffic), answer: limits.answer };
    let limits = limits.clone();
    // On another thread: credentials may come from a program that takes its time.
    let made = tokio::task::spawn_blocking(move || client(&config, meter, &limits)).await;
    match made.map_err(BoxError::from).flatten() {
        Ok(client) => Ok(Current { client, place: place.into(), number, made: Instant::now() }),
        Err(source) => Err(ApiError::Credentials { place, source }),
    }
}

/// HTTP/2 where the server speaks it, so that all watches share one connection, and HTTP/1.1 otherwise. A connection whose
/// other end is gone is found out by HTTP/2 pings, or by the kernel.
fn client(config: &Config, meter: MeterLayer, limits: &Limits) -> Result<Client, BoxError> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(limits.connect));
    tcp.set_keepalive(Some(limits.silent));
    tcp.set_keepalive_interval(Some(limits.sign_of_life / 3));
    tcp.set_keepalive_retries(Some(3));
    tcp.set_tcp_user_timeout(Some(limits.silent + limits.sign_of_life));
    let mut https =
        HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_or_http();
    if let Some(name) = &config.tls_server_name {
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name.clone().try_into()?));
    }
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(limits.silent)
        .http2_keep_alive_timeout(limits.sign_of_life)
        .build::<_, Body>(https.enable_all_versions().wrap_connector(tcp));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .layer(meter)
        .service(http);
    Ok(Client::new(service, config.default_namespace.clone()))
}
