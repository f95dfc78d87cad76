//! A server on the loopback that answers as a script says. It writes bytes itself, so that it can also write half of them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use gpulet_cluster::api::{Access, Api, Limits, Pace, ServiceAccount};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

/// A test that waits longer than this fails. Machines that do much else are slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) content_type: String,
    pub(crate) token: String,
    pub(crate) body: Value,
    pub(crate) at: Instant,
}

impl Asked {
    /// `list`, `watch`, or the method.
    pub(crate) fn verb(&self) -> &str {
        match self.method.as_str() {
            "GET" if self.query.contains("watch=true") => "watch",
            "GET" if self.query.contains("fieldSelector") => "list",
            other => other,
        }
    }

    /// The value of a query parameter, as it was written.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }
}

/// What is answered.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A status and a body in JSON.
    Json(u16, Value),
    /// A status, a header line and a text.
    Text(u16, &'static str, &'static str),
    /// A stream of events: those that are sent here. When the sender is dropped it ends.
    Events(mpsc::UnboundedReceiver<Line>),
    /// Half of a body that was announced as whole; then silence.
    HalfAndSilence,
    /// The same; then the connection is closed.
    HalfAndEnd,
    /// Nothing at all.
    Silence,
}

/// What a stream of events does next.
#[derive(Debug)]
pub(crate) enum Line {
    /// An event.
    Event(Value),
    /// Some bytes, then the connection is closed without an end of the body.
    Cut(&'static str),
}

type Script = Box<dyn FnMut(&Asked, usize) -> Answer + Send>;

/// The server. It ends with the test's runtime.
pub(crate) struct Server {
    address: std::net::SocketAddr,
    asked: watch::Receiver<Vec<Asked>>,
    files: TempDir,
}

impl Server {
    /// Starts one. The script gets each request and how many of the same verb and path came before it.
    pub(crate) async fn start(script: impl FnMut(&Asked, usize) -> Answer + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, asked) = watch::channel(Vec::new());
        let script: Arc<Mutex<Script>> = Arc::new(Mutex::new(Box::new(script)));
        let sender = Arc::new(sender);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, Arc::clone(&script), Arc::clone(&sender)));
            }
        });
        Self { address, asked, files: tempfile::tempdir().unwrap() }
    }

    /// A kubeconfig for it with these fields of a user.
    pub(crate) fn kubeconfig(&self, user: Value) -> PathBuf {
        let path = self.files.path().join("kubeconfig");
        std::fs::write(&path, kubeconfig(&format!("http://{}", self.address), user)).unwrap();
        path
    }

    /// Where its files are.
    pub(crate) fn directory(&self) -> &std::path::Path {
        self.files.path()
    }

    /// The API of node `node-a` on it.
    pub(crate) async fn api(&self, limits: Limits) -> Api {
        self.api_as(json!({"token": "first"}), limits).await
    }

    /// The same for this user.
    pub(crate) async fn api_as(&self, user: Value, limits: Limits) -> Api {
        Api::connect(only(self.kubeconfig(user)), "node-a", limits).await.unwrap()
    }

    /// Everything that was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.borrow().clone()
    }

    /// The requests of a verb so far.
    pub(crate) fn of(&self, verb: &str) -> Vec<Asked> {
        self.asked().into_iter().filter(|asked| asked.verb() == verb).collect()
    }

    /// Waits until so many requests of a verb came.
    pub(crate) async fn until(&self, verb: &str, count: usize) -> Vec<Asked> {
        let mut asked = self.asked.clone();
        let enough = |all: &Vec<Asked>| all.iter().filter(|asked| asked.verb() == verb).count() >= count;
        within(asked.wait_for(enough)).await.unwrap();
        self.of(verb)
    }
}

/// Only this kubeconfig.
pub(crate) fn only(kubeconfig: PathBuf) -> Access {
    Access { kubeconfig: Some(kubeconfig), ..nowhere(PathBuf::from("/nonexistent")) }
}

/// No credentials anywhere but below this root.
pub(crate) fn nowhere(host_root: PathBuf) -> Access {
    let service_account = ServiceAccount { host: None, port: None, directory: PathBuf::from("/nonexistent") };
    Access { kubeconfig: None, service_account, host_root, kubelet_kubeconfig: None }
}

