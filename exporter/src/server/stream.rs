//! A connection on which an answer must be taken in time.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

/// A TCP stream whose peer has [`Deadlined::limit`] from the first byte of an answer to take all of it.
///
/// hyper flushes only when it has handed over everything, so a flush ends the answer. A peer that takes a byte now
/// and then does not put the end off.
pub(super) struct Deadlined {
    stream: TcpStream,
    limit: Duration,
    end: Pin<Box<Sleep>>,
    writing: bool,
}

impl Deadlined {
    pub(super) fn new(stream: TcpStream, limit: Duration) -> Self {
        Self { stream, limit, end: Box::pin(sleep(limit)), writing: false }
    }

    fn write(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if !std::mem::replace(&mut self.writing, true) {
            self.end.as_mut().reset(Instant::now() + self.limit);
        }
        match write(Pin::new(&mut self.stream), cx) {
            Poll::Pending if self.end.as_mut().poll(cx).is_ready() => Poll::Ready(Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the client does not take the answer",
            ))),
            outcome => outcome,
        }
    }
}

impl AsyncRead for Deadlined {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Deadlined {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.write(cx, |stream, cx| stream.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |stream, cx| stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if flushed.is_ready() {
            self.writing = false;
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
