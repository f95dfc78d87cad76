//! Who asked the API server for what, by its own audit log.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

/// A request that the API server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, …
    pub verb: String,
    /// Resource with its subresource, such as `nodes/status`; empty for paths that are none.
    pub resource: String,
    /// API group, empty for the core group.
    pub group: String,
    /// Namespace, empty for cluster-scoped ones.
    pub namespace: String,
    /// Name of the object, empty for collections.
    pub name: String,
    /// Path and query.
    pub uri: String,
    /// Who asked.
    pub user: String,
    /// What the program calls itself.
    pub user_agent: String,
    /// HTTP status of the answer.
    pub code: u16,
}

impl Request {
    /// Whether it was meant to change something.
    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection")
    }
}

/// All requests in the log, each once.
pub(super) fn read(log: &Path) -> Vec<Request> {
    let text = std::fs::read_to_string(log).unwrap();
    // The last line may be half-written.
    let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
    let mut seen = BTreeSet::new();
    let events = whole.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.filter(|event| seen.insert(event["auditID"].to_string())).map(|event| request(&event)).collect()
}

fn request(event: &Value) -> Request {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object = &event["objectRef"];
    let resource = match object["subresource"].as_str() {
        Some(subresource) => format!("{}/{subresource}", text(&object["resource"])),
        None => text(&object["resource"]),
    };
    Request {
        verb: text(&event["verb"]),
        resource,
        group: text(&object["apiGroup"]),
        namespace: text(&object["namespace"]),
        name: text(&object["name"]),
        uri: text(&event["requestURI"]),
        user: text(&event["user"]["username"]),
        user_agent: text(&event["userAgent"]),
        code: event["responseStatus"]["code"]
            .as_u64()
            .and_then(|code| u16::try_from(code).ok())
            .unwrap_or_default(),
    }
}
