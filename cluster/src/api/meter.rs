//! Counts what goes over the wire, bounds the time until a server answers, and notes when it asks to wait.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt as _;
use http::header::RETRY_AFTER;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, BodyStream, LengthLimitError, Limited, StreamBody};
use hyper::body::{Body as _, Bytes, Incoming};
use kube::client::Body;
use tower::{BoxError, Layer, Service};

use super::error::{Held, NoAnswer, TooLong, said};
use super::request::Counted;
use super::traffic::{Kind, Traffic};

/// The most that is read of an answer that asks to wait, bytes.
const MAX_HELD_BYTES: usize = 16 << 10;
/// The most that is read of a list of many objects, bytes. A node's Pods are a few megabytes at most. A watch has no end.
const MAX_LIST_BYTES: usize = 64 << 20;
/// The most that is read of any other answer, bytes: one object, of which the server keeps none of more than 1.5 MiB.
const MAX_OBJECT_BYTES: usize = 4 << 20;
/// The most that is read of one event of a watch, bytes. The server keeps no object of more than a few megabytes.
const MAX_EVENT_BYTES: usize = 16 << 20;
/// The longest wait that is believed. A server that asks for more is asked again after this.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(600);

/// Puts a [`Meter`] around a service.
#[derive(Clone)]
pub(crate) struct MeterLayer {
    pub(crate) traffic: Arc<Traffic>,
    /// Longest time until a server begins to answer.
    pub(crate) answer: Duration,
}

impl<S> Layer<S> for MeterLayer {
    type Service = Meter<S>;

    fn layer(&self, inner: S) -> Meter<S> {
        Meter { inner, layer: self.clone() }
    }
}

/// The service that counts.
#[derive(Clone)]
pub(crate) struct Meter<S> {
    inner: S,
    layer: MeterLayer,
}

impl<S> Service<Request<Body>> for Meter<S>
where
    S: Service<Request<Body>, Response = Response<Incoming>>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<UnsyncBoxBody<Bytes, BoxError>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let counted = request.extensions().get::<Counted>().copied();
        let Counted { verb, resource } = counted.unwrap_or(Counted { verb: "other", resource: "other" });
        let sent = request.body().size_hint().lower();
        let MeterLayer { traffic, answer } = self.layer.clone();
        let answering = self.inner.call(request);
        Box::pin(async move {
            let kind = |code| Kind { verb, resource, code };
            let answered = match tokio::time::timeout(answer, answering).await {
                Ok(Ok(response)) => Ok(response),
                Ok(Err(error)) => Err(error.into()),
                Err(_) => Err(NoAnswer { after: answer }.into()),
            };
            let response = answered.inspect_err(|_| traffic.asked(kind(None), sent))?;
            let kind = kind(Some(response.status().as_u16()));
            traffic.asked(kind, sent);
            match retry_after(&response) {
                Some(wait) => Err(held(response, wait, answer, &traffic, kind).await.into()),
                None => Ok(response.map(|body| metered(body, traffic, kind))),
            }
        })
    }
}

fn metered(body: Incoming, traffic: Arc<Traffic>, kind: Kind) -> UnsyncBoxBody<Bytes, BoxError> {
    let count = move |frame: hyper::body::Frame<Bytes>| {
        if let Some(data) = frame.data_ref() {
            traffic.received(kind, data.len() as u64);
        }
        frame
    };
    let body = body.map_frame(count).map_err(BoxError::from);
    match kind.verb {
        "watch" => by_lines(body, MAX_EVENT_BYTES).boxed_unsync(),
        _ => {
            let limit = longest(kind);
            let explain = move |error: BoxError| match error.is::<LengthLimitError>() {
                true => TooLong { limit }.into(),
                false => error,
            };
            Limited::new(body, limit).map_err(explain).boxed_unsync()
        }
    }
}

/// How long an answer may be, bytes. A list of Nodes or of topologies is of one object, too: ours.
fn longest(Kind { verb, resource, .. }: Kind) -> usize {
    match (verb, resource) {
        ("list", "pods" | "resourceslices") => MAX_LIST_BYTES,
        _ => MAX_OBJECT_BYTES,
    }
}

/// The body, until one of its lines is longer than `longest` bytes: each event is a line, and is kept until it is whole.
fn by_lines<B>(body: B, longest: usize) -> impl hyper::body::Body<Data = Bytes, Error = BoxError>
where
    B: hyper::body::Body<Data = Bytes, Error = BoxError> + Unpin,
{
    let mut line = 0;
    let frames = BodyStream::new(body).map(move |frame| {
        let frame = frame?;
        if let Some(data) = frame.data_ref() {
            line = match data.iter().rposition(|byte| *byte == b'\n') {
                Some(end) => data.len() - end - 1,
                None => line + data.len(),
            };
        }
        if line > longest { Err(TooLong { limit: longest }.into()) } else { Ok(frame) }
    });
    StreamBody::new(frames)
}

/// How long an answer asks to wait, if it does. A date instead of seconds is not what API servers send.
fn retry_after(response: &Response<Incoming>) -> Option<Duration> {
    if !matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return None;
    }
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER))
}

async fn held(
    response: Response<Incoming>,
    wait: Duration,
    answer: Duration,
    traffic: &Traffic,
    kind: Kind,
) -> Held {
    let code = response.status().as_u16();
    let body = Limited::new(response.into_body(), MAX_HELD_BYTES).collect();
    // What it says is worth having and not worth waiting for.
    let body = match tokio::time::timeout(answer, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        _ => Bytes::new(),
    };
    traffic.received(kind, body.len() as u64);
    let (message, causes) = match serde_json::from_slice::<kube::core::Status>(&body) {
        Ok(status) => {
            let causes = status.details.map(|details| details.causes).unwrap_or_default();
            (status.message, causes.iter().map(said).collect())
        }
        Err(_) => (String::from_utf8_lossy(&body).trim().to_owned(), Vec::new()),
    };
    Held { code, retry_after: wait, message, causes }
}

#[cfg(test)]
mod tests {
    use hyper::body::Frame;

    use super::*;

    #[tokio::test]
    async fn a_watch_may_go_on_for_ever_and_its_events_may_not() {
        let read = async |parts: Vec<String>| {
            let frames = parts.into_iter().map(|part| Ok::<_, BoxError>(Frame::data(Bytes::from(part))));
            let body = StreamBody::new(futures_util::stream::iter(frames));
            by_lines(body, 100).collect().await.map(|all| all.to_bytes().len())
        };
        let half = "a".repeat(50);
        assert_eq!(read(vec![format!("{half}{half}\n"); 1000]).await.unwrap(), 101_000);
        assert_eq!(read(vec![half.clone(), format!("{half}\n{half}"), half.clone()]).await.unwrap(), 201);
        let error = read(vec![half.clone(), half.clone(), "a".to_owned()]).await.unwrap_err();
        assert_eq!(error.to_string(), "longer than 100 bytes");
    }
}
