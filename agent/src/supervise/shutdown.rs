//! The word that it is time to end, heard by every loop.

use tokio::sync::watch;

/// Says that it is time to end.
#[derive(Debug)]
pub(crate) struct Trigger(watch::Sender<bool>);

/// Hears that it is time to end.
#[derive(Debug, Clone)]
pub(crate) struct Shutdown(watch::Receiver<bool>);

/// A trigger and what hears it. Dropping the trigger pulls it.
pub(crate) fn channel() -> (Trigger, Shutdown) {
    let (sender, receiver) = watch::channel(false);
    (Trigger(sender), Shutdown(receiver))
}

impl Trigger {
    /// It is time to end.
    pub(crate) fn pull(&self) {
        self.0.send_replace(true);
    }
}

impl Shutdown {
    /// Whether it is time to end.
    pub(crate) fn is_requested(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }

    /// Waits until it is time to end.
    pub(crate) async fn requested(&self) {
        let _ = self.0.clone().wait_for(|requested| *requested).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_clone_hears_it() {
        let (trigger, shutdown) = channel();
        let other = shutdown.clone();
        assert!(!shutdown.is_requested());
        trigger.pull();
        shutdown.requested().await;
        other.requested().await;
        assert!(other.is_requested());
    }

    #[tokio::test]
    async fn a_dropped_trigger_is_heard_too() {
        let (trigger, shutdown) = channel();
        drop(trigger);
        shutdown.requested().await;
        assert!(shutdown.is_requested());
    }
}
