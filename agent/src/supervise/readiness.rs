//! Whether the agent does its work: a latch that closes once and stays closed.

use std::sync::Arc;

use tokio::sync::watch;

/// Ready once the first snapshot is there. A driver that is down does not make it unready: that is what it reports.
#[derive(Debug, Clone)]
pub(crate) struct Readiness(Arc<watch::Sender<bool>>);

impl Readiness {
    /// Not ready yet.
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Ready from now on.
    pub(crate) fn close(&self) {
        self.0.send_if_modified(|ready| !std::mem::replace(ready, true));
    }

    /// Whether it is.
    pub(crate) fn is_ready(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is.
    pub(crate) async fn ready(&self) {
        // The sender lives in `self`, so that this cannot fail.
        let _ = self.0.subscribe().wait_for(|ready| *ready).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_closes_once_and_stays() {
        let readiness = Readiness::new();
        assert!(!readiness.is_ready());
        let other = readiness.clone();
        let waiting = tokio::spawn(async move { other.ready().await });
        readiness.close();
        readiness.close();
        waiting.await.unwrap();
        assert!(readiness.is_ready());
        readiness.ready().await;
    }
}
