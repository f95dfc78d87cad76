//! A kubelet's socket that says what a test tells it to, down to the bytes.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;
use tonic::Code;

use super::super::{Limits, PodResources, v1};

/// What is said to one call.
pub(super) enum Reply {
    Message(Vec<u8>),
    Status(Code, &'static str),
    Hang,
    HangUp,
}

impl Reply {
    pub(super) fn of(message: &impl Message) -> Self {
        Self::Message(message.encode_to_vec())
    }

    /// What a kubelet without devices and Pods says.
    pub(super) fn nothing() -> Self {
        Self::Message(Vec::new())
    }
}

pub(super) struct Server {
    directory: TempDir,
    task: Option<JoinHandle<()>>,
}

impl Server {
    /// Without a socket.
    pub(super) fn absent() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), task: None }
    }

    /// Answers each call by its name.
    pub(super) fn answering(script: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        let mut server = Self::absent();
        server.answer(script);
        server
    }

    /// Writes these bytes to whoever connects, and then hangs up or does nothing more.
    pub(super) fn babbling(bytes: &'static [u8], hang_up: bool) -> Self {
        let mut server = Self::absent();
        let listener = server.listen();
        server.task = Some(tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = stream.write_all(bytes).await;
                if !hang_up {
                    held.push(stream);
                }
            }
        }));
        server
    }

    /// Ends, and leaves its socket behind as a kubelet does that is killed.
    pub(super) fn stop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    /// Starts again with a new socket.
    pub(super) fn answer(&mut self, script: impl Fn(&str) -> Reply + Send + Sync + 'static) {
        self.stop();
        let (listener, script) = (self.listen(), Arc::new(script));
        self.task = Some(tokio::spawn(async move {
            // Connections end with the task.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(connection(stream, Arc::clone(&script)));
            }
        }));
    }

    pub(super) fn listen(&self) -> UnixListener {
        let _ = std::fs::remove_file(self.socket());
        UnixListener::bind(self.socket()).unwrap()
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.directory.path().join("kubelet.sock")
    }

    pub(super) fn client(&self) -> PodResources {
        PodResources::new(self.socket(), Limits::default())
    }

    pub(super) fn impatient_client(&self) -> PodResources {
        client_with(&self.socket(), Duration::from_millis(200))
    }
}

pub(super) fn client_with(socket: &Path, deadline: Duration) -> PodResources {
    PodResources::new(socket, Limits { deadline, ..Limits::default() })
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn connection(stream: UnixStream, script: Arc<impl Fn(&str) -> Reply + Send + Sync + 'static>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let reply = script(request.uri().path().rsplit('/').next().unwrap());
        answer(reply)
    });
    let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(reply: Reply) -> Result<Response<BoxBody<Bytes, Infallible>>, HungUp> {
    let response = Response::builder().header("content-type", "application/grpc");
    Ok(match reply {
        Reply::Hang => std::future::pending().await,
        Reply::HangUp => return Err(HungUp),
        Reply::Message(message) => {
            let length = u32::try_from(message.len()).unwrap().to_be_bytes();
            let framed = [&[0], &length[..], &message].concat();
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", "0".parse().unwrap());
            let body = Full::new(Bytes::from(framed)).with_trailers(std::future::ready(Some(Ok(trailers))));
            response.body(body.boxed()).unwrap()
        }
        Reply::Status(code, message) => {
            let response = response
                .header("grpc-status", i32::from(code))
                .header("grpc-message", message.replace(' ', "%20"));
            response.body(Empty::new().boxed()).unwrap()
        }
    })
}

#[derive(Debug, thiserror::Error)]
#[error("hung up")]
struct HungUp;

/// A list of one Pod with one container, which is made here.
pub(super) fn one_container(container: v1::ContainerResources) -> v1::ListPodResourcesResponse {
    let pod = v1::PodResources {
        name: "train".to_owned(),
        namespace: "default".to_owned(),
        containers: vec![container],
    };
    v1::ListPodResourcesResponse { pod_resources: vec![pod] }
}
