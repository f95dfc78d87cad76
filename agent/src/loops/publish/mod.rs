//! Publishes the NodeResourceTopology object: puts it together whenever something that it is made from changes, and does
//! what [`Publisher`] decides, at the API server or with a file.
//!
//! A request that hangs holds up the next request and nothing else: each runs in a task of its own.

mod inputs;
mod notes;
mod standing;
mod store;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gpulet_cluster::api::{Api, Seen, Watch};
use gpulet_host::root::EscapesRoot;
use gpulet_topology::nrt::object::Body;
use gpulet_topology::nrt::observed::Observed;
use gpulet_topology::nrt::publisher::{Command, Event, Publisher, State, Timing, Why, Write};
use tokio::task::JoinSet;

use self::inputs::Inputs;
use self::notes::Notes;
use self::standing::Needs;
use self::store::{ObjectFile, Refusal, Store};
use super::Shared;
use super::kubernetes::{Access, OwnNode, Publication, Standing};
use crate::config::node_name::NodeName;
use crate::config::publish::Publish;
use crate::report;
use crate::supervise::LoopError;
use crate::text_file::TextReader;

/// The loop's name.
pub(crate) const NAME: &str = "publish";

/// How often this loop tells that it goes on.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Publishes until it is time to end.
pub(crate) async fn run(shared: Shared) -> Result<(), LoopError> {
    let mut access = shared.kubernetes.api.subscribe();
    loop {
        let place = place(&shared, &access.borrow_and_update());
        let publish = async {
            match place {
                Ok(store) => Desk::new(shared.clone(), store).run().await,
                Err(publication) => {
                    if let Some(publication) = publication {
                        tell(&shared, publication);
                    }
                    std::future::pending().await
                }
            }
        };
        tokio::select! {
            () = publish => {}
            changed = access.changed() => if changed.is_err() { return Ok(()) },
            () = shared.shutdown.requested() => return Ok(()),
        }
    }
}

/// Where the object is to go; else why it can go nowhere, where that is known.
fn place(shared: &Shared, access: &Access) -> Result<Store, Option<Publication>> {
    match (access, file(shared)) {
        (Access::Unknown, _) => Err(None),
        (Access::Api(api), left) => {
            if let Ok(Some(left)) = left {
                // What another run kept there would be taken for true.
                tokio::task::spawn_blocking(move || left.remove());
            }
            Ok(Store::Api(api.clone()))
        }
        (Access::None, Ok(Some(file))) => Ok(Store::File(Arc::new(file))),
        (Access::None, Ok(None)) => {
            let standing = Standing::NoAccess;
            Err(Some(Publication { message: standing.message(), standing }))
        }
        (Access::None, Err(error)) => {
            let standing = Standing::Unwritable;
            let message = format!("kubernetes.file: {}", report::chain(&error));
            tracing::error!(
                reason = standing.reason(),
                error = message,
                "the NodeResourceTopology object is not published"
            );
            Err(Some(Publication { standing, message }))
        }
    }
}

/// The file for the object; absent where it is to go to the API server only.
///
/// # Errors
/// When its path leads out of the host's root.
fn file(shared: &Shared) -> Result<Option<ObjectFile>, EscapesRoot> {
    let settings = shared.settings.borrow();
    if settings.kubernetes.publish == Publish::Always {
        return Ok(None);
    }
    let name = settings.node_name.clone().or_else(NodeName::of_this_machine);
    let name = name.map_or_else(|| "node".to_owned(), |name| name.to_string());
    let (root, path) = (shared.root.clone(), settings.kubernetes.file.clone());
    // With `..` in it, it would lead out of the root.
    root.join(&path)?;
    Ok(Some(ObjectFile { name, root, path, reader: TextReader::default() }))
}

