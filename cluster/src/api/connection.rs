//! The connection to the API server: one, for all requests and watches, made anew when its credentials are refused.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::header::AUTHORIZATION;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt as _};
use kube::core::WatchEvent;
use kube::{Client, Config};
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};
use tower::{BoxError, Layer as _, ServiceBuilder, ServiceExt as _};

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
    /// The reading of credentials that is under way: once for all who were refused, and no second one while it hangs.
    renewing: tokio::sync::Mutex<Option<JoinHandle<Result<Current, ApiError>>>>,
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
        crate::tls::provide();
        let traffic = Arc::new(Traffic::default());
        let current = RwLock::new(connect(access.clone(), limits.clone(), Arc::clone(&traffic), 0).await?);
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

    /// Does a request once, and once more with credentials read anew if they are refused or lead nowhere. The answer is in
    /// JSON.
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
            Err(error) => {
                let second = self.instead_of(&first, error).await?;
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
            Err(error) => {
                let second = self.instead_of(&first, error).await?;
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

    /// The client to try instead of one that met `error`; the error, where another client would meet it too.
    async fn instead_of(&self, first: &Current, error: ApiError) -> Result<Current, ApiError> {
        match error {
            ApiError::Unauthorized { .. } => {
                self.renewed(first.number, self.limits.renew).await?.ok_or(error)
            }
            // The server may have another address or authority by now.
            ApiError::Unreachable { .. } => {
                self.renewed(first.number, self.limits.look_again).await.ok().flatten().ok_or(error)
            }
            error => Err(error),
        }
    }

    /// A client newer than the refused one; nothing if the credentials were read less than `apart` ago.
    async fn renewed(&self, refused: u64, apart: Duration) -> Result<Option<Current>, ApiError> {
        let mut renewing = self.renewing.lock().await;
        let current = self.current();
        if current.number != refused {
            return Ok(Some(current));
        }
        if current.made.elapsed() < apart {
            return Ok(None);
        }
        let unusable = |source: BoxError| ApiError::Credentials { place: current.place.to_string(), source };
        let begin = || {
            let (access, limits) = (self.access.clone(), self.limits.clone());
            tokio::spawn(connect(access, limits, Arc::clone(&self.traffic), current.number + 1))
        };
        let connecting = renewing.get_or_insert_with(begin);
        let Ok(connected) = tokio::time::timeout(self.limits.call, connecting).await else {
            return Err(unusable("reading them takes too long".into()));
        };
        *renewing = None;
        let next = connected.map_err(|error| unusable(error.into()))??;
        tracing::info!(place = &*next.place, "the credentials for the API server were read again");
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next.clone();
        Ok(Some(next))
    }
}

/// Credentials and a client made from them, on another thread: files may be on a disk that is gone, and a program that gives
/// credentials takes its time.
async fn connect(
    access: Access,
    limits: Limits,
    traffic: Arc<Traffic>,
    number: u64,
) -> Result<Current, ApiError> {
    let meter = MeterLayer { traffic, answer: limits.answer };
    let runtime = Handle::current();
    let making = tokio::task::spawn_blocking(move || {
        let Found { place, config } = runtime.block_on(access.find())?;
        let made = runtime.block_on(settled(config)).and_then(|config| client(&config, meter, &limits));
        match made {
            Ok(client) => Ok(Current { client, place: place.into(), number, made: Instant::now() }),
            Err(source) => Err(ApiError::Credentials { place, source }),
        }
    });
    let ended =
        |error: JoinError| ApiError::Credentials { place: "this node".to_owned(), source: error.into() };
    making.await.map_err(ended).flatten()
}

/// A program that gives tokens is run once for each connection, and again when its token is refused. The client would run
/// it in the middle of a request, and another one for each request that has waited long enough: programs that hang would
/// take all threads.
async fn settled(mut config: Config) -> Result<Config, BoxError> {
    let identity = &config.auth_info;
    if identity.exec.is_none() && identity.auth_provider.is_none() {
        return Ok(config);
    }
    // Without a token it gives a certificate, or nothing.
    let Some(layer) = config.auth_layer()? else { return Ok(config) };
    let told = tower::service_fn(|request: http::Request<Body>| {
        std::future::ready(Ok::<_, BoxError>(http::Response::new(
            request.headers().get(AUTHORIZATION).cloned(),
        )))
    });
    let header = layer.layer(told).oneshot(http::Request::new(Body::empty())).await?.into_body();
    let token = header.as_ref().and_then(|header| header.to_str().ok()?.strip_prefix("Bearer "));
    if let Some(token) = token {
        config.auth_info.token = Some(token.to_owned().into());
        config.auth_info.auth_provider = None;
    }
    Ok(config)
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
