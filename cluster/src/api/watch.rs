//! One watch: lists once, then follows the changes for as long as it is wanted.
//!
//! ```text
//!            +--------- Gone ----------+
//!            v                         |
//!   list --> version --> watch --------+--> ended or failed --> wait --> watch from the last version
//!    |                                                                       (or list, where there is none)
//!    +--> failed --> wait --> list
//! ```
//! A watch that the server ends after its time is begun again at once; one that ends early counts as a failure, for
//! a server or a proxy that closes every watch would otherwise be asked without pause.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use kube::core::WatchEvent;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use super::connection::Connection;
use super::error::ApiError;
use super::meta::{Key, List, Object};
use super::pace::{Limits, Pace, part, random};
use super::request::{Request, Resource, Verb};
use super::seen::Seen;

/// A watch that lasted for this part of its time was well, so that the next failure counts as the first.
const WELL: u32 = 60;

/// What is watched.
#[derive(Debug, Clone)]
pub(crate) struct Select {
    pub(crate) resource: Resource,
    /// The field selector: there is always one, for nothing cluster-wide is asked for.
    pub(crate) fields: String,
    /// Waits while the server does not have this kind of object.
    pub(crate) absent: Pace,
}

/// The objects as they are now, each cut down to what is used of it.
pub(crate) struct Mirror<O, T, V> {
    items: BTreeMap<Key, T>,
    cut: fn(O) -> T,
    view: fn(&BTreeMap<Key, T>) -> V,
}

impl<O: Object, T, V> Mirror<O, T, V> {
    pub(crate) fn new(cut: fn(O) -> T, view: fn(&BTreeMap<Key, T>) -> V) -> Self {
        Self { items: BTreeMap::new(), cut, view }
    }

    fn replace(&mut self, objects: Vec<O>) {
        self.items = objects.into_iter().map(|object| (Key::of(object.meta()), (self.cut)(object))).collect();
    }

    fn put(&mut self, object: O) {
        self.items.insert(Key::of(object.meta()), (self.cut)(object));
    }

    fn remove(&mut self, object: &O) {
        self.items.remove(&Key::of(object.meta()));
    }
}

/// A watch and what it keeps.
pub(crate) struct Watcher<O, T, V> {
    pub(crate) connection: Arc<Connection>,
    pub(crate) select: Select,
    pub(crate) mirror: Mirror<O, T, V>,
    pub(crate) seen: watch::Sender<Seen<V>>,
}