/// The text of a kubeconfig.
pub(crate) fn kubeconfig(server: &str, user: Value) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": server}}],
        "users": [{"name": "it", "user": user}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    })
    .to_string()
}

/// Waits for something, but not for ever.
pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it happens in time")
}

/// Short waits; long times until something is given up, so that slow machines do not matter where that is not tested.
pub(crate) fn limits() -> Limits {
    let pace = Pace { first: Duration::from_millis(40), longest: Duration::from_millis(320) };
    Limits {
        connect: PATIENCE,
        answer: PATIENCE,
        call: PATIENCE,
        list: PATIENCE,
        watch: Duration::from_secs(60),
        retry: pace,
        absent: pace,
        rare: pace,
        renew: Duration::ZERO,
        ..Limits::default()
    }
}

/// A stream of events and what makes it go on.
pub(crate) fn stream() -> (mpsc::UnboundedSender<Line>, Answer) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (sender, Answer::Events(receiver))
}

/// A stream with these events that then ends.
pub(crate) fn ended(events: impl IntoIterator<Item = Line>) -> Answer {
    let (sender, answer) = stream();
    events.into_iter().for_each(|event| sender.send(event).unwrap());
    answer
}

async fn serve(stream: TcpStream, script: Arc<Mutex<Script>>, asked: Arc<watch::Sender<Vec<Asked>>>) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await {
        let same = |other: &&Asked| other.verb() == request.verb() && other.path == request.path;
        let before = asked.borrow().iter().filter(same).count();
        let answer = script.lock().unwrap()(&request, before);
        asked.send_modify(|all| all.push(request));
        // A client that is gone does not matter.
        if !answered(&mut stream, answer).await.unwrap_or(false) {
            return;
        }
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let header = |name: &str| {
        let found = lines.iter().skip(1).filter_map(|line| line.split_once(": "));
        found.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next()
    };
    let mut body = vec![0; header("content-length").map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.ok()?;
    let mut words = lines[0].split(' ');
    let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    Some(Asked {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        content_type: header("content-type").unwrap_or_default(),
        token: header("authorization").unwrap_or_default().replace("Bearer ", ""),
        body: serde_json::from_slice(&body).unwrap_or_default(),
        at: Instant::now(),
    })
}

/// Writes an answer; says whether the connection goes on.
async fn answered(stream: &mut BufReader<TcpStream>, answer: Answer) -> std::io::Result<bool> {
    match answer {
        Answer::Json(status, body) => {
            whole(stream, status, "Content-Type: application/json", &body.to_string()).await
        }
        Answer::Text(status, header, text) => whole(stream, status, header, text).await,
        Answer::Events(events) => chunks(stream, events).await,
        Answer::HalfAndSilence => {
            half(stream).await?;
            std::future::pending().await
        }
        Answer::HalfAndEnd => half(stream).await.map(|()| false),
        Answer::Silence => std::future::pending().await,
    }
}

async fn whole(
    stream: &mut BufReader<TcpStream>,
    status: u16,
    header: &str,
    body: &str,
) -> std::io::Result<bool> {
    let head = format!("HTTP/1.1 {status} It\r\n{header}\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(head.as_bytes()).await?;
    stream.flush().await.map(|()| true)
}

async fn half(stream: &mut BufReader<TcpStream>) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 It\r\nContent-Length: 1000\r\n\r\n{\"metadata\": {").await?;
    stream.flush().await
}

async fn chunks(
    stream: &mut BufReader<TcpStream>,
    mut events: mpsc::UnboundedReceiver<Line>,
) -> std::io::Result<bool> {
    stream.write_all(b"HTTP/1.1 200 It\r\nTransfer-Encoding: chunked\r\n\r\n").await?;
    stream.flush().await?;
    while let Some(line) = events.recv().await {
        let (text, cut) = match line {
            Line::Event(event) => (format!("{event}\n"), false),
            Line::Cut(text) => (text.to_owned(), true),
        };
        stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await?;
        stream.flush().await?;
        if cut {
            return Ok(false);
        }
    }
    stream.write_all(b"0\r\n\r\n").await?;
    stream.flush().await.map(|()| true)
}
