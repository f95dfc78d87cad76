//! Watches: what they ask, and what they do when they are not answered well.

use std::time::Duration;

use gpulet_cluster::api::{Limits, Pace, Watch};
use gpulet_inventory::pod::Pod;
use serde_json::{Value, json};

use crate::server::{Answer, Line, Server, ended, limits, stream, within};

fn pod(name: &str, version: u64) -> Value {
    json!({"metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": version.to_string()},
        "spec": {"containers": [{"name": "main"}]}, "status": {"phase": "Running", "qosClass": "Burstable"}})
}

fn list(version: u64, pods: &[Value]) -> Answer {
    Answer::Json(
        200,
        json!({"kind": "PodList", "metadata": {"resourceVersion": version.to_string()}, "items": pods}),
    )
}

fn event(kind: &str, object: Value) -> Line {
    Line::Event(json!({"type": kind, "object": object}))
}

fn bookmark(version: u64) -> Line {
    event(
        "BOOKMARK",
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": version.to_string()}}),
    )
}

fn status(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "told so"})
}

/// Waits until the watch shows these Pods and no trouble.
async fn shows(watch: &mut Watch<Vec<Pod>>, names: &[&str]) {
    let mut seen = watch.seen();
    let wait = async {
        loop {
            let pods =
                seen.value.as_deref().map(|pods| pods.iter().map(|pod| pod.name.clone()).collect::<Vec<_>>());
            if seen.trouble.is_none() && pods.is_some_and(|pods| pods == names) {
                return;
            }
            seen = watch.changed().await;
        }
    };
    within(wait).await;
}

/// Waits until the watch is in trouble; gives the reason.
async fn trouble<V: Send + Sync + 'static>(watch: &mut Watch<V>) -> &'static str {
    let mut seen = watch.seen();
    within(async {
        loop {
            if let Some(trouble) = seen.trouble {
                return trouble.reason();
            }
            seen = watch.changed().await;
        }
    })
    .await
}

#[tokio::test]
async fn lists_once_and_follows_from_there() {
    let (events, first) = stream();
    let mut first = Some(first);
    let server = Server::start(move |asked, before| match (asked.verb(), before) {
        ("list", 0) => list(10, &[pod("a", 5)]),
        ("watch", 0) => first.take().unwrap(),
        _ => Answer::Silence,
    })
    .await;
    let api = server.api(limits()).await;
    let mut pods = api.pods();
    shows(&mut pods, &["a"]).await;
    events.send(event("ADDED", pod("b", 11))).unwrap();
    shows(&mut pods, &["a", "b"]).await;
    events.send(event("DELETED", pod("a", 12))).unwrap();
    shows(&mut pods, &["b"]).await;
    events.send(bookmark(40)).unwrap();
    // Ends in the middle of an event.
    events.send(Line::Cut("{\"type\": \"MODIFIED\", \"obj")).unwrap();
    let watches = server.until("watch", 2).await;
    assert_eq!(server.of("list").len(), 1, "what was missed comes with the watch");
    assert_eq!(watches[1].parameter("resourceVersion"), Some("40"), "from the bookmark on");
    let all = server.asked();
    assert!(all.iter().all(|asked| asked.path == "/api/v1/pods"));
    assert!(all.iter().all(|asked| asked.parameter("fieldSelector") == Some("spec.nodeName%3Dnode-a")));
    assert_eq!(all[0].parameter("resourceVersion"), Some("0"), "whatever the server has at hand");
    assert_eq!(watches[0].parameter("resourceVersion"), Some("10"));
    assert_eq!(watches[0].parameter("allowWatchBookmarks"), Some("true"));
    let time: u64 = watches[0].parameter("timeoutSeconds").unwrap().parse().unwrap();
    assert!((60..=120).contains(&time), "{time}");
}

#[tokio::test]
async fn what_changes_nothing_wakes_nobody() {
    let (events, first) = stream();
    let mut first = Some(first);
    let server = Server::start(move |asked, _| match asked.verb() {
        "list" => list(10, &[pod("a", 5)]),
        _ => first.take().unwrap_or(Answer::Silence),
    })
    .await;
    let mut pods = server.api(limits()).await.pods();
    shows(&mut pods, &["a"]).await;
    let mut same = pod("a", 11);
    same["status"]["podIP"] = "10.0.0.1".into();
    events.send(event("MODIFIED", same)).unwrap();
    events.send(event("ADDED", pod("b", 12))).unwrap();
    let seen = within(pods.changed()).await;
    assert_eq!(seen.value.unwrap().len(), 2, "the first change that is told is the second that came");
}

