//! Turning away a connection that is one too many.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How many are turned away with an answer at once; further ones are closed without.
pub(super) const AT_ONCE: usize = 16;

/// How long one may take to read the answer.
const LIMIT: Duration = Duration::from_secs(1);

/// The most of a request that is read before the end.
const REQUEST: usize = 16 * 1024;

const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    retry-after: 1\r\n\
    connection: close\r\n\
    content-length: 21\r\n\
    \r\n\
    too many connections\n";

/// Answers 503. What the client has sent is read, since closing a socket with unread data discards the answer.
pub(super) async fn refuse(mut stream: TcpStream) {
    let exchange = async {
        stream.write_all(ANSWER).await?;
        stream.shutdown().await?;
        let (mut left, mut buffer) = (REQUEST, [0; 1024]);
        while left > 0 {
            match stream.read(&mut buffer).await? {
                0 => break,
                read => left = left.saturating_sub(read),
            }
        }
        Ok::<_, std::io::Error>(())
    };
    if let Ok(Err(error)) = timeout(LIMIT, exchange).await {
        tracing::debug!(%error, "a refused connection broke off");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_is_that_of_the_text() {
        let answer = std::str::from_utf8(ANSWER).unwrap();
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", text.len())));
    }
}