/// One who publishes into one store.
struct Desk {
    shared: Shared,
    store: Store,
    inputs: Inputs,
    publisher: Publisher,
    /// The request that is under way.
    request: JoinSet<Outcome>,
    /// What the API server tells of the object by itself.
    watch: Option<Watch<Option<Observed>>>,
    unsettled: u64,
    take_over: bool,
    watch_was_in_trouble: bool,
    /// Why the last request failed.
    refusal: Option<Refusal>,
    notes: Notes,
    desired: Option<Arc<Body>>,
}

/// What came of a request.
enum Outcome {
    Looked(Result<Option<Observed>, Refusal>),
    Wrote(Why, Result<String, Refusal>),
}

impl Desk {
    fn new(shared: Shared, store: Store) -> Self {
        let watch = match &store {
            Store::Api(api) => Some(Api::nrt(api)),
            Store::File(_) => None,
        };
        let seed = RandomState::new().hash_one(NAME);
        let publisher = Publisher::new(Timing::default(), seed, Instant::now());
        let unsettled = shared.kubernetes.kubelet.borrow().unsettled;
        Self {
            inputs: Inputs::new(&shared),
            publisher,
            request: JoinSet::new(),
            watch,
            unsettled,
            take_over: false,
            watch_was_in_trouble: false,
            refusal: None,
            notes: Notes::default(),
            desired: None,
            shared,
            store,
        }
    }