#[tokio::test]
async fn too_far_behind_means_listing_again() {
    // Told as an event, and then as the answer itself.
    let server = Server::start(|asked, before| match (asked.verb(), before) {
        ("list", 0) => list(10, &[pod("a", 5), pod("b", 6)]),
        ("watch", 0) => ended([event("ERROR", status(410, "Expired"))]),
        ("list", 1) => list(20, &[pod("b", 6)]),
        ("watch", 1) => Answer::Json(410, status(410, "Expired")),
        ("list", 2) => list(30, &[pod("c", 7)]),
        _ => Answer::Silence,
    })
    .await;
    let mut pods = server.api(limits()).await.pods();
    shows(&mut pods, &["c"]).await;
    let watches = server.until("watch", 3).await;
    assert_eq!(server.of("list").len(), 3);
    let versions = watches.iter().filter_map(|watch| watch.parameter("resourceVersion"));
    assert_eq!(versions.collect::<Vec<_>>(), ["10", "20", "30"]);
}

#[tokio::test]
async fn a_server_that_ends_every_watch_is_not_asked_without_pause() {
    let server = Server::start(|asked, _| match asked.verb() {
        "list" => list(10, &[]),
        _ => ended([]),
    })
    .await;
    let api = server.api(limits()).await;
    let _pods = api.pods();
    let watches = server.until("watch", 6).await;
    // At least half of 40, 80, 160, 320, 320 ms.
    for (pair, least) in watches.windows(2).zip([20, 40, 80, 160, 160]) {
        let gap = pair[1].at - pair[0].at;
        assert!(gap >= Duration::from_millis(least), "{gap:?} is less than {least} ms");
    }
    assert_eq!(server.of("list").len(), 1);
}

#[tokio::test]
async fn waits_as_long_as_the_server_asks() {
    let server = Server::start(|asked, before| match (asked.verb(), before) {
        ("list", 0) => Answer::Text(429, "Retry-After: 1", "Too many requests, please try again later."),
        ("list", 1) => Answer::Text(503, "Retry-After: 1", "starting"),
        ("list", _) => list(10, &[pod("a", 5)]),
        _ => Answer::Silence,
    })
    .await;
    let api = server.api(limits()).await;
    let mut pods = api.pods();
    assert_eq!(trouble(&mut pods).await, "Throttled");
    shows(&mut pods, &["a"]).await;
    let lists = server.of("list");
    assert_eq!(lists.len(), 3);
    for pair in lists.windows(2) {
        let gap = pair[1].at - pair[0].at;
        assert!(gap >= Duration::from_secs(1), "{gap:?}");
    }
}

#[tokio::test]
async fn silence_is_noticed_wherever_it_falls() {
    let short = Duration::from_millis(500);
    let limits = Limits { answer: short, list: short * 2, watch: Duration::from_millis(500), ..limits() };
    let server = Server::start(|asked, before| match (asked.verb(), before) {
        ("list", 0) => Answer::Silence,
        ("list", 1) => Answer::HalfAndSilence,
        ("list", 2) => Answer::HalfAndEnd,
        ("list", _) => list(10, &[pod("a", 5)]),
        ("watch", 0) => Answer::Silence,
        // Begins, and then nothing comes any more, not even its end.
        ("watch", _) => {
            let (sender, answer) = stream();
            std::mem::forget(sender);
            answer
        }
        _ => panic!("{asked:?}"),
    })
    .await;
    let api = server.api(limits).await;
    let mut pods = api.pods();
    assert_eq!(trouble(&mut pods).await, "TimedOut");
    shows(&mut pods, &["a"]).await;
    server.until("watch", 3).await;
    let mut since = server.asked().into_iter().skip_while(|asked| asked.verb() != "watch");
    assert!(since.all(|asked| asked.verb() == "watch"), "a watch that is lost is no reason to list again");
    let seen = pods.seen();
    assert_eq!(seen.value.unwrap().len(), 1, "what was seen stands");
}

