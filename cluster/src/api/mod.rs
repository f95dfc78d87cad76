//! The API server, as far as it concerns this node.
//!
//! What is asked of it is listed in docs/kubernetes.md and nothing else is: watches on this node's own objects, and single
//! calls on them. Nothing here decides when to write; whoever does gets errors with a stable reason and, where the server
//! asks for it, a time to wait.
//!
//! - [`Access`]: where the server is and who we are to it
//! - [`Api`]: the calls and watches; [`Watch`], [`Seen`]: what a watch has seen
//! - [`ApiError`]: why something was not had
//! - [`Traffic`]: what was asked, counted

mod access;
mod connection;
mod error;
mod events;
mod files;
mod meta;
mod meter;
mod node;
mod nrt;
mod pace;
mod pods;
mod request;
mod seen;
mod slices;
mod traffic;
mod watch;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use gpulet_inventory::dra::PublishedDevice;
use gpulet_inventory::pod::Pod;
use gpulet_topology::nrt::object::Body;
use gpulet_topology::nrt::observed::Observed;
use gpulet_topology::nrt::ownership::FIELD_MANAGER;
use k8s_openapi::jiff::Timestamp;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::json;

pub use access::{Access, ServiceAccount};
pub use error::{ApiError, Tried};
pub use events::{Event, EventKind};
pub use node::{CONDITIONS, Condition, ConditionStatus, MetadataChange, Node, NodeChange};
pub use nrt::Version;
pub use pace::{Limits, Pace};
pub use seen::{Seen, Watch};
pub use traffic::{Count, Kind, Traffic};

use connection::Connection;
use events::{Recent, Telling};
use meta::Object;
use node::NodeObject;
use nrt::TopologyObject;
use request::{Request, Resource, Verb};
use watch::{Mirror, Select, Watcher};

/// This node's part of the Kubernetes API. Clones share one connection.
#[derive(Debug, Clone)]
pub struct Api {
    connection: Arc<Connection>,
    node: Arc<str>,
    recent: Arc<Mutex<Recent>>,
}

impl Api {
    /// Finds credentials for this node's API server. Nothing is asked of it yet: it need not be there. Must be called on a
    /// tokio runtime.
    ///
    /// # Errors
    /// `NoAccess` with all places that were tried, or `Credentials` that cannot be used.
    pub async fn connect(access: Access, node: &str, limits: Limits) -> Result<Self, ApiError> {
        let connection = Arc::new(Connection::open(access, limits).await?);
        Ok(Self { connection, node: node.into(), recent: Arc::default() })
    }

    /// The node that this is about.
    pub fn node_name(&self) -> &str {
        &self.node
    }

    /// Where the credentials are from, for messages.
    pub fn place(&self) -> Arc<str> {
        self.connection.place()
    }

