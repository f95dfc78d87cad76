//! A server before the daemon that asks it for text format 0.0.4 whatever its own client prefers.
//!
//! Debian's Prometheus always prefers OpenMetrics and has no setting to change that; older ones know only the text
//! format. This stands between the two.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Serves `/metrics` of a daemon in text format 0.0.4 only.
#[derive(Debug)]
pub struct TextOnly {
    address: SocketAddr,
    served: Arc<AtomicUsize>,
}

impl TextOnly {
    /// Starts one before the daemon at `daemon`; it lives as long as the test's process.
    pub fn before(daemon: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let served = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&served);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // A client that goes away in the middle is its own affair.
                if relay(client, daemon).is_ok_and(|text| text) {
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Self { address, served }
    }

    /// How many scrapes were answered in the text format and passed on whole.
    pub fn served(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }

    /// `host:port` for a client.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Whether the daemon did answer in the text format.
fn relay(mut client: TcpStream, daemon: SocketAddr) -> std::io::Result<bool> {
    let mut request = BufReader::new(client.try_clone()?);
    let mut line = String::new();
    while request.read_line(&mut line)? > 2 {
        line.clear();
    }
    let mut upstream = TcpStream::connect(daemon)?;
    let asked = "GET /metrics HTTP/1.1\r\nHost: gpulet\r\nAccept: text/plain;version=0.0.4\r\nConnection: close\r\n\r\n";
    upstream.write_all(asked.as_bytes())?;
    let mut response = Vec::new();
    upstream.read_to_end(&mut response)?;
    client.write_all(&response)?;
    let head = String::from_utf8_lossy(&response[..response.len().min(512)]).to_lowercase();
    Ok(head.contains("content-type: text/plain; version=0.0.4"))
}
