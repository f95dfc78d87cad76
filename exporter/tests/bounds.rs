//! What a client can take, and how serving ends.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod client;

use std::time::{Duration, Instant};

use client::{Answer, Running, in_time, request};
use gpulet_exporter::{Drained, Limits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::sleep;

const SHORT: Duration = Duration::from_millis(500);

async fn running(limits: Limits) -> Running {
    Running::start(Some(gpulet_benches::snapshot(1, 0)), limits).await
}

/// A connection that has been accepted for certain and stays open.
async fn open(server: &Running) -> TcpStream {
    let mut stream = server.connect().await;
    stream.write_all(request("GET", "/healthz", &[], "keep-alive").as_bytes()).await.unwrap();
    assert_eq!(Answer::read_one(&mut stream).await.status, 200);
    stream
}

/// A client that asks for more than all buffers between it and the server hold, and takes nothing of it.
async fn slow_reader(server: &Running) -> TcpStream {
    server.show(gpulet_benches::snapshot(800, 18));
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(server.address).await.unwrap();
    stream.write_all(request("GET", "/metrics", &[], "close").as_bytes()).await.unwrap();
    // The first byte: the answer has begun.
    in_time(stream.read_u8()).await.unwrap();
    stream
}

/// The length of the document.
async fn length(server: &Running) -> usize {
    server.ask("HEAD", "/metrics", &[]).await.header("content-length").parse().unwrap()
}

/// Asks until the server has a place again.
async fn until_served(server: &Running) {
    in_time(async {
        while server.get("/metrics").await.status != 200 {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// What is left to read, to the end or the reset of the connection.
async fn rest(stream: &mut TcpStream) -> usize {
    let (mut buffer, mut read) = (vec![0; 1 << 16], 0);
    loop {
        match in_time(stream.read(&mut buffer)).await {
            Ok(0) | Err(_) => return read,
            Ok(more) => read += more,
        }
    }
}

#[tokio::test]
async fn headers_have_a_size() {
    let server = running(Limits { header_bytes: 8192, ..Limits::default() }).await;
    let fits = "x".repeat(4000);
    assert_eq!(server.get_with("/healthz", &[("X-Large", &fits)]).await.status, 200);
    let large = "x".repeat(20_000);
    assert_eq!(server.get_with("/healthz", &[("X-Large", &large)]).await.status, 431);
    let many = vec![("X-Many", "x"); 100];
    assert_eq!(server.get_with("/healthz", &many).await.status, 431);
}

#[tokio::test]
async fn headers_have_a_time() {
    let server = running(Limits { header_timeout: SHORT, ..Limits::default() }).await;
    let begun = Instant::now();
    let mut silent = server.connect().await;
    let mut halting = server.connect().await;
    halting.write_all(b"GET /healthz HTTP/1.1\r\nHost:").await.unwrap();
    let mut idle = open(&server).await;
    for stream in [&mut silent, &mut halting, &mut idle] {
        rest(stream).await;
    }
    assert!(begun.elapsed() >= SHORT);
}

#[tokio::test]
async fn what_is_no_request_is_refused() {
    let server = running(Limits::default()).await;
    let mut stream = server.connect().await;
    stream.write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n").await.unwrap();
    assert_eq!(Answer::read(&mut stream).await.status, 400);
    assert_eq!(server.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn a_slow_reader_loses_its_place() {
    let server = running(Limits { connections: 1, request_timeout: SHORT, ..Limits::default() }).await;
    let mut slow = slow_reader(&server).await;
    until_served(&server).await;
    let whole = length(&server).await;
    let taken = rest(&mut slow).await;
    assert!(taken < whole, "{taken} of {whole}");
    assert!(server.own.refused_connections.get() >= 1, "the place was taken meanwhile");
}

#[tokio::test]
async fn one_connection_too_many_is_turned_away() {
    let server = running(Limits { connections: 2, ..Limits::default() }).await;
    let (first, _second) = (open(&server).await, open(&server).await);
    let answer = server.get("/metrics").await;
    assert_eq!((answer.status, answer.header("retry-after")), (503, "1"));
    assert_eq!(answer.text(), "too many connections\n");
    assert_eq!(server.own.refused_connections.get(), 1);
    drop(first);
    until_served(&server).await;
}

#[tokio::test]
async fn health_is_told_while_idle_connections_have_all_places() {
    let server = running(Limits { connections: 3, ..Limits::default() }).await;
    let mut idle = Vec::new();
    for _ in 0..3 {
        idle.push(open(&server).await);
    }
    for _ in 0..20 {
        for path in ["/healthz", "/readyz"] {
            assert_eq!(server.get(path).await.status, 200, "{path}");
        }
    }
    assert_eq!(server.own.refused_connections.get(), 0);
    assert_eq!(server.get("/").await.status, 503);
    // One request, and the place is free again, though the client would keep the connection.
    let mut keeps = server.connect().await;
    keeps.write_all(request("GET", "/healthz", &[], "keep-alive").as_bytes()).await.unwrap();
    let answer = Answer::read(&mut keeps).await;
    assert_eq!((answer.status, answer.header("connection")), (200, "close"));
    // Those who ask nothing lose theirs soon.
    let begun = Instant::now();
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(server.connect().await);
    }
    rest(&mut silent[0]).await;
    assert!(begun.elapsed() < Limits::default().header_timeout / 3, "{:?}", begun.elapsed());
    assert_eq!(server.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn many_at_once_leave_the_server_whole() {
    let server = running(Limits { connections: 4, ..Limits::default() }).await;
    let mut streams = Vec::new();
    for _ in 0..200 {
        streams.push(server.connect().await);
    }
    // All are taken in turn, so a last one that is answered or closed shows that those before were seen.
    rest(&mut streams.pop().unwrap()).await;
    // Of the 200, 4 have places and 8 could have asked for the agent's health.
    assert!(server.own.refused_connections.get() >= 180);
    drop(streams);
    until_served(&server).await;
}

#[tokio::test]
async fn idle_connections_do_not_hold_up_the_end() {
    let server = running(Limits { drain_timeout: Duration::from_secs(10), ..Limits::default() }).await;
    let mut idle = open(&server).await;
    let (address, begun) = (server.address, Instant::now());
    assert_eq!(server.stop().await, Drained { cut: 0 });
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(rest(&mut idle).await, 0);
    assert!(TcpStream::connect(address).await.is_err(), "the port is free");
}

#[tokio::test]
async fn an_answer_that_has_begun_is_finished() {
    let server = running(Limits { drain_timeout: Duration::from_secs(10), ..Limits::default() }).await;
    let mut slow = slow_reader(&server).await;
    let whole = length(&server).await;
    let (drained, taken) = tokio::join!(server.stop(), rest(&mut slow));
    assert_eq!(drained, Drained { cut: 0 });
    assert!(taken > whole, "{taken}: head and body, of {whole}");
}

#[tokio::test]
async fn who_does_not_finish_is_cut() {
    let server = running(Limits { drain_timeout: SHORT, ..Limits::default() }).await;
    let _slow = slow_reader(&server).await;
    let begun = Instant::now();
    assert_eq!(server.stop().await, Drained { cut: 1 });
    assert!(begun.elapsed() >= SHORT);
}