#[tokio::test]
async fn a_watch_that_tells_nothing_for_long_is_begun_again_where_it_was() {
    let server = Server::start(|asked, before| match (asked.verb(), before) {
        ("list", _) => list(10, &[pod("a", 5)]),
        ("watch", before) => {
            // Only the first one tells something, and none of them ends.
            let (sender, answer) = stream();
            if before == 0 {
                sender.send(bookmark(12)).unwrap();
            }
            std::mem::forget(sender);
            answer
        }
        _ => panic!("{asked:?}"),
    })
    .await;
    let api = server.api(Limits { quiet: Duration::from_millis(200), ..limits() }).await;
    let mut pods = api.pods();
    shows(&mut pods, &["a"]).await;
    let watches = server.until("watch", 3).await;
    let versions: Vec<_> = watches.iter().map(|watch| watch.parameter("resourceVersion").unwrap()).collect();
    assert_eq!(versions[..3], ["10", "12", "12"]);
    assert_eq!(server.of("list").len(), 1);
    assert!(pods.seen().trouble.is_none(), "it is no trouble");
}

#[tokio::test]
async fn a_kind_that_is_not_served_is_a_fact_and_may_come_later() {
    let server = Server::start(|asked, before| match (asked.verb(), before) {
        ("list", 0..=3) => Answer::Text(404, "Content-Type: text/plain", "404 page not found\n"),
        ("list", _) => Answer::Json(200, json!({"metadata": {"resourceVersion": "3"}, "items": null})),
        ("watch", 0) => ended([]),
        _ => Answer::Silence,
    })
    .await;
    let api = server.api(limits()).await;
    let mut nrt = api.nrt();
    assert_eq!(trouble(&mut nrt).await, "NotInstalled");
    assert!(nrt.seen().value.is_none());
    within(async {
        while nrt.seen().value.is_none() {
            nrt.changed().await;
        }
    })
    .await;
    assert_eq!(nrt.seen().value.as_deref(), Some(&None), "served, and there is none");
    let lists = server.of("list");
    assert_eq!(lists.len(), 5);
    assert_eq!(lists[0].path, "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies");
    for (pair, least) in lists.windows(2).zip([20, 40, 80, 160]) {
        let gap = pair[1].at - pair[0].at;
        assert!(gap >= Duration::from_millis(least), "{gap:?} is less than {least} ms");
    }
}

#[tokio::test]
async fn slices_are_asked_for_rarely_where_there_are_none() {
    let rare = Pace { first: Duration::from_secs(3600), longest: Duration::from_secs(3600) };
    let server =
        Server::start(|_, _| Answer::Text(404, "Content-Type: text/plain", "404 page not found\n")).await;
    let api = server.api(Limits { rare, ..limits() }).await;
    let (mut slices, nrt) = (api.resource_slices(), api.nrt());
    assert_eq!(trouble(&mut slices).await, "NotInstalled");
    // The other watch goes on asking meanwhile.
    within(async {
        while server.asked().len() < 6 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(nrt);
    let slices: Vec<_> =
        server.asked().into_iter().filter(|asked| asked.path.ends_with("resourceslices")).collect();
    assert_eq!(slices.len(), 1);
    assert_eq!(slices[0].parameter("fieldSelector"), Some("spec.nodeName%3Dnode-a"));
}

#[tokio::test]
async fn a_watch_that_nobody_holds_ends() {
    let (events, first) = stream();
    let mut first = Some(first);
    let server = Server::start(move |asked, _| match asked.verb() {
        "list" => list(10, &[]),
        _ => first.take().unwrap_or(Answer::Silence),
    })
    .await;
    let mut pods = server.api(limits()).await.pods();
    shows(&mut pods, &[]).await;
    server.until("watch", 1).await;
    drop(pods);
    // The connection is closed, which the server notices when it writes.
    within(async {
        while events.send(bookmark(11)).is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn refused_credentials_are_read_again_until_they_are_accepted() {
    let server = Server::start(|asked, _| match (asked.token.as_str(), asked.verb()) {
        ("second", "list") => list(10, &[pod("a", 5)]),
        ("second", _) => Answer::Silence,
        _ => Answer::Json(401, status(401, "Unauthorized")),
    })
    .await;
    let token = server.directory().join("token");
    std::fs::write(&token, "first").unwrap();
    let api = server.api_as(json!({"tokenFile": token}), limits()).await;
    let mut pods = api.pods();
    assert_eq!(trouble(&mut pods).await, "Unauthorized");
    std::fs::write(&token, "second").unwrap();
    shows(&mut pods, &["a"]).await;
}