    async fn run(mut self) {
        let mut settings = self.shared.settings.clone();
        settings.mark_changed();
        loop {
            self.tell();
            self.shared.progress.made(NAME, Instant::now(), TELL_EVERY * 3);
            let wake = self.publisher.next_wake();
            tokio::select! {
                () = self.inputs.changed() => self.rebuild(),
                Some(outcome) = self.request.join_next() => match outcome {
                    Ok(outcome) => self.answered(outcome),
                    Err(error) => self.answered(Outcome::Looked(Err(store::broken(&error)))),
                },
                seen = seen(&mut self.watch) => self.noticed(seen),
                changed = settings.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.take_over = settings.borrow_and_update().kubernetes.take_over;
                    self.step(Event::TakeOver(self.take_over));
                }
                () = until(wake) => self.step(Event::Woken),
                () = tokio::time::sleep(TELL_EVERY) => {}
            }
        }
    }

    /// Puts the object together anew.
    fn rebuild(&mut self) {
        let unsettled = self.shared.kubernetes.kubelet.borrow().unsettled;
        if std::mem::replace(&mut self.unsettled, unsettled) != unsettled {
            self.step(Event::KubeletUnsettled);
        }
        let owner = self.node_uid();
        match self.missing() {
            // What ends with its Node is not to be made again after it.
            Some(Standing::NoNode) => {
                if self.desired.take().is_some() {
                    self.step(Event::NothingDesired);
                }
                return;
            }
            Some(_) => return,
            None => self.step(Event::Owner(owner)),
        }
        self.step(Event::KubeletForgets(self.inputs.forgets()));
        let Some(built) = self.inputs.build() else { return };
        self.shared.own.kubernetes.notes(built.notes.iter().map(|note| note.reason));
        self.notes.tell(&built.notes);
        let body = Arc::new(built.body);
        if self.desired.as_ref() == Some(&body) {
            self.shared.own.kubernetes.unchanged();
            return;
        }
        self.desired = Some(Arc::clone(&body));
        self.step(Event::Desired(body));
    }

    fn missing(&self) -> Option<Standing> {
        let kubernetes = &self.shared.kubernetes;
        let asked = kubernetes.kubelet.borrow().asked;
        let answered = kubernetes.allocation.borrow().is_some();
        Needs { is_file: self.is_file(), node: &kubernetes.node.borrow(), asked, answered }.missing()
    }

    fn is_file(&self) -> bool {
        matches!(self.store, Store::File(_))
    }

    fn step(&mut self, event: Event) {
        for command in self.publisher.step(event, Instant::now()) {
            match command {
                Command::Read => {
                    let store = self.store.clone();
                    self.request.spawn(async move { Outcome::Looked(store.read().await) });
                }
                Command::Write(Write { body, force, why }) => {
                    let (store, uid) = (self.store.clone(), self.node_uid());
                    self.request
                        .spawn(async move { Outcome::Wrote(why, store.write(body, uid, force).await) });
                }
                Command::Tell(state) => self.log(&state),
            }
        }
    }

    /// Of the Node that the object is to end with; a file ends with none.
    fn node_uid(&self) -> Option<String> {
        match (&self.store, &*self.shared.kubernetes.node.borrow()) {
            (Store::Api(_), OwnNode::Known(node)) => Some(node.uid.clone()),
            _ => None,
        }
    }

    fn answered(&mut self, outcome: Outcome) {
        let event = match outcome {
            Outcome::Looked(Ok(found)) => Event::Looked(found),
            Outcome::Wrote(why, Ok(version)) => {
                self.wrote(why);
                Event::Written(version)
            }
            Outcome::Looked(Err(refusal)) | Outcome::Wrote(_, Err(refusal)) => {
                self.shared.own.kubernetes.not_written(refusal.reason);
                tracing::debug!(
                    reason = refusal.reason,
                    error = refusal.message,
                    "the object was not had or not taken"
                );
                let failure = refusal.failure;
                self.refusal = Some(refusal);
                Event::Failed(failure)
            }
        };
        self.step(event);
    }

    fn wrote(&self, why: Why) {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.shared.own.kubernetes.wrote(why, at);
        match why {
            Why::Changed | Why::Refreshed => {
                tracing::debug!(why = why.as_str(), "NodeResourceTopology written")
            }
            Why::Absent => tracing::info!(why = why.as_str(), "NodeResourceTopology written"),
            Why::TakenOver => {
                tracing::warn!("the NodeResourceTopology object was taken over from another publisher")
            }
            Why::Restored => {
                tracing::warn!(
                    "someone has changed or deleted the NodeResourceTopology object; it was restored"
                );
            }
        }
    }

    /// The watch tells of the object, or that it cannot.
    fn noticed(&mut self, seen: Seen<Option<Observed>>) {
        let in_trouble = seen.trouble.is_some();
        if std::mem::replace(&mut self.watch_was_in_trouble, in_trouble) && !in_trouble {
            self.step(Event::ApiBack);
        }
        // Without a publisher's question there is nothing to compare with; in trouble, what was seen is old.
        if let (Some(value), false) = (&seen.value, in_trouble) {
            self.step(Event::Noticed((**value).clone()));
        }
    }

    fn log(&self, state: &State) {
        let standing = standing::standing(None, state, self.is_file());
        let (reason, meaning) = (standing.reason(), self.message(&standing));
        match state {
            State::Starting => {}
            State::Published => tracing::info!("the NodeResourceTopology object is up to date"),
            State::OtherPublisher { .. } | State::Contested { .. } => {
                tracing::warn!(reason, meaning, "not publishing")
            }
            State::Failing(_) => {
                let error = self.refusal.as_ref().map(|refusal| refusal.message.as_str());
                tracing::warn!(reason, error, meaning, "the NodeResourceTopology object is not published");
            }
        }
    }

    fn message(&self, standing: &Standing) -> String {
        let refusal = self.refusal.as_ref().map(|refusal| refusal.message.as_str());
        standing::message(standing, refusal, self.notes.in_words())
    }

    fn tell(&self) {
        let standing = standing::standing(self.missing(), self.publisher.state(), self.is_file());
        let message = self.message(&standing);
        tell(&self.shared, Publication { standing, message });
    }
}

/// Tells the other loops and the metrics how it gets on.
fn tell(shared: &Shared, publication: Publication) {
    shared.own.kubernetes.publication(publication.standing.reason());
    let publication = Some(publication);
    shared.kubernetes.publication.send_if_modified(|known| {
        let differs = *known != publication;
        *known = publication;
        differs
    });
}

async fn seen(watch: &mut Option<Watch<Option<Observed>>>) -> Seen<Option<Observed>> {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

async fn until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake.into()).await,
        None => std::future::pending().await,
    }
}
