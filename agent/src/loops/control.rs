//! Does what `gpulet quiesce` and `gpulet resume` ask for.

use std::io;
use std::time::{Duration, Instant};

use tokio::io::BufReader;
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use super::Shared;
use crate::control::protocol::{self, Request, Response};
use crate::control::socket::{ControlSocket, SocketError};
use crate::report;
use crate::supervise::LoopError;

/// The loop's name.
pub(crate) const NAME: &str = "control";

/// How long someone who has connected may take to ask.
const ASK_WITHIN: Duration = Duration::from_secs(2);
/// How many are listened to at once, so that those who ask nothing do not keep off those who do.
const AT_ONCE: usize = 8;
/// How often a socket that could not be made is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(30);
/// The longest that letting go of the driver may be given.
const LONGEST_QUIESCE: Duration = Duration::from_secs(600);

/// Answers until it is time to end.
pub(crate) async fn run(shared: Shared) -> Result<(), LoopError> {
    tokio::select! {
        () = shared.shutdown.requested() => Ok(()),
        result = answer_all(&shared) => result,
    }
}

async fn answer_all(shared: &Shared) -> Result<(), LoopError> {
    let socket = socket(shared).await;
    let mut answering = JoinSet::new();
    loop {
        tokio::select! {
            stream = socket.accept(), if answering.len() < AT_ONCE => {
                let (shared, stream) = (shared.clone(), stream?);
                answering.spawn(async move { answer(&shared, stream).await });
            }
            Some(answered) = answering.join_next() => match answered {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a connection to the control socket broke"),
                // Of a panic; where it came from is in the log already. Whoever asked sees the connection close.
                Err(error) => tracing::error!(%error, "what was asked at the control socket was not done"),
            },
        }
    }
}

/// The socket, as soon as it can be made. All else works without it, so that this is said once and tried again quietly.
async fn socket(shared: &Shared) -> ControlSocket {
    let mut said: Option<&'static str> = None;
    loop {
        let error: SocketError = match ControlSocket::bind(&shared.state_dir).await {
            Ok(socket) => return socket,
            Err(error) => error,
        };
        if said.replace(error.reason()) != Some(error.reason()) {
            tracing::warn!(
                error = report::chain(&error),
                reason = error.reason(),
                "`gpulet quiesce` and `gpulet resume` cannot reach this daemon"
            );
        }
        tokio::time::sleep(TRY_AGAIN).await;
    }
}

async fn answer(shared: &Shared, mut stream: UnixStream) -> io::Result<()> {
    let asked = tokio::time::timeout(ASK_WITHIN, protocol::read(BufReader::new(&mut stream))).await;
    let response = match asked {
        Err(_) => return Err(io::Error::new(io::ErrorKind::TimedOut, "nothing was asked in time")),
        Ok(Err(error)) => Response::Refused { reason: "BadRequest".to_owned(), message: error.to_string() },
        Ok(Ok(request)) => obey(shared, request).await,
    };
    protocol::write(&mut stream, &response).await
}

async fn obey(shared: &Shared, request: Request) -> Response {
    let begun = Instant::now();
    let (name, deadline_seconds) = (request.name(), request.deadline().map(|limit| limit.as_secs_f64()));
    let result = match request {
        Request::Quiesce { deadline_ms } => {
            let deadline = Duration::from_millis(deadline_ms).min(LONGEST_QUIESCE);
            shared.driver.quiesce(deadline).await
        }
        Request::Resume => {
            shared.driver.resume().await;
            Ok(())
        }
    };
    shared.wake.notify_one();
    let seconds = begun.elapsed().as_secs_f64();
    match result {
        Ok(()) => {
            tracing::info!(request = name, deadline_seconds, seconds, "control request done");
            Response::Done
        }
        Err(error) => {
            tracing::warn!(
                request = name,
                deadline_seconds,
                seconds,
                %error,
                reason = error.reason(),
                "control request failed"
            );
            Response::Refused { reason: error.reason().to_owned(), message: error.to_string() }
        }
    }
}
