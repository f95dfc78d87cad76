//! What a watch has seen.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::error::ApiError;

/// What a watch has seen last, and whether that is still so.
#[derive(Debug)]
pub struct Seen<V> {
    /// The state; absent until it was first had, and where the server does not have this kind of object.
    pub value: Option<Arc<V>>,
    /// Why it may be out of date; absent while the watch stands.
    pub trouble: Option<Arc<ApiError>>,
}

impl<V> Clone for Seen<V> {
    fn clone(&self) -> Self {
        Self { value: self.value.clone(), trouble: self.trouble.clone() }
    }
}

impl<V> Default for Seen<V> {
    fn default() -> Self {
        Self { value: None, trouble: None }
    }
}

/// A watch that goes on until this is dropped.
#[derive(Debug)]
pub struct Watch<V> {
    seen: watch::Receiver<Seen<V>>,
    task: AbortHandle,
}

impl<V: Send + Sync + 'static> Watch<V> {
    /// Runs a watch on the current runtime.
    pub(crate) fn spawn<F>(run: impl FnOnce(watch::Sender<Seen<V>>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (sender, seen) = watch::channel(Seen::default());
        let task = tokio::spawn(run(sender)).abort_handle();
        Self { seen, task }
    }

    /// What has been seen last.
    pub fn seen(&self) -> Seen<V> {
        self.seen.borrow().clone()
    }

    /// Waits until the value or the trouble is another, then gives what is seen.
    pub async fn changed(&mut self) -> Seen<V> {
        if self.seen.changed().await.is_err() {
            // The watch ends with this object only.
            std::future::pending::<()>().await;
        }
        self.seen.borrow_and_update().clone()
    }
}

impl<V> Drop for Watch<V> {
    fn drop(&mut self) {
        self.task.abort();
    }
}