impl<O, T, V> Watcher<O, T, V>
where
    O: Object + DeserializeOwned + Clone + Send + 'static,
    T: Send + 'static,
    V: PartialEq + Send + Sync + 'static,
{
    /// Watches until nobody wants to see it any more.
    pub(crate) async fn run(mut self) {
        let mut version = None;
        let mut failures = 0u32;
        while !self.seen.is_closed() {
            let begun = Instant::now();
            let ended = self.round(&mut version).await;
            let lasted = begun.elapsed() >= self.limits().watch / WELL;
            failures = match (&ended, lasted) {
                (Ok(()), true) => 0,
                (Err(_), true) => 1,
                (_, false) => failures.saturating_add(1),
            };
            if let Err(error) = &ended {
                self.trouble(error, failures);
            }
            let wait = wait(self.limits(), self.select.absent, ended.as_ref().err(), failures, random());
            if let Err(error) = ended {
                self.note(error);
            }
            tokio::time::sleep(wait).await;
        }
    }

    fn limits(&self) -> &Limits {
        self.connection.limits()
    }

    /// Lists if there is no version to go on from, then watches until that ends.
    async fn round(&mut self, version: &mut Option<String>) -> Result<(), ApiError> {
        let from = match version.take() {
            Some(from) => from,
            None => self.list().await?,
        };
        // Kept unless the server says that it is too old.
        *version = Some(from.clone());
        let ended = self.follow(from, version).await;
        if matches!(ended, Err(ApiError::Gone { .. })) {
            *version = None;
        }
        ended
    }

    /// Any version that the server has at hand will do: what it lacks comes with the watch.
    async fn list(&mut self) -> Result<String, ApiError> {
        let request = Request::new(Verb::List, self.select.resource)
            .with("fieldSelector", &self.select.fields)
            .with("resourceVersion", "0")
            .with("resourceVersionMatch", "NotOlderThan");
        let list: List<O> = self.connection.call_within(&request, self.limits().list).await?;
        if list.metadata.resource_version.is_empty() {
            let source = "the list has no resourceVersion".into();
            return Err(ApiError::Garbled { what: request.what(), source });
        }
        self.mirror.replace(list.items.unwrap_or_default());
        self.confirm(true);
        Ok(list.metadata.resource_version)
    }

    async fn follow(&mut self, from: String, version: &mut Option<String>) -> Result<(), ApiError> {
        let time = self.limits().watch + part(self.limits().watch, random());
        let request = Request::new(Verb::Watch, self.select.resource)
            .with("fieldSelector", &self.select.fields)
            .with("watch", "true")
            .with("allowWatchBookmarks", "true")
            .with("timeoutSeconds", time.as_secs().max(1).to_string())
            .with("resourceVersion", from);
        let mut events = self.connection.follow::<O>(&request).await?;
        self.confirm(false);
        // Its end is an answer too. Connections over HTTP/1.1 that are dead are found out so at the latest.
        let longest = time + self.limits().answer;
        let end = tokio::time::sleep(longest);
        tokio::pin!(end);
        loop {
            let event = tokio::select! {
                event = tokio::time::timeout(self.limits().quiet, events.next()) => match event {
                    Ok(event) => event,
                    Err(_) => {
                        let resource = self.select.resource.name();
                        tracing::debug!(resource, "the watch has told nothing for long and is begun again");
                        return Ok(());
                    }
                },
                () = &mut end => return Err(ApiError::TimedOut { what: request.what(), after: longest }),
                () = self.seen.closed() => return Ok(()),
            };
            match event {
                None => return Ok(()),
                Some(Err(error)) => return Err(self.connection.explain(&request, error)),
                Some(Ok(event)) => self.take(event, version, &request)?,
            }
        }
    }

    fn take(
        &mut self,
        event: WatchEvent<O>,
        version: &mut Option<String>,
        request: &Request,
    ) -> Result<(), ApiError> {
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                *version = Some(object.meta().resource_version.clone());
                self.mirror.put(object);
                self.confirm(true);
            }
            WatchEvent::Deleted(object) => {
                *version = Some(object.meta().resource_version.clone());
                self.mirror.remove(&object);
                self.confirm(true);
            }
            WatchEvent::Bookmark(bookmark) => {
                *version = Some(bookmark.metadata.resource_version);
                self.confirm(false);
            }
            WatchEvent::Error(status) => {
                return Err(self.connection.explain_status(request, *status));
            }
        }
        Ok(())
    }

    /// The server has spoken: what the mirror shows is so. Tells whoever looks if that is news.
    fn confirm(&self, changed: bool) {
        let view = changed.then(|| (self.mirror.view)(&self.mirror.items));
        self.seen.send_if_modified(|seen| {
            let well_again = seen.trouble.take().is_some();
            if well_again {
                tracing::info!(resource = self.select.resource.name(), "watched again");
            }
            match view {
                Some(view) if seen.value.as_deref() != Some(&view) => {
                    seen.value = Some(Arc::new(view));
                    true
                }
                _ => well_again,
            }
        });
    }

    /// Says what is wrong, once for each kind of trouble.
    fn trouble(&self, error: &ApiError, failures: u32) {
        let resource = self.select.resource.name();
        let known = self.seen.borrow().trouble.as_ref().is_some_and(|known| known.reason() == error.reason());
        match error {
            _ if known => {}
            ApiError::Gone { .. } => tracing::debug!(resource, "the watch is too far behind; listing again"),
            ApiError::NotInstalled { .. } => tracing::info!(resource, %error, "not watched"),
            _ => {
                tracing::warn!(resource, reason = error.reason(), failures, %error, "the watch is interrupted")
            }
        }
    }

    /// Tells whoever looks. What is not served any more is not there; all else stands as it was seen last.
    fn note(&mut self, error: ApiError) {
        let absent = matches!(error, ApiError::NotInstalled { .. });
        if absent {
            self.mirror.replace(Vec::new());
        }
        self.seen.send_if_modified(|seen| {
            let known = seen.trouble.as_ref().is_some_and(|known| known.reason() == error.reason());
            if absent {
                seen.value = None;
            }
            // To be too far behind is mended by the list that follows.
            if !matches!(error, ApiError::Gone { .. }) {
                seen.trouble = Some(Arc::new(error));
            }
            !known
        });
    }
}

/// How long to wait after a watch has ended.
fn wait(limits: &Limits, absent: Pace, ended: Option<&ApiError>, failures: u32, random: u64) -> Duration {
    let wait = match ended {
        Some(ApiError::NotInstalled { .. }) => absent.wait(failures, random),
        // Ended in its time: others' watches began when this one did.
        None if failures == 0 => part(limits.retry.first, random),
        _ => limits.retry.wait(failures, random),
    };
    match ended.and_then(ApiError::retry_after) {
        // Not all who were sent away come back in the same second.
        Some(asked) => wait.max(asked + part(limits.retry.first, random)),
        None => wait,
    }
}
