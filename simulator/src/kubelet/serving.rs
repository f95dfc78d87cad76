//! A gRPC service on a unix socket, in a thread of its own.

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{oneshot, watch};
use tonic::body::Body;
use tower::Service;

use super::behaviour::{Behaviour, Fault};

/// What no HTTP/2 peer says: a frame longer than allowed of a kind that there is not.
const GARBAGE: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff\xffno kubelet here\r\n\xde\xad\xbe\xef";

/// A service that is being served. When dropped it ends as a process that is killed does: connections break, the
/// socket's file stays.
pub(crate) struct Serving {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Serving {
    /// Binds the socket, in place of one that is there, and serves until dropped.
    ///
    /// # Errors
    /// When the socket cannot be bound or no thread be had.
    pub(crate) fn start<S>(path: &Path, service: S, behaviour: watch::Receiver<Behaviour>) -> io::Result<Self>
    where
        S: Service<http::Request<hyper::body::Incoming>, Response = http::Response<Body>, Error = Infallible>,
        S: Clone + Send + 'static,
        S::Future: Send,
    {
        let listener = bind(path)?;
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = thread::Builder::new().name("sim-grpc".to_owned()).spawn(move || {
            runtime.block_on(async {
                let listener = UnixListener::from_std(listener)?;
                tokio::select! {
                    _ = stopped => Ok(()),
                    error = accept(&listener, service, behaviour) => error,
                }
            })
        });
        Ok(Self { stop: Some(stop), thread: Some(thread?) })
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // It may have ended by itself.
            let _ended = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // What ended it early was seen by those whom nobody answered.
            let _ended = thread.join();
        }
    }
}

fn bind(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = within_reach(path, |path| std::os::unix::net::UnixListener::bind(path))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Does something with a path that the kernel takes for a socket: it takes 107 bytes at most, and directories of tests
/// lie deep. A link to the directory makes a longer one short.
pub(crate) fn within_reach<T>(path: &Path, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    const MOST: usize = 107;
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return act(path) };
    if path.as_os_str().len() <= MOST {
        return act(path);
    }
    let handle = std::fs::File::open(directory)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&handle)));
    act(&short.join(name))
}

async fn accept<S>(
    listener: &UnixListener,
    service: S,
    behaviour: watch::Receiver<Behaviour>,
) -> io::Result<()>
where
    S: Service<http::Request<hyper::body::Incoming>, Response = http::Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
{
    loop {
        let (stream, _) = listener.accept().await?;
        let service = service.clone();
        let garbage = behaviour.borrow().fault == Some(Fault::Garbage);
        tokio::spawn(
            async move { if garbage { babble(stream).await } else { serve(stream, service).await } },
        );
    }
}

async fn babble(mut stream: UnixStream) {
    // Whoever has hung up needs no garbage.
    let _unheard = stream.write_all(GARBAGE).await;
}

async fn serve<S>(stream: UnixStream, service: S)
where
    S: Service<http::Request<hyper::body::Incoming>, Response = http::Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send,
{
    let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    // A connection that breaks is the other end's affair.
    let _ended = connection.await;
}
