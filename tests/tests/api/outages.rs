//! The API server goes away and comes back.

use crate::support::{AGENT, as_agent, body, cluster, counts, eventually, until};

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
    // Long enough for waits to reach their longest.
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    let tries = api.traffic().counts();
    let failed: u64 =
        tries.iter().filter(|(kind, _)| kind.code.is_none()).map(|(_, count)| count.requests).sum();
    assert!((4..=40).contains(&failed), "two watches and a call tried {failed} times in 10 s: {tries:?}");

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
