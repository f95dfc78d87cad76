//! A server before the daemon that asks it for text format 0.0.4 whatever its own client prefers.
//!
//! Debian's Prometheus always prefers OpenMetrics and has no setting to change that; older ones know only the text
//! format. This stands between the two.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Serves `/metrics` of a daemon in text format 0.0.4 only.
#[derive(Debug)]
pub struct TextOnly {
    address: SocketAddr,
}

impl TextOnly {
    /// Starts one before the daemon at `daemon`; it lives as long as the test's process.
    pub fn before(daemon: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // A client that goes away in the middle is its own affair.
                let _ = relay(client, daemon);
            }
        });
        Self { address }
    }

    /// `host:port` for a client.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn relay(mut client: TcpStream, daemon: SocketAddr) -> std::io::Result<()> {
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
    client.write_all(&response)
}