    /// What was asked so far, counted.
    pub fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(self.connection.traffic())
    }

    /// Watches our own Node; nothing in it means that there is none of this name.
    pub fn node(&self) -> Watch<Option<Node>> {
        self.watch(Resource::Nodes, "metadata.name", Mirror::new(node::node, node::only))
    }

    /// Watches the Pods that are bound to this node.
    pub fn pods(&self) -> Watch<Vec<Pod>> {
        self.watch(Resource::Pods, "spec.nodeName", Mirror::new(pods::pod, pods::all))
    }

    /// Watches this node's NodeResourceTopology; nothing in it means that there is none. While the API server does not have
    /// the kind, there is no value and the trouble is `NotInstalled`.
    pub fn nrt(&self) -> Watch<Option<Observed>> {
        self.watch(Resource::Topologies, "metadata.name", Mirror::new(nrt::observed, nrt::only))
    }

    /// Watches the devices that DRA drivers publish for this node. Where the API server does not have ResourceSlices, there
    /// is no value, the trouble is `NotInstalled`, and that is asked again rarely.
    pub fn resource_slices(&self) -> Watch<Vec<PublishedDevice>> {
        self.watch(Resource::Slices, "spec.nodeName", Mirror::new(slices::slice, slices::devices))
    }

    fn watch<O, T, V>(&self, resource: Resource, field: &str, mirror: Mirror<O, T, V>) -> Watch<V>
    where
        O: Object + DeserializeOwned + Clone + Send + 'static,
        T: Send + 'static,
        V: PartialEq + Send + Sync + 'static,
    {
        let connection = Arc::clone(&self.connection);
        let limits = connection.limits();
        let absent = if resource == Resource::Slices { limits.rare } else { limits.absent };
        let select = Select { resource, fields: format!("{field}={}", self.node), absent };
        Watch::spawn(|seen| Watcher { connection, select, mirror, seen }.run())
    }

    /// Reads this node's NodeResourceTopology.
    ///
    /// # Errors
    /// `NotFound` where there is none, `NotInstalled` where the API server does not have the kind; others as they come.
    pub async fn get_nrt(&self) -> Result<Observed, ApiError> {
        let request = Request::new(Verb::Get, Resource::Topologies).of(&self.node);
        self.connection.call::<TopologyObject>(&request).await.map(nrt::observed)
    }

    /// Writes this node's NodeResourceTopology by server-side apply as field manager `gpulet`, owned by the Node of that
    /// UID, and gives its version then. What equals the object already does not change its version. With `force`,
    /// ownership of what others have written passes to us.
    ///
    /// # Errors
    /// `Conflict` with the other field managers, `NotInstalled`, `Invalid`; others as they come.
    pub async fn apply_nrt(
        &self,
        body: &Body,
        node_uid: Option<&str>,
        force: bool,
    ) -> Result<Version, ApiError> {
        let request = Request::new(Verb::Apply, Resource::Topologies)
            .of(&self.node)
            .answered_by_metadata()
            .with("fieldManager", FIELD_MANAGER)
            .with("force", force.to_string())
            .sending(nrt::applied(&self.node, node_uid, body));
        self.connection.call::<nrt::Written>(&request).await.map(Version::from)
    }

    /// Sets one condition of our Node, touching no other, and says whether it had to be written. Its time of transition
    /// changes when its status does.
    ///
    /// # Errors
    /// `NotFound` where there is no such Node; others as they come.
    pub async fn set_condition(&self, wanted: &Condition) -> Result<bool, ApiError> {
        let get = Request::new(Verb::Get, Resource::Nodes).of(&self.node);
        let node = node::node(self.connection.call::<NodeObject>(&get).await?);
        let before = node.conditions.iter().find(|condition| condition.kind == wanted.kind);
        if before == Some(wanted) {
            return Ok(false);
        }
        let now = now_in_seconds();
        self.patch_status(node::condition_patch(wanted, before, &now)).await.map(|()| true)
    }

    async fn patch_status(&self, patch: serde_json::Value) -> Result<(), ApiError> {
        let request = Request::new(Verb::Strategic, Resource::NodeStatus)
            .of(&self.node)
            .answered_by_metadata()
            .with("fieldManager", FIELD_MANAGER)
            .sending(patch);
        self.connection.call::<IgnoredAny>(&request).await.map(drop)
    }

    /// Reads our Node, with its version.
    ///
    /// # Errors
    /// `NotFound` where there is no such Node; others as they come.
    pub async fn get_node(&self) -> Result<(Node, String), ApiError> {
        let get = Request::new(Verb::Get, Resource::Nodes).of(&self.node);
        self.connection.call::<NodeObject>(&get).await.map(node::versioned)
    }

    /// Changes our Node: labels, annotations, whether Pods may be placed on it; nothing else.
    ///
    /// # Errors
    /// `NotFound` where there is no such Node, `Conflict` where it has another version than the change is for; others as they
    /// come.
    pub async fn change_node(&self, change: &NodeChange) -> Result<(), ApiError> {
        let request = Request::new(Verb::Merge, Resource::Nodes)
            .of(&self.node)
            .answered_by_metadata()
            .with("fieldManager", FIELD_MANAGER)
            .sending(json!(change));
        self.connection.call::<IgnoredAny>(&request).await.map(drop)
    }

    /// Evicts a Pod of this node through the eviction API, if it still has this UID: a Pod of that name may run elsewhere by now.
    ///
    /// # Errors
    /// `Throttled` where a PodDisruptionBudget forbids it for now ([`ApiError::budget`]), `NotFound` where it is gone,
    /// `Conflict` where another has its name by now; others as they come.
    pub async fn evict(&self, namespace: &str, pod: &str, uid: &str) -> Result<(), ApiError> {
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        });
        let request = Request::evict(namespace, pod).sending(eviction);
        self.connection.call::<IgnoredAny>(&request).await.map(drop)
    }

    /// Tells an event about our Node; one that says the same as an event of the last six minutes makes that one's count
    /// grow.
    ///
    /// # Errors
    /// As they come; the event is then not told.
    pub async fn event(&self, event: &Event) -> Result<(), ApiError> {
        let name = || events::name(&self.node, pace::random());
        let telling = self.recent().tell(event, name, Instant::now());
        match telling {
            Telling::New(name) => self.new_event(&name, event).await,
            Telling::Again(name, count) => match self.event_again(&name, count).await {
                // The server has forgotten it.
                Err(ApiError::NotFound { .. }) => {
                    self.recent().forget(&name);
                    self.new_event(&events::name(&self.node, pace::random()), event).await
                }
                told => told,
            },
        }
    }

    async fn new_event(&self, name: &str, event: &Event) -> Result<(), ApiError> {
        let object = events::object(&self.node, name, event, &now_in_microseconds());
        let request = Request::new(Verb::Create, Resource::Events).sending(object);
        let told = self.connection.call::<IgnoredAny>(&request).await;
        told.map(drop).inspect_err(|_| self.recent().forget(name))
    }

    async fn event_again(&self, name: &str, count: u32) -> Result<(), ApiError> {
        let series = events::series(count, &now_in_microseconds());
        let request = Request::new(Verb::Merge, Resource::Events).of(name).sending(series);
        self.connection.call::<IgnoredAny>(&request).await.map(drop)
    }

    fn recent(&self) -> std::sync::MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time as `metav1.Time` is written: RFC 3339, in seconds.
pub fn now_in_seconds() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The time as `metav1.MicroTime` is written.
fn now_in_microseconds() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
