//! A server on a port of its own, and a client that does exactly what it is told.

#![allow(dead_code, reason = "each file of tests uses its own part")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpulet_exporter::{About, BuildInfo, Drained, Limits, Own, Probe, Site, serve};
use gpulet_inventory::snapshot::Snapshot;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longer than anything here takes; a test that reaches it has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// The agent's word on its health, as a test sets it.
#[derive(Default)]
pub(crate) struct Word {
    pub(crate) dead: AtomicBool,
    pub(crate) waits_for: Mutex<Option<String>>,
}

impl Probe for Word {
    fn live(&self) -> Result<(), String> {
        if self.dead.load(Ordering::Relaxed) { Err("loop sample is stuck".into()) } else { Ok(()) }
    }

    fn ready(&self) -> Result<(), String> {
        self.waits_for.lock().unwrap().clone().map_or(Ok(()), Err)
    }
}

/// A server and what it serves.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) snapshot: watch::Sender<Option<Arc<Snapshot>>>,
    pub(crate) plan: watch::Sender<Option<Arc<str>>>,
    pub(crate) own: Arc<Own>,
    pub(crate) word: Arc<Word>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Drained>,
}

impl Running {
    pub(crate) async fn start(snapshot: Option<Snapshot>, limits: Limits) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, receiver) = watch::channel(snapshot.map(Arc::new));
        let build = BuildInfo { version: "0.1.0".into(), revision: String::new(), rustc: String::new() };
        let own = Arc::new(Own::new(build, &["sample"]).unwrap());
        let word = Arc::new(Word::default());
        let probe: Arc<dyn Probe> = Arc::<Word>::clone(&word);
        let about =
            About { node: Some("gpu-7".into()), simulated: Some("Simulated: <none> of it exists.".into()) };
        let plan = watch::Sender::new(None);
        let site = Site { snapshot: receiver, plan: plan.subscribe(), own: Arc::clone(&own), probe, about };
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(serve(listener, site, limits, async { drop(stopped.await) }));
        Self { address, snapshot: sender, plan, own, word, stop, task }
    }

    pub(crate) fn show(&self, snapshot: Snapshot) {
        self.snapshot.send_replace(Some(Arc::new(snapshot)));
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.get_with(path, &[]).await
    }

    pub(crate) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.ask("GET", path, headers).await
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut stream = self.connect().await;
        stream.write_all(request(method, path, headers, "close").as_bytes()).await.unwrap();
        Answer::read(&mut stream).await
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Tells the server to stop and waits for its end.
    pub(crate) async fn stop(self) -> Drained {
        self.stop.send(()).unwrap();
        in_time(self.task).await.unwrap()
    }
}

pub(crate) async fn in_time<F: Future>(future: F) -> F::Output {
    timeout(PATIENCE, future).await.expect("in time")
}

/// The bytes of a request without a body.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], connection: &str) -> String {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("{method} {path} HTTP/1.1\r\nHost: node\r\nConnection: {connection}\r\n{headers}\r\n")
}

/// One answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Reads one answer to the end of the connection.
    pub(crate) async fn read(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        in_time(stream.read_to_end(&mut bytes)).await.unwrap();
        Self::parse(&bytes)
    }

    /// Reads one answer of known length and leaves the connection open.
    pub(crate) async fn read_one(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        loop {
            let read = in_time(stream.read_buf(&mut bytes)).await.unwrap();
            assert!(read > 0, "the connection ended in the middle of an answer");
            if !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
                continue;
            }
            let answer = Self::parse(&bytes);
            if answer.body.len() >= answer.header("content-length").parse().unwrap() {
                return answer;
            }
        }
    }

    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a whole head");
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        Self { status, headers, body: bytes[end + 4..].to_vec() }
    }

    /// A header's value; empty where it is absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}
