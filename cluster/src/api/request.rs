//! The requests: which verbs on which resources, and no others.

use serde_json::Value;

/// What we call ourselves; the API server's audit log and its owners of fields show it.
const USER_AGENT: &str = concat!("gpulet/", env!("CARGO_PKG_VERSION"));

/// Objects as they are, in JSON.
const WHOLE: &str = "application/json";
/// Their metadata; a server that cannot do that answers with all of them.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// A resource of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    Nodes,
    NodeStatus,
    Pods,
    Evictions,
    Topologies,
    Slices,
    Events,
}

impl Resource {
    /// Its name as RBAC writes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::NodeStatus => "nodes/status",
            Self::Pods => "pods",
            Self::Evictions => "pods/eviction",
            Self::Topologies => "noderesourcetopologies",
            Self::Slices => "resourceslices",
            Self::Events => "events",
        }
    }

    /// Its name and group.
    pub(crate) fn with_group(self) -> &'static str {
        match self {
            Self::Topologies => "noderesourcetopologies.topology.node.k8s.io/v1alpha2",
            Self::Slices => "resourceslices.resource.k8s.io/v1",
            Self::Events => "events.events.k8s.io/v1",
            core => core.name(),
        }
    }

    fn collection(self) -> &'static str {
        match self {
            Self::Nodes | Self::NodeStatus => "/api/v1/nodes",
            Self::Pods => "/api/v1/pods",
            Self::Evictions => "/api/v1/namespaces",
            Self::Topologies => "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies",
            Self::Slices => "/apis/resource.k8s.io/v1/resourceslices",
            // Events about objects without a namespace live there.
            Self::Events => "/apis/events.k8s.io/v1/namespaces/default/events",
        }
    }
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    /// A server-side apply.
    Apply,
    /// A patch that merges, JSON's (RFC 7396).
    Merge,
    /// A patch that merges, Kubernetes' own, which knows the keys of lists.
    Strategic,
}

impl Verb {
    /// Its name in counts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Apply => "apply",
            Self::Merge | Self::Strategic => "patch",
        }
    }

    fn method(self) -> http::Method {
        match self {
            Self::Get | Self::List | Self::Watch => http::Method::GET,
            Self::Create => http::Method::POST,
            Self::Apply | Self::Merge | Self::Strategic => http::Method::PATCH,
        }
    }

    fn content_type(self) -> &'static str {
        match self {
            // The server reads YAML here, and JSON is YAML.
            Self::Apply => "application/apply-patch+yaml",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            _ => "application/json",
        }
    }
}

/// What a request is counted as; travels with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted {
    pub(crate) verb: &'static str,
    pub(crate) resource: &'static str,
}

/// One request.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) verb: Verb,
    pub(crate) resource: Resource,
    /// The object's namespace; absent: it has none, or the one of its collection.
    pub(crate) namespace: Option<String>,
    /// The object; absent: the collection.
    pub(crate) name: Option<String>,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) body: Option<Value>,
    /// Of the object that is answered, only the metadata.
    pub(crate) metadata_only: bool,
}

impl Request {
    pub(crate) fn new(verb: Verb, resource: Resource) -> Self {
        Self {
            verb,
            resource,
            namespace: None,
            name: None,
            query: Vec::new(),
            body: None,
            metadata_only: false,
        }
    }

    /// Spares the answer: it would repeat what was sent, or a whole Node.
    pub(crate) fn answered_by_metadata(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    pub(crate) fn of(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// The eviction of a Pod. It is made, and named, as a part of the Pod.
    pub(crate) fn evict(namespace: &str, pod: &str) -> Self {
        let request = Self::new(Verb::Create, Resource::Evictions).of(pod);
        Self { namespace: Some(namespace.to_owned()), ..request }
    }

    pub(crate) fn with(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.query.push((key, value.into()));
        self
    }

    pub(crate) fn sending(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// What it is called in messages.
    pub(crate) fn what(&self) -> String {
        let (verb, resource) = (self.verb.name(), self.resource.name());
        match (&self.namespace, &self.name) {
            (Some(namespace), Some(name)) => format!("{verb} {resource} {namespace}/{name}"),
            (None, Some(name)) => format!("{verb} {resource} {name}"),
            (_, None) => format!("{verb} {resource}"),
        }
    }

    /// The request for the client.
    pub(crate) fn build(&self) -> Result<http::Request<Vec<u8>>, http::Error> {
        let mut path = self.resource.collection().to_owned();
        if let Some(namespace) = &self.namespace {
            path.push('/');
            path.push_str(&escaped(namespace));
            path.push_str("/pods");
        }
        if let Some(name) = &self.name {
            path.push('/');
            path.push_str(&escaped(name));
        }
        if self.resource == Resource::NodeStatus {
            path.push_str("/status");
        }
        if self.resource == Resource::Evictions {
            path.push_str("/eviction");
        }
        for (number, (key, value)) in self.query.iter().enumerate() {
            path.push(if number == 0 { '?' } else { '&' });
            path.push_str(key);
            path.push('=');
            path.push_str(&escaped(value));
        }
        let body = self.body.as_ref().map(|body| body.to_string().into_bytes()).unwrap_or_default();
        http::Request::builder()
            .method(self.verb.method())
            .uri(path)
            .header(http::header::ACCEPT, if self.metadata_only { METADATA } else { WHOLE })
            .header(http::header::USER_AGENT, USER_AGENT)
            .header(http::header::CONTENT_TYPE, self.verb.content_type())
            .extension(Counted { verb: self.verb.name(), resource: self.resource.name() })
            .body(body)
    }
}

/// A text as it may stand in a path segment or query value (RFC 3986: everything but unreserved characters is escaped).
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => escaped.push(byte.into()),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_is_written_as_the_server_reads_it() {
        let request = Request::new(Verb::Watch, Resource::Pods)
            .with("fieldSelector", "spec.nodeName=node-a")
            .with("watch", "true");
        let built = request.build().unwrap();
        assert_eq!(built.method(), http::Method::GET);
        assert_eq!(built.uri(), "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-a&watch=true");
    }

    #[test]
    fn an_eviction_is_a_part_of_its_pod() {
        let built = Request::evict("a/b", "c").build().unwrap();
        assert_eq!(
            (built.method(), built.uri().path()),
            (&http::Method::POST, "/api/v1/namespaces/a%2Fb/pods/c/eviction")
        );
        assert_eq!(Request::evict("a", "b").what(), "create pods/eviction a/b");
    }

    #[test]
    fn a_name_cannot_leave_its_segment() {
        let built = Request::new(Verb::Strategic, Resource::NodeStatus).of("../a?b=c").build().unwrap();
        assert_eq!(built.uri(), "/api/v1/nodes/..%2Fa%3Fb%3Dc/status");
        assert_eq!(built.method(), http::Method::PATCH);
    }
}
