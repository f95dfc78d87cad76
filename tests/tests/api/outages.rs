//! The API server goes away and comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use gpulet_cluster::api::{Access, Api, Limits};
use gpulet_tests::Bound;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{AGENT, as_agent, body, cluster, counts, eventually, until};
use crate::support::{Mounted, limits};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs etcd and kube-apiserver"]
async fn what_was_seen_stands_and_what_was_missed_comes() {
    let plane = cluster(&[]);
    plane.create_pod("default", "before", "a", "default");
    let (api, _mounted) = as_agent(&plane).await;
    let (mut pods, mut nrt) = (api.pods(), api.nrt());
    eventually("published", async || api.apply_nrt(&body(4), None, false).await).await;
    until(&mut pods, "Pods", |seen| (seen.value.as_deref()?.len() == 1).then_some(())).await;
    until(&mut nrt, "the object", |seen| seen.value.as_deref()?.is_some().then_some(())).await;
    let requests_before = counts(&plane.requests(), AGENT);

    plane.stop_api_server();
    let trouble = until(&mut pods, "trouble", |seen| seen.trouble.clone()).await;
    assert_eq!(trouble.reason(), "Unreachable", "{trouble}");
    assert_eq!(pods.seen().value.unwrap().len(), 1, "what was seen stands");
    let error = api.apply_nrt(&body(3), None, false).await.unwrap_err();
    assert_eq!(error.reason(), "Unreachable", "{error}");
    let begun = Instant::now();
    let failed = || {
        api.traffic()
            .counts()
            .into_iter()
            .filter(|(kind, _)| kind.code.is_none())
            .map(|(_, count)| count.requests)
            .sum::<u64>()
    };
    let first = failed();
    eventually("tried again", async || (failed() >= first + 12).then_some(()).ok_or("not yet")).await;
    // Two watches, six waits each: at least half of 0.2, 0.4, 0.8, 1.6, 2 and 2 s.
    assert!(begun.elapsed() >= Duration::from_secs(3), "12 tries in {:?}", begun.elapsed());

    plane.start_api_server();
    plane.delete_pod("default", "before");
    plane.create_pod("default", "after", "a", "default");
    until(&mut pods, "what was missed", |seen| {
        let pods = seen.value.as_deref()?;
        (seen.trouble.is_none() && pods.len() == 1 && pods.first()?.name == "after").then_some(())
    })
    .await;
    until(&mut nrt, "watched again", |seen| seen.trouble.is_none().then_some(())).await;
    api.apply_nrt(&body(3), None, false).await.unwrap();
    until(&mut nrt, "the new object", |seen| {
        (seen.value.as_deref()?.as_ref()?.body == body(3)).then_some(())
    })
    .await;
    let after = counts(&plane.requests(), AGENT);
    for resource in ["pods", "noderesourcetopologies"] {
        let lists =
            |counts: &std::collections::BTreeMap<_, usize>| counts[&("list".to_owned(), resource.to_owned())];
        let more = lists(&after) - lists(&requests_before);
        assert!(more <= 2, "{resource} were listed {more} times more");
    }
}

/// A way to the API server on which everything vanishes, and no end is told, while `hole` is set.
async fn leaky_way(to: u16, hole: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (near, _) = listener.accept().await.unwrap();
            let far = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            tokio::spawn(leak(near_in, far_out, Arc::clone(&hole)));
            tokio::spawn(leak(far_in, near_out, Arc::clone(&hole)));
        }
    });
    port
}

async fn leak(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    hole: Arc<AtomicBool>,
) {
    let mut bytes = vec![0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if hole.load(Ordering::SeqCst) {
            // Once something is lost, the rest of this connection makes no sense any more.
            std::future::pending::<()>().await;
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs etcd and kube-apiserver"]
async fn a_network_that_swallows_everything_is_noticed() {
    let plane = cluster(&[]);
    let hole = Arc::new(AtomicBool::new(false));
    let port = leaky_way(plane.port(), Arc::clone(&hole)).await;
    let mounted = Mounted::new(&plane, &plane.token("gpulet", "gpulet", Bound::Node("a")));
    let mut access: Access = mounted.access();
    access.service_account.port = Some(port.to_string());
    let (silent, sign_of_life) = (Duration::from_millis(500), Duration::from_millis(1500));
    let limits = Limits { silent, sign_of_life, connect: sign_of_life, answer: sign_of_life, ..limits() };
    let api = Api::connect(access, "a", limits).await.unwrap();
    let mut pods = api.pods();
    until(&mut pods, "Pods", |seen| (seen.trouble.is_none() && seen.value.is_some()).then_some(())).await;
    eventually("watched", async || {
        (api.traffic().requests("watch", "pods") == 1).then_some(()).ok_or("not yet")
    })
    .await;
    hole.store(true, Ordering::SeqCst);
    // The watch itself would last for minutes.
    let trouble = until(&mut pods, "trouble", |seen| seen.trouble.clone()).await;
    assert!(["Unreachable", "TimedOut"].contains(&trouble.reason()), "{trouble}");
    hole.store(false, Ordering::SeqCst);
    plane.create_pod("default", "after", "a", "default");
    until(&mut pods, "what was missed", |seen| {
        (seen.trouble.is_none() && seen.value.as_deref()?.first()?.name == "after").then_some(())
    })
    .await;
    assert_eq!(api.traffic().requests("list", "pods"), 1, "the watch goes on from where it was");
}
