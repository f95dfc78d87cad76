//! What is asked and answered.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The most bytes of a line.
const MAX_LINE: u64 = 16 * 1024;

/// What is asked of the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ask", deny_unknown_fields)]
pub(crate) enum Request {
    /// Let go of the driver: every handle, file and thread.
    Quiesce {
        /// How long calls that are under way may take, milliseconds.
        deadline_ms: u64,
    },
    /// Take the driver up again.
    Resume,
}

/// What the daemon answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "answer", deny_unknown_fields)]
pub(crate) enum Response {
    /// It is done.
    Done,
    /// It is not.
    Refused {
        /// One stable word.
        reason: String,
        /// Why, for people.
        message: String,
    },
}

impl Request {
    /// What is asked for, in the word that the command line has for it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Quiesce { .. } => "quiesce",
            Self::Resume => "resume",
        }
    }

    /// How long it may take, if that is asked for.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        match self {
            Self::Quiesce { deadline_ms } => Some(Duration::from_millis(*deadline_ms)),
            Self::Resume => None,
        }
    }

    /// The longest that the daemon needs to answer.
    pub(crate) fn patience(&self) -> Duration {
        match self {
            Self::Quiesce { deadline_ms } => Duration::from_millis(*deadline_ms) + Duration::from_secs(10),
            Self::Resume => Duration::from_secs(30),
        }
    }
}

/// Reads one message.
pub(crate) async fn read<T: DeserializeOwned>(from: impl AsyncBufRead + Unpin) -> io::Result<T> {
    let mut line = Vec::new();
    from.take(MAX_LINE).read_until(b'\n', &mut line).await?;
    if line.last() != Some(&b'\n') {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the line is too long or was cut off"));
    }
    serde_json::from_slice(&line).map_err(io::Error::from)
}

/// Writes one message.
pub(crate) async fn write<T: Serialize>(mut to: impl AsyncWrite + Unpin, message: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line).await?;
    to.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_survive_the_wire() {
        let request = Request::Quiesce { deadline_ms: 500 };
        let mut wire = Vec::new();
        write(&mut wire, &request).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&wire), "{\"ask\":\"quiesce\",\"deadline_ms\":500}\n");
        assert_eq!(read::<Request>(wire.as_slice()).await.unwrap(), request);
    }

    #[tokio::test]
    async fn what_is_no_message_is_refused() {
        let long = vec![b' '; 20_000];
        for wire in
            [&b""[..], b"{\"ask\":\"resume\"}", b"resume\n", b"{\"ask\":\"reboot\"}\n", b"\xff\n", &long]
        {
            assert!(read::<Request>(wire).await.is_err(), "{wire:?}");
        }
    }
}
