//! Loops that end, fail, panic and hang.

use std::sync::atomic::{AtomicU32, Ordering};

use gpulet_exporter::BuildInfo;

use super::*;

fn own() -> Arc<Own> {
    let build = BuildInfo { version: String::new(), revision: String::new(), rustc: String::new() };
    Arc::new(Own::new(build, &["one", "two"]).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_ends_or_panics_is_started_again_and_counted() {
    let own = own();
    let (trigger, shutdown) = shutdown::channel();
    let mut supervisor = Supervisor::new(Arc::clone(&own), shutdown.clone());
    let runs = Arc::new(AtomicU32::new(0));
    let (counted, heard) = (Arc::clone(&runs), shutdown.clone());
    let arrived = Arc::new(tokio::sync::Notify::new());
    let fourth = Arc::clone(&arrived);
    supervisor.keep("one", move || {
        let run = counted.fetch_add(1, Ordering::Relaxed);
        let (heard, fourth) = (heard.clone(), Arc::clone(&fourth));
        async move {
            match run {
                0 => Ok(()),
                1 => Err("the reason".into()),
                2 => panic!("on purpose"),
                _ => {
                    fourth.notify_one();
                    heard.requested().await;
                    Ok(())
                }
            }
        }
    });
    arrived.notified().await;
    assert_eq!(own.loop_restarts("one").unwrap().get(), 3);
    assert_eq!(own.loop_restarts("two").unwrap().get(), 0);
    trigger.pull();
    assert_eq!(supervisor.ended(Duration::from_secs(1)).await, 0);
    assert_eq!(own.loop_restarts("one").unwrap().get(), 3, "an end at shutdown is no restart");
    assert_eq!(runs.load(Ordering::Relaxed), 4);
}

#[tokio::test(start_paused = true)]
async fn a_loop_that_does_not_end_is_dropped_at_the_deadline() {
    let (trigger, shutdown) = shutdown::channel();
    let mut supervisor = Supervisor::new(own(), shutdown);
    let held = Arc::new(());
    let seen = Arc::downgrade(&held);
    supervisor.keep("one", move || {
        let held = Arc::clone(&held);
        async move {
            let _held = held;
            std::future::pending().await
        }
    });
    supervisor.keep("two", || async { Ok(()) });
    tokio::task::yield_now().await;
    trigger.pull();
    let begun = tokio::time::Instant::now();
    assert_eq!(supervisor.ended(Duration::from_millis(1500)).await, 1);
    assert_eq!(begun.elapsed(), Duration::from_millis(1500));
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert!(seen.upgrade().is_none(), "what it held is let go of");
}

#[tokio::test(start_paused = true)]
async fn shutdown_ends_a_wait() {
    let (trigger, shutdown) = shutdown::channel();
    let own = own();
    let mut supervisor = Supervisor::new(Arc::clone(&own), shutdown);
    supervisor.keep("one", || async { Ok(()) });
    while own.loop_restarts("one").unwrap().get() < 5 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    trigger.pull();
    let begun = tokio::time::Instant::now();
    assert_eq!(supervisor.ended(Duration::from_secs(100)).await, 0);
    assert!(begun.elapsed() < Duration::from_secs(1));
}
